"""A sweep without a GPU: a stand-in for trtexec prints its formats, or the engines are handed in.

Not shown here: any speed, how far real engines are from the original, and that trtexec takes the command.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_code.text_encoding import build_engine, differences, sweep_report, trtexec
from model_code.text_encoding.build_engine import BuildError
from model_code.text_encoding.differences import SamplesError
from model_code.text_encoding.engine import Engine, Shapes
from model_code.text_encoding.sweep import main, sweep
from model_code.text_encoding.sweep_report import Failed, Measured
from model_code.text_encoding.trtexec import Build, TrtexecError
from tests.serving.triton import models

SHAPES = Shapes(minimum=(1, 4), optimum=(3, 8), maximum=(8, 16))


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """A folder as export_onnx leaves it, with a real ONNX encoder."""
    folder = tmp_path / "exported"
    onnx_file = models.encoder(folder / "model.onnx", seed=5)
    tensors = models.engine()
    report = {
        "inputs": {name: dataclasses.asdict(one) for name, one in tensors.inputs.items()},
        "outputs": {name: dataclasses.asdict(one) for name, one in tensors.outputs.items()},
        "max_sequence": 16, "onnx_sha256": hashlib.sha256(onnx_file.read_bytes()).hexdigest(),
    }  # fmt: skip
    (folder / "export.json").write_text(json.dumps(report))
    return folder


def inputs(samples: int = 5, sequence: int = 12) -> dict[str, Any]:
    """int32 [samples, sequence]; every row ends in padding."""
    random = np.random.default_rng(0)
    mask = (np.arange(sequence) < random.integers(2, 6, size=(samples, 1))).astype(np.int32)
    return {"input_ids": random.integers(0, 50, (samples, sequence), dtype=np.int32), "attention_mask": mask}


@pytest.fixture
def arguments(exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A command line that works, with the stand-ins for trtexec and nvidia-smi on PATH."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "trtexec").symlink_to(Path(__file__).with_name("fake_trtexec.py"))
    (tools / "nvidia-smi").write_text("#!/bin/sh\necho '580.95.05, NVIDIA A10G, 8.6'\n")
    (tools / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{Path(sys.executable).parent}")
    monkeypatch.setenv("FAKE_ONNX", str(exported / "model.onnx"))
    np.savez(tmp_path / "samples.npz", **inputs())
    shapes = ["--min", "1x4", "--opt", "3x8", "--max", "8x16"]
    return [
        "--onnx",
        str(exported),
        "--output",
        str(tmp_path / "out"),
        "--samples",
        str(tmp_path / "samples.npz"),
        *shapes,
    ]


def test_each_precision_is_built_measured_and_compared(
    arguments: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 0
    printed = capfd.readouterr().out
    assert "--- fp32 ---" in printed and "--- fp16 ---" in printed and "Recommended: **fp32**" in printed
    out = tmp_path / "out"
    assert sorted(path.name for path in out.iterdir()) == ["fp16", "fp32", "report.json", "report.md", "report.png"]
    assert sorted(path.name for path in (out / "fp16").iterdir()) == ["build.log", "engine.json", "model.plan"]
    report = json.loads((out / "report.json").read_text())
    assert report["machine"]["gpu"] == "NVIDIA A10G" and report["machine"]["tensorrt"] == "10.13.3"
    assert report["shape"] == [3, 8] and report["samples"] == 3, "one batch of the optimum shape"
    assert [row["precision"] for row in report["precisions"]] == ["fp32", "fp16"]
    row = report["precisions"][1]
    # 641.5 batches of 3 a second, and the latencies that the stand-in prints.
    assert (row["texts_per_second"], row["latency_p50_ms"], row["latency_p99_ms"]) == (641.5 * 3, 1.4, 2.25)
    assert row["similarity"] == pytest.approx(1, abs=1e-6) and 0 <= row["largest_difference"] < 1e-4, "six digits"
    assert row["plan_bytes"] == (out / "fp16" / "model.plan").stat().st_size
    assert (out / "report.md").read_text().count("| fp") == 2
    assert (out / "report.png").read_bytes().startswith(b"\x89PNG")


def test_int8_is_calibrated_and_the_others_are_not(arguments: list[str], tmp_path: Path) -> None:
    calibration = arguments[arguments.index("--samples") + 1]
    arguments[arguments.index("--samples")] = "--calibration"
    assert main([*arguments, "--precisions", "int8", "fp16"]) == 0, "calibration data serves as samples"
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    failed, built = report["precisions"]
    # ModelOpt is no part of this environment, as it may be missing elsewhere.
    assert failed["precision"] == "int8" and "modelopt" in failed["reason"] and built["precision"] == "fp16"
    assert report["recommended"] == "fp16" and "not built" in (tmp_path / "out" / "report.md").read_text()
    assert calibration in (tmp_path / "out" / "int8" / "build.log").read_text()
    assert calibration not in (tmp_path / "out" / "fp16" / "build.log").read_text()


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        (["--precisions", "int8"], "needs calibration data"),
        (["--max", "8x17"], "--max: 17 tokens, the model takes at most 16"),
        (["--opt", "3x13"], "it must be [samples, 13 tokens or more]"),
        (["--samples", "nowhere.npz"], "nowhere.npz: no .npz file with input_ids, attention_mask"),
    ],
)
def test_what_cannot_be_swept_is_told_before_anything_is_built(
    arguments: list[str], tmp_path: Path, extra: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, *extra]) == 2
    error = capsys.readouterr().err
    assert error.startswith("sweep: ") and told in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_without_samples_nothing_is_compared(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    at = arguments.index("--samples")
    assert main(arguments[:at] + arguments[at + 2 :]) == 2
    assert "--samples: give an .npz file" in capsys.readouterr().err


def test_nothing_built_is_a_failure_with_a_report(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_TRTEXEC", "fails")
    assert main(arguments) == 2
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["recommended"] is None and all("out of memory" in row["reason"] for row in report["precisions"])
    assert "Nothing was built." in (tmp_path / "out" / "report.md").read_text()


def test_an_engine_that_does_not_run_is_no_candidate(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_TRTEXEC", "cannot run")
    assert main(arguments) == 2
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert all("ended with status 1 and no outputs" in row["reason"] for row in report["precisions"])


def test_without_matplotlib_the_report_has_no_picture(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(_: Any) -> Any:
        raise ImportError("No module named 'matplotlib'")

    monkeypatch.setattr(sweep_report, "picture", missing)
    assert main(arguments) == 0
    assert "no report.png: No module named 'matplotlib'" in capsys.readouterr().err
    assert (tmp_path / "out" / "report.json").is_file() and not (tmp_path / "out" / "report.png").exists()


def engine_of(precision: str, *, qps: float) -> Engine:
    latency = {"median": 1.0, "p99": 2.0}
    measured = {"throughput_qps": qps, "latency_ms": latency}
    return models.engine(precision=precision, shapes=SHAPES, measured=measured)


@pytest.mark.parametrize(
    ("noise", "picked"),
    [
        ({"fp32": 0.0, "fp16": 1e-3, "int8": 1e-2}, "int8"),
        ({"fp32": 0.0, "fp16": 1e-3, "int8": 9.0}, "fp16"),
        ({"fp32": 0.0, "fp16": 9.0, "int8": 9.0}, "fp32"),
        ({"fp32": 0.0, "fp16": math.nan, "int8": math.nan}, "fp32"),
        ({"fp32": math.nan, "fp16": 9.0, "int8": math.nan}, None),
    ],
)
def test_the_fastest_of_the_close_ones_is_recommended(
    tmp_path: Path, noise: dict[str, float], picked: str | None
) -> None:
    fed = inputs(sequence=8)
    wanted = differences.reference(models.encoder(tmp_path / "model.onnx", seed=5), fed)
    speeds = {"fp32": 100.0, "fp16": 200.0, "int8": 300.0}
    builds = {}
    for precision in speeds:
        plan = tmp_path / precision
        plan.write_bytes(b"plan")
        builds[precision] = Build(
            onnx=tmp_path / "model.onnx", plan=plan, shapes=SHAPES, inputs=list(fed), precision=precision
        )

    def answer(plan: Path, given: Any) -> dict[str, Any]:
        random = np.random.default_rng(1)
        return {
            name: values + noise[plan.name] * random.standard_normal(values.shape) for name, values in wanted.items()
        }

    rows = sweep(
        builds, {}, inputs=fed, wanted=wanted, answer=answer,
        build=lambda one, _: engine_of(one.precision, qps=speeds[one.precision]),
    )  # fmt: skip
    report = sweep_report.report(rows, samples=5, least=0.99)
    assert report["recommended"] == picked
    json.dumps(report, allow_nan=False)
    assert "0.99" in report["rule"] and report["rule"] in sweep_report.markdown(report)


def test_one_precision_that_fails_does_not_end_the_others(tmp_path: Path) -> None:
    (tmp_path / "plan").write_bytes(b"plan")
    one = Build(onnx=tmp_path / "m", plan=tmp_path / "plan", shapes=SHAPES, inputs=("input_ids",))

    def build(one: Build, _: Any) -> Engine:
        if one.precision == "fp32":
            raise BuildError("out of memory")
        return engine_of(one.precision, qps=1)

    builds = {precision: dataclasses.replace(one, precision=precision) for precision in ("fp32", "fp16")}
    vectors = {"pooler_output": np.ones((2, 4), np.float32)}
    rows = sweep(
        builds, {}, inputs={"attention_mask": np.ones((2, 4), np.int32)}, wanted=vectors, build=build,
        answer=lambda *_: vectors,
    )  # fmt: skip
    assert rows[0] == Failed(precision="fp32", reason="out of memory") and isinstance(rows[1], Measured)


def test_padding_does_not_count_and_no_number_is_never_close() -> None:
    mask = np.array([[1, 1, 0], [1, 0, 0]], np.int32)
    right = {"tokens": np.ones((2, 3, 2), np.float32), "pooled": np.ones((2, 2), np.float32)}
    ours = {name: values.copy() for name, values in right.items()}
    ours["tokens"][0, 2] = [-7, 9]
    found = differences.difference(ours, right, mask=mask)
    assert found.similarity == pytest.approx(1) and found.largest == 0
    ours["tokens"][0, 1] = [1, 0]
    found = differences.difference(ours, right, mask=mask)
    assert found.similarity == pytest.approx(math.sqrt(0.5)) and found.largest == 1
    ours["pooled"][1, 0] = math.nan
    assert math.isnan(differences.difference(ours, right, mask=mask).similarity)
    wrongs: list[dict[str, Any]] = [{"tokens": ours["tokens"]}, {**ours, "pooled": np.ones((2, 3))}]
    for wrong in wrongs:
        with pytest.raises(TrtexecError, match="output pooled: shape"):
            differences.difference(wrong, right, mask=mask)


def test_exported_outputs_with_what_json_cannot_say() -> None:
    text = '[\n  { "name" : "nan"\n  , "dimensions" : "1x4"\n  , "values" : [ nan, -nan, -inf, 1.5e-05 ]\n  }\n]\n'
    with pytest.raises(TrtexecError, match="exported no outputs"):
        trtexec.answered(text.replace("[ nan", "[ nought"))
    size, values = trtexec.answered(text.replace('"nan"', '"pooled"'))["pooled"]
    assert size == (1, 4) and math.isnan(values[0]) and math.isnan(values[1]) and values[2:] == [-math.inf, 1.5e-05]


def test_samples_are_cut_to_the_optimum_shape(tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", **{name: values.astype(np.int64) for name, values in inputs().items()})
    found = differences.samples(tmp_path / "s.npz", ["input_ids", "attention_mask"], batch=2, sequence=8)
    assert {(values.shape, str(values.dtype)) for values in found.values()} == {((2, 8), "int32")}
    with pytest.raises(SamplesError, match="token_type_ids"):
        differences.samples(tmp_path / "s.npz", ["token_type_ids"], batch=2, sequence=8)


def test_the_command_that_asks_an_engine() -> None:
    files = {"input_ids": Path("w/input_ids.bin"), "attention_mask": Path("w/attention_mask.bin")}
    assert " ".join(trtexec.answering(Path("o/model.plan"), files, (3, 8), Path("w/out.json"))) == (
        "trtexec --loadEngine=o/model.plan --shapes=input_ids:3x8,attention_mask:3x8 "
        "--loadInputs=input_ids:w/input_ids.bin,attention_mask:w/attention_mask.bin "
        "--iterations=1 --warmUp=0 --duration=0 --exportOutput=w/out.json"
    )


def test_a_build_refuses_calibration_data_that_it_would_not_use(exported: Path, tmp_path: Path) -> None:
    options = ["--onnx", str(exported), "--output", str(tmp_path), "--opt", "3x8", "--max", "8x16", "--dry-run"]
    assert build_engine.main([*options, "--tensorrt-major", "10", "--calibration", "c.npz"]) == 2

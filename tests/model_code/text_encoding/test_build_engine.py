"""trtexec's command lines and output for each major version, and a build around a stand-in for trtexec.

Not shown here, since it takes a GPU and TensorRT: that trtexec accepts these lines, that ModelOpt converts, any speed.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from model_code.text_encoding import engine, trtexec
from model_code.text_encoding.build_engine import main
from model_code.text_encoding.engine import EngineError, Shapes
from model_code.text_encoding.trtexec import Build, TrtexecError

SHAPES = Shapes(minimum=(1, 16), optimum=(16, 128), maximum=(128, 128))
PROFILE = (
    "--minShapes=input_ids:1x16,attention_mask:1x16 --optShapes=input_ids:16x128,attention_mask:16x128 "
    "--maxShapes=input_ids:128x128,attention_mask:128x128 --shapes=input_ids:16x128,attention_mask:16x128"
)
CONVERT = {
    "fp16": "python3 -m modelopt.onnx.autocast --onnx_path=m/model.onnx --output_path=o/model.fp16.onnx "
    "--low_precision_type=fp16 --keep_io_types",
    "int8": "python3 -m modelopt.onnx.quantization --onnx_path=m/model.onnx --output_path=o/model.int8.onnx "
    "--quantize_mode=int8 --high_precision_dtype=fp16 --calibration_data_path=c.npz --calibration_eps cuda:0 cpu",
}
OLD, NEW = "--workspace=2048", "--memPoolSize=workspace:2048"
GOLDEN = {
    (8, "fp32"): (None, "m/model.onnx", OLD),
    (8, "fp16"): (None, "m/model.onnx", f"{OLD} --fp16"),
    (8, "int8"): ("int8", "o/model.int8.onnx", f"{OLD} --fp16 --int8"),
    (10, "fp32"): (None, "m/model.onnx", NEW),
    (10, "fp16"): (None, "m/model.onnx", f"{NEW} --fp16"),
    (10, "int8"): ("int8", "o/model.int8.onnx", f"{NEW} --fp16 --int8"),
    (11, "fp32"): (None, "m/model.onnx", NEW),
    (11, "fp16"): ("fp16", "o/model.fp16.onnx", NEW),
    (11, "int8"): ("int8", "o/model.int8.onnx", NEW),
}


def build(precision: str, calibration: str | None = None) -> Build:
    return Build(
        onnx=Path("m/model.onnx"), plan=Path("o/model.plan"), shapes=SHAPES, inputs=("input_ids", "attention_mask"),
        precision=precision, workspace_mib=2048, calibration=Path(calibration) if calibration else None,
    )  # fmt: skip


@pytest.mark.parametrize(("major", "precision"), GOLDEN)
def test_command_lines(major: int, precision: str) -> None:
    convert, source, options = GOLDEN[major, precision]
    *before, last = trtexec.commands(build(precision, "c.npz" if precision == "int8" else None), major)
    assert [" ".join(command) for command in before] == ([CONVERT[convert]] if convert else [])
    assert " ".join(last) == (
        f"trtexec --onnx={source} --saveEngine=o/model.plan {PROFILE} {options} --percentile=50,90,95,99"
    )


@pytest.mark.parametrize(
    ("precision", "calibration", "major", "sentence"),
    [
        ("int8", None, 10, "precision 'int8' needs calibration data"),
        ("fp16", "c.npz", 10, "precision 'fp16' takes no calibration data"),
        ("fp8", None, 10, "precision 'fp8': it is one of fp32, fp16, int8"),
        ("fp16", None, 7, "TensorRT 7: this knows the options of 8, 9, 10, 11"),
        ("fp16", None, 12, "TensorRT 12"),
    ],
)
def test_what_cannot_be_asked(precision: str, calibration: str | None, major: int, sentence: str) -> None:
    with pytest.raises(TrtexecError, match=sentence):
        trtexec.commands(build(precision, calibration), major)


@pytest.mark.parametrize(
    ("tag", "version"),
    [
        ("v8503", "8.5.3"), ("v8601", "8.6.1"), ("v9300", "9.3.0"), ("v100900] [b34", "10.9.0"),
        ("v101303", "10.13.3"), ("v110100", "11.1.0"), ("v11.1.0.106] [b48", "11.1.0"),
    ],
)  # fmt: skip
def test_versions_in_the_banner(tag: str, version: str) -> None:
    assert trtexec.version(f"&&&& RUNNING TensorRT.trtexec [TensorRT {tag}] # trtexec\n") == version


@pytest.mark.parametrize("read", [trtexec.version, trtexec.device, trtexec.measured, trtexec.driver_and_gpu])
def test_output_without_what_it_should_tell(read: object) -> None:
    with pytest.raises(TrtexecError):
        read("no such thing\n")  # type: ignore[operator]


def test_figures_of_an_older_trtexec() -> None:
    """TensorRT 8 prints one percentile and a line that 10 no longer has; large rates come as 2.5e+06."""
    old = (
        "[12/19/2022-11:20:20] [I] Throughput: 2.54521e+06 qps\n"
        "[12/19/2022-11:20:20] [I] Latency: min = 2 ms, max = 3 ms, mean = 2.1 ms, median = 2.0 ms, "
        "percentile(99%) = 2.6 ms\n"
        "[12/19/2022-11:20:20] [I] End-to-End Host Latency: min = 2 ms, max = 3 ms\n"
    )
    assert trtexec.measured(old) == {
        "throughput_qps": 2_545_210.0,
        "latency_ms": {"min": 2.0, "max": 3.0, "mean": 2.1, "median": 2.0, "p99": 2.6},
    }


@pytest.mark.parametrize("sizes", [((0, 1), (1, 1), (1, 1)), ((2, 1), (1, 1), (3, 1)), ((1, 9), (1, 9), (2, 8))])
def test_shapes_out_of_order(sizes: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(EngineError, match="no larger than the next"):
        Shapes(minimum=sizes[0], optimum=sizes[1], maximum=sizes[2])


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """A folder as export_onnx leaves it; nothing here reads the ONNX file."""
    folder = tmp_path / "exported"
    folder.mkdir()
    (folder / "model.onnx").write_bytes(b"onnx")
    tensor = {"dtype": "int32", "dims": [-1, -1]}
    report = {
        "inputs": {"input_ids": tensor, "attention_mask": tensor},
        "outputs": {"pooler_output": {"dtype": "float32", "dims": [-1, 4]}},
        "max_sequence": 512, "onnx_sha256": hashlib.sha256(b"onnx").hexdigest(),
    }  # fmt: skip
    (folder / "export.json").write_text(json.dumps(report))
    return folder


def test_a_build_is_described_by_engine_json(
    exported: Path, machine: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "engine"
    assert main(["--onnx", str(exported), "--output", str(output)]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "driver 580.95.05, NVIDIA A10G, compute capability 8.6" and lines[1] == "TensorRT 10.13.3"
    assert "[I] Throughput: 641.5 qps" in (output / "build.log").read_text()
    assert sorted(path.name for path in output.iterdir()) == ["build.log", "engine.json", "model.plan"]
    built = engine.read(output / "engine.json")
    assert (built.tensorrt, built.cuda, built.driver) == ("10.13.3", "13.0.1", "580.95.05")
    assert (built.gpu, built.compute_capability, built.precision) == ("NVIDIA A10G", "8.6", "fp16")
    assert built.shapes == SHAPES and list(built.inputs) == ["input_ids", "attention_mask"]
    assert built.plan_sha256 == hashlib.sha256((output / "model.plan").read_bytes()).hexdigest()
    assert built.onnx_sha256 == hashlib.sha256(b"onnx").hexdigest()
    assert built.commands[-1][0] == "trtexec" and "--fp16" in built.commands[-1]
    assert built.measured["throughput_qps"] == 641.5
    assert built.measured["latency_ms"] == {
        "min": 1.25, "max": 4.5, "mean": 1.5, "median": 1.4, "p50": 1.4, "p90": 1.6, "p95": 1.7, "p99": 2.25,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("fails", "trtexec ended with status 1 (TensorRT 10.13.3, driver 580.95.05, NVIDIA A10G): "
                  "[12/02/2026-03:00:01] [E] Error[2]: out of memory"),
        ("writes nothing", "ended with status 0 and wrote no plan"),
        ("other version", "the plan says TensorRT 8.5.3, trtexec 10.13.3"),
        ("no figures", "no performance summary"),
    ],
)  # fmt: skip
def test_a_failed_build_fails_and_leaves_its_log_alone(
    exported: Path, machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], fault: str, sentence: str,
) -> None:  # fmt: skip
    output = tmp_path / "engine"
    assert main(["--onnx", str(exported), "--output", str(output)]) == 0, "an earlier, good build"
    monkeypatch.setenv("FAKE_TRTEXEC", fault)
    assert main(["--onnx", str(exported), "--output", str(output)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("build_engine: ") and sentence in error and error.count("\n") == 1
    assert [path.name for path in output.iterdir()] == ["build.log"]


def test_machines_that_cannot_build_are_told_why(
    exported: Path, machine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--onnx", str(exported), "--output", str(tmp_path / "engine")]
    assert main([*arguments, "--minimum-driver", "590"]) == 2
    assert "driver 580.95.05 is too old: this image needs branch 590 or newer" in capsys.readouterr().err
    (machine / "trtexec").unlink()
    assert main(arguments) == 2
    assert "no trtexec on PATH" in capsys.readouterr().err
    (machine / "nvidia-smi").unlink()
    assert main(arguments) == 2
    assert "no NVIDIA GPU here" in capsys.readouterr().err
    assert not (tmp_path / "engine" / "engine.json").exists()


def test_a_dry_run_prints_the_commands_anywhere(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    arguments = ["--onnx", str(exported), "--output", str(tmp_path / "engine"), "--dry-run"]
    assert main([*arguments, "--tensorrt-major", "11"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["python3", "trtexec"]
    assert main(arguments) == 2
    assert "give --tensorrt-major 8, 9, 10 or 11" in capsys.readouterr().err
    assert not (tmp_path / "engine").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--max", "128x513"], "--max: 513 tokens, the model takes at most 512"),
        (["--opt", "16"], "'16': a shape is batch x sequence"),
        (["--opt", "200x128"], "no larger than the next"),
        (["--precision", "int8"], "needs calibration data (--calibration)"),
    ],
)
def test_wrong_arguments(
    exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    base = ["--onnx", str(exported), "--output", str(tmp_path / "engine"), "--dry-run", "--tensorrt-major", "10"]
    assert main([*base, *arguments]) == 2
    assert sentence in capsys.readouterr().err


def test_another_onnx_file_than_exported(exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (exported / "model.onnx").write_bytes(b"other")
    assert main(["--onnx", str(exported), "--output", str(tmp_path), "--dry-run", "--tensorrt-major", "10"]) == 2
    assert "is not the file that export.json describes" in capsys.readouterr().err

"""The engine's job: from a model's folder to archives, engine.json and probe, on a GPU or, asked for it, on a CPU."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnxruntime
import pytest

from model_code import archive
from model_code.text_encoding import build, engine, repository
from torchlift.handlers.verify_endpoint import vectors

ROOT = Path(__file__).parents[3]
SIZES = ["--max-length=40", "--opt-length=24", "--min-length=16", "--max-batch=8", "--opt-batch=4"]


def tiny_model() -> ModuleType:
    spec = importlib.util.spec_from_file_location("torchlift_tiny", ROOT / "tests" / "model_code" / "tiny_model.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT with a pooler; longest sequence 40."""
    return Path(tiny_model().write_base(tmp_path_factory.mktemp("base") / "model", layers=1))


def made(base: Path, output: Path, *options: str) -> int:
    return build.main([f"--model={base}", f"--output={output}", *SIZES, *options])


def test_on_a_gpu(base: Path, machine: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "output"
    options = ("--device=gpu", "--models=2", "--preferred=2", "--queue-delay-ms=2.5", "--minimum-driver=580")
    assert made(base, output, *options) == 0
    assert capfd.readouterr().out.startswith("driver 580.95.05, NVIDIA A10G"), "before anything else"
    found_files = {path.relative_to(output).as_posix() for path in output.rglob("*") if path.is_file()}
    assert "tokenizer/tokenizer.json" in found_files
    assert {name for name in found_files if not name.startswith("tokenizer/")} == {
        "archives/encoder-0.tar.gz", "archives/encoder-1.tar.gz", "build.log", "engine.json", "export.json",
        "probe.json",
    }  # fmt: skip
    for name in ("encoder-0", "encoder-1"):
        found = repository.check(output / "archives" / f"{name}.tar.gz", tensorrt="10.13.3", compute_capability="8.6")
        assert found == engine.read(output / "engine.json")
        archive.unpack(output / "archives" / f"{name}.tar.gz", tmp_path / name)
        config = (tmp_path / name / name / "config.pbtxt").read_text()
        assert "max_queue_delay_microseconds: 2500" in config
        assert "preferred_batch_size: 2" in config


def test_a_disk_too_small_is_told_before_it_is_full(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    total, used, _ = shutil.disk_usage(tmp_path)
    assert made(base, tmp_path / "one", "--device=cpu") == 0
    (archived,) = (tmp_path / "one" / "archives").iterdir()
    # Three need five times the size beside the first, five need nine times.
    free = 5 * archived.stat().st_size
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"total": total, "used": used, "free": free}))
    assert made(base, tmp_path / "three", "--device=cpu", "--models=3") == 0
    capsys.readouterr()
    assert made(base, tmp_path / "five", "--device=cpu", "--models=5") == 2
    assert "5 archives of" in (told := capsys.readouterr().err) and "root_volume_gib" in told
    assert len(list((tmp_path / "five" / "archives").iterdir())) == 1


def test_the_probe_is_the_models_own_answer(base: Path, machine: Path, tmp_path: Path) -> None:
    """Held against the handler that asks an endpoint, and against the model by another way."""
    output = tmp_path / "output"
    assert made(base, output, "--device=cpu") == 0
    document = (output / "probe.json").read_bytes()
    probe = vectors.parse(document)
    archive.unpack(output / "archives/encoder-0.tar.gz", tmp_path / "model")
    session = onnxruntime.InferenceSession(str(tmp_path / "model/encoder-0/1/model.onnx"))
    for number, case in enumerate(probe.cases):
        asked: dict[str, Any] = json.loads(case.request)
        feeds = {one["name"]: np.array(one["data"], np.int32).reshape(one["shape"]) for one in asked["inputs"]}
        (name,) = [one["name"] for one in asked["outputs"]]
        (answer,) = session.run([name], feeds)

        def body(values: Any, name: str = name) -> bytes:
            told = {"name": name, "datatype": "FP32", "shape": list(values.shape), "data": values.ravel().tolist()}
            return json.dumps({"outputs": [told]}).encode()

        assert probe.mismatch(case, body(answer), first=number + 1) is None
        other = probe.mismatch(case, body(-answer), first=number + 1)
        assert other is not None and f"text {number + 1}" in other


def test_on_a_cpu_only_when_asked_and_said_so(
    base: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert made(base, tmp_path / "gpu", "--device=gpu") == 2
    assert "no NVIDIA GPU here" in capfd.readouterr().err
    assert not (tmp_path / "gpu").exists()
    output = tmp_path / "cpu"
    assert made(base, output, "--device=cpu", "--names", "news", "chat") == 0
    out = capfd.readouterr().out
    assert '-platform: "tensorrt_plan"' in out and '+backend: "python"' in out
    told = engine.read(output / "engine.json")
    assert (told.tensorrt, told.gpu, told.precision) == ("none", "CPU, by ONNX Runtime", "fp32")
    assert sorted(path.name for path in (output / "archives").iterdir()) == ["chat.tar.gz", "news.tar.gz"]


def test_the_same_model_gives_the_same_archives(base: Path, tmp_path: Path) -> None:
    for output in ("one", "two"):
        assert made(base, tmp_path / output, "--device=cpu") == 0
    first, second = (tmp_path / output / "archives/encoder-0.tar.gz" for output in ("one", "two"))
    assert first.read_bytes() == second.read_bytes()


def test_sweep_and_int8_take_real_texts(base: Path, machine: Path, tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "texts.txt").write_text("one text\n\nanother one\n")
    seen: list[list[str]] = []

    def sweep(arguments: list[str]) -> int:
        seen.append(arguments)
        return 2

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("model_code.text_encoding.sweep.main", sweep)
        assert made(base, tmp_path / "output", "--device=gpu", "--sweep", f"--texts={texts}") == 2
    (calibration,) = [item for item in seen[0] if item.startswith("--calibration=")]
    assert calibration.endswith("samples.npz")
    assert not (tmp_path / "output/archives").exists(), "nothing is published of a sweep without the wanted precision"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--names", "a b"], "'a b': a model's name"),
        (["--max-length=41"], "the model takes at most 40"),
        (["--preferred=9"], "preferred_batch_size 9 is outside"),
    ],
)
def test_refusals(
    options: list[str], sentence: str, base: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert made(base, tmp_path / "output", "--device=cpu", *options) == 2
    told = capfd.readouterr().err.strip().splitlines()[-1]
    assert told.startswith("build: ") and sentence in told


def test_int8_without_texts_is_refused_at_once(base: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        made(base, tmp_path / "output", "--device=gpu", "--precision=int8")

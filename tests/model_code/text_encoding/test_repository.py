"""Archives for the multi-model endpoint: contents, bytes, and every mistake that is found before upload."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from model_code import archive
from model_code.text_encoding import model_config, repository
from model_code.text_encoding.engine import EngineError, Shapes, Tensor, plan_version
from model_code.text_encoding.model_config import ConfigError
from model_code.text_encoding.repository import RepositoryError, check, main
from tests.serving.triton import models

ROOT = Path(__file__).parents[3]
CONFIG = """name: "enc-0"
platform: "tensorrt_plan"
max_batch_size: 8
input {
  name: "input_ids"
  data_type: TYPE_INT32
  dims: -1
}
input {
  name: "attention_mask"
  data_type: TYPE_INT32
  dims: -1
}
output {
  name: "last_hidden_state"
  data_type: TYPE_FP32
  dims: -1
  dims: 4
}
output {
  name: "pooler_output"
  data_type: TYPE_FP32
  dims: 4
}
instance_group {
  count: 2
  kind: KIND_GPU
}
dynamic_batching {
  preferred_batch_size: 2
  preferred_batch_size: 8
  max_queue_delay_microseconds: 500
}
"""


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    return models.write_engine(tmp_path / "engine")


def make(engine: Path, output: Path, *extra: str) -> int:
    return main(["--engine", str(engine), "--output", str(output), "--prefix", "enc", *extra])


def test_each_model_has_its_own_name_everywhere(engine: Path, tmp_path: Path) -> None:
    assert make(engine, tmp_path / "out", "--models", "12") == 0
    archives = sorted((tmp_path / "out").iterdir(), key=lambda path: int(path.name[4:-7]))
    assert [path.name for path in archives] == [f"enc-{number}.tar.gz" for number in range(12)]
    for path in archives:
        name = path.name.removesuffix(".tar.gz")
        with tarfile.open(path) as tar:
            assert tar.getnames() == [f"{name}/1/model.plan", f"{name}/config.pbtxt", f"{name}/engine.json"]
            text = tar.extractfile(f"{name}/config.pbtxt")
            assert text is not None and model_config.parse(text.read().decode()).name == name
        assert check(path, tensorrt="10.13.3.9", compute_capability="8.6") == models.engine()


def test_the_shipped_config(engine: Path, tmp_path: Path) -> None:
    options = ("--preferred", "2", "8", "--queue-delay-us", "500", "--instances", "2")
    assert make(engine, tmp_path / "out", *options) == 0
    archive.unpack(tmp_path / "out" / "enc-0.tar.gz", tmp_path / "model")
    assert (tmp_path / "model" / "enc-0" / "config.pbtxt").read_text() == CONFIG


def test_one_length_gives_fixed_dimensions() -> None:
    fixed = models.engine(shapes=Shapes(minimum=(1, 32), optimum=(4, 32), maximum=(8, 32)))
    config = model_config.make("enc-0", fixed)
    assert [list(one.dims) for one in (*config.input, *config.output)] == [[32], [32], [32, 4], [4]]
    assert list(config.dynamic_batching.preferred_batch_size) == [4]


def test_the_same_engine_gives_the_same_bytes(engine: Path, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        assert make(engine, tmp_path / folder) == 0
        (engine / "model.plan").touch()
    assert (tmp_path / "one/enc-0.tar.gz").read_bytes() == (tmp_path / "two/enc-0.tar.gz").read_bytes()


def text(old: str, new: str) -> Callable[[Path], None]:
    """Replace in config.pbtxt."""

    def change(folder: Path) -> None:
        path = folder / "enc-0" / "config.pbtxt"
        before = path.read_text()
        assert old in before
        path.write_text(before.replace(old, new, 1))

    return change


def described(**changes: Any) -> Callable[[Path], None]:
    """Change engine.json."""

    def change(folder: Path) -> None:
        path = folder / "enc-0" / "engine.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return change


MISTAKES: dict[str, tuple[Callable[[Path], object], str]] = {
    "misspelt field": (text("max_batch_size", "max_batch_sise"), r"config.pbtxt 3:1 : .*max_batch_sise"),
    "no such kind": (text("KIND_GPU", "KIND_TPU"), "KIND_TPU"),
    "CPU": (text("KIND_GPU", "KIND_CPU"), "instance_group is KIND_CPU: TensorRT runs on KIND_GPU only"),
    "platform": (text("tensorrt_plan", "onnxruntime_onnx"), "platform is 'onnxruntime_onnx': an engine needs"),
    "batch": (text("max_batch_size: 8", "max_batch_size: 16"), "max_batch_size is 16: the engine takes 1 to 8"),
    "no batch": (text("max_batch_size: 8", "max_batch_size: 0"), "max_batch_size is 0: the engine takes 1 to 8"),
    "preferred": (text("preferred_batch_size: 4", "preferred_batch_size: 9"), "preferred_batch_size 9 is outside"),
    "dtype": (text("TYPE_INT32", "TYPE_INT64"), "input input_ids is TYPE_INT64: the engine's is TYPE_INT32"),
    "dims": (text("dims: 4", "dims: 5"), r"output last_hidden_state has dims \[-1, 5\]: the engine's are \[-1, 4\]"),
    "input": (text("input_ids", "token_ids"), "inputs are token_ids, attention_mask: the engine's are input_ids,"),
    "name": (text("enc-0", "bert"), "config.pbtxt names the model 'bert': its folder is 'enc-0'"),
    "no config": (lambda f: (f / "enc-0/config.pbtxt").unlink(), "enc-0/config.pbtxt is missing"),
    "no plan": (lambda f: (f / "enc-0/1/model.plan").unlink(), "enc-0/1/model.plan is missing"),
    "no engine.json": (lambda f: (f / "enc-0/engine.json").unlink(), "enc-0/engine.json: not an engine.json"),
    "other plan": (
        lambda f: (f / "enc-0/1/model.plan").write_bytes(models.plan() + b"x"),
        "is not the plan that engine.json describes",
    ),
    "plan of another version": (
        lambda f: (f / "enc-0/1/model.plan").write_bytes(models.plan((8, 5, 3))),
        "the plan was written by TensorRT 8.5.3: engine.json says 10.13.3",
    ),
    "ONNX for a plan": (lambda f: (f / "enc-0/1/model.plan").write_bytes(b"\x08\x0a" * 50), "no TensorRT plan"),
    "no root folder": (
        lambda f: [path.rename(f / path.name) for path in list((f / "enc-0").iterdir())],
        "its root holds 1, config.pbtxt, engine.json: it must hold the model's folder and nothing else",
    ),
    "two models": (lambda f: shutil.copytree(f / "enc-0", f / "b"), "its root holds b, enc-0"),
    "other folder": (lambda f: (f / "enc-0").rename(f / "enc-1"), "its folder is 'enc-1': it must have the model's"),
    "schema": (described(schema=2), "schema must be 1"),
    "extra key": (described(colour="red"), "colour"),
    "shapes": (described(shapes={"minimum": [2, 1], "optimum": [1, 1], "maximum": [8, 64]}), "no larger than the next"),
    "batches only": (described(shapes={"minimum": [2, 1], "optimum": [4, 32], "maximum": [8, 64]}), "no batch below 2"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_found_before_upload(engine: Path, tmp_path: Path, name: str) -> None:
    mistake, sentence = MISTAKES[name]
    assert make(engine, tmp_path / "out") == 0
    folder = tmp_path / "unpacked"
    archive.unpack(tmp_path / "out" / "enc-0.tar.gz", folder)
    mistake(folder)
    files = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    archive.write(tmp_path / "enc-0.tar.gz", files)
    with pytest.raises(RepositoryError, match=sentence):
        check(tmp_path / "enc-0.tar.gz")


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ({"tensorrt": "10.14.1"}, "built by TensorRT 10.13.3: the serving image has 10.14.1"),
        ({"tensorrt": "8.5.3"}, "the serving image has 8.5.3"),
        ({"compute_capability": "8.9"}, r"capability 8.6 \(NVIDIA A10G\): the endpoint's has 8.9"),
    ],
)
def test_an_engine_of_another_version_or_gpu_is_refused(
    engine: Path, tmp_path: Path, wanted: dict[str, Any], sentence: str
) -> None:
    assert make(engine, tmp_path) == 0
    with pytest.raises(RepositoryError, match=sentence):
        check(tmp_path / "enc-0.tar.gz", **wanted)
    assert check(tmp_path / "enc-0.tar.gz", tensorrt="10.13", compute_capability="8.6")


def test_a_torn_archive_is_refused(engine: Path, tmp_path: Path) -> None:
    assert make(engine, tmp_path) == 0
    path = tmp_path / "enc-0.tar.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(archive.ArchiveError, match=r"enc-0\.tar\.gz: cannot be unpacked"):
        check(path)


def test_every_reason_is_told_at_once(engine: Path, tmp_path: Path) -> None:
    assert make(engine, tmp_path) == 0
    with pytest.raises(RepositoryError) as found:
        check(tmp_path / "enc-0.tar.gz", tensorrt="11.1.0", compute_capability="7.5")
    assert "11.1.0" in str(found.value) and "7.5" in str(found.value)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--max-batch", "9"), "max_batch_size is 9: the engine takes 1 to 8"),
        (("--models", "0"), "0 models: at least 1 is needed"),
        (("--prefix", "a/b"), "'a/b-0': a model's name has letters"),
        (("--instances", "0"), "at least 1 is needed"),
    ],
)
def test_models_that_cannot_be_made_leave_nothing(
    engine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, str], sentence: str
) -> None:
    assert make(engine, tmp_path / "out", *arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("repository: ") and sentence in error and error.count("\n") == 1
    assert not list((tmp_path / "out").glob("*"))


def test_a_spoilt_engine_folder_leaves_no_archive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = models.write_engine(tmp_path / "engine", content=b"no plan at all, of course not")
    assert make(folder, tmp_path / "out") == 2
    assert "no TensorRT plan" in capsys.readouterr().err and not list((tmp_path / "out").iterdir())


def test_the_config_for_the_cpu_differs_in_nothing_but_who_runs_it() -> None:
    config = model_config.make("enc-0", models.engine(), preferred=[4], delay_us=100)
    derived, difference = repository.for_cpu(config)
    assert [line for line in difference.splitlines()[2:] if not line.startswith("@@")] == [
        '-platform: "tensorrt_plan"', "-  kind: KIND_GPU", "+  kind: KIND_CPU", '+backend: "python"',
    ]  # fmt: skip
    assert config.platform == "tensorrt_plan", "the shipped config is not touched"
    assert derived.dynamic_batching == config.dynamic_batching


def test_an_archive_for_the_cpu_is_checked_as_one(engine: Path, tmp_path: Path) -> None:
    config = model_config.make("enc-0", models.engine())
    path, _ = repository.write_for_cpu(tmp_path / "cpu", models.encoder(tmp_path / "0.onnx", 0), config)
    repository.check_for_cpu(path)
    assert make(engine, tmp_path / "out") == 0
    with pytest.raises(RepositoryError, match=r"1/model.py is missing; .*backend is 'tensorrt_plan'"):
        repository.check_for_cpu(tmp_path / "out" / "enc-0.tar.gz")
    with pytest.raises(RepositoryError, match=r"engine\.json: not an engine\.json"):
        check(path)


def test_an_unknown_dtype_is_refused() -> None:
    with pytest.raises(KeyError):
        model_config.make("enc-0", models.engine(inputs={"input_ids": Tensor(dtype="bool", dims=(-1, -1))}))
    with pytest.raises(ConfigError, match="the engine takes 1 to 8"):
        model_config.make("enc-0", models.engine(), max_batch=9)


@pytest.mark.parametrize("head", [b"", b"ftrt", bytes(28), models.plan()[:4] + b"\1" + models.plan()[5:]])
def test_what_is_no_plan_has_no_version(head: bytes) -> None:
    with pytest.raises(EngineError, match="TensorRT plan"):
        plan_version(head)
    assert plan_version(models.plan((11, 1, 0))) == "11.1.0"


def test_the_operators_command_can_import_it_without_torch() -> None:
    script = (
        "import sys; import model_code.text_encoding.repository, model_code.text_encoding.client;"
        "heavy = {'torch', 'transformers', 'onnx', 'onnxruntime', 'boto3'} & set(sys.modules);"
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

"""The image that builds TensorRT engines, on top of our Triton image: all that it does before it needs a GPU."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from settings.triton import triton_release
from tests.containers.conftest import BUILD_SECONDS, Yard, read_only
from tests.deploy import tiny

pytestmark = [pytest.mark.long, pytest.mark.images, pytest.mark.timeout(1800)]
MODULE = ("python3", "-m", "model_code.text_encoding")
SHAPES = ("--min", "1x16", "--opt", "4x32", "--max", "8x64")


@pytest.fixture(scope="module")
def image(yard: Yard) -> str:
    triton = yard.image("triton", base=triton_release("25.09").image)
    return yard.image("tensorrt-builder", base=triton)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the job's host mounts: a model as `aws s3 cp` writes it, and a folder that the image's user may write."""
    work = tmp_path_factory.mktemp("engine")
    tiny.write_base_model(work / "inputs" / "base")
    subprocess.run(["chmod", "-R", "a+rX", str(work)], check=True)
    for name in ("onnx", "output"):
        (work / name).mkdir()
        (work / name).chmod(0o777)
    return work


@pytest.fixture(scope="module")
def exported(yard: Yard, image: str, folder: Path) -> Path:
    """The folder, with the model as ONNX beside its inputs."""
    words = (f"{MODULE[2]}.export_onnx", "--model", "inputs/base", "--output", "onnx")
    yard.run(*read_only(image, *MODULE[:2], *words, folder=folder))
    return folder


def test_nobody_is_root_in_it(yard: Yard, image: str) -> None:
    assert yard.run("docker", "run", "--rm", image, "id", "-u").strip().splitlines()[-1] == "10004"


def test_it_exports_an_encoder(exported: Path) -> None:
    report = json.loads((exported / "onnx" / "export.json").read_text())
    assert report["inputs"] and (exported / "onnx" / "model.onnx").stat().st_size > 0


def test_it_prints_its_plan_without_a_gpu(yard: Yard, image: str, exported: Path) -> None:
    words = (f"{MODULE[2]}.build_engine", "--onnx", "onnx", "--output", "output", *SHAPES, "--dry-run")
    said = yard.run(*read_only(image, *MODULE[:2], *words, "--tensorrt-major", "10", folder=exported))
    (planned,) = [line for line in said.splitlines() if line.startswith("trtexec ")]
    assert "--optShapes=input_ids:4x32" in planned and "--fp16" in planned
    assert not list((exported / "output").iterdir())


@pytest.mark.parametrize("step", ["build", "build_engine"])
def test_it_stops_where_a_gpu_is_needed_and_says_so(yard: Yard, image: str, exported: Path, step: str) -> None:
    options = {
        "build": ("--device", "gpu", "--model", "inputs/base", "--names", "encoder", "--output", "output"),
        "build_engine": ("--onnx", "onnx", "--output", "output", *SHAPES),
    }
    child = yard.start(*read_only(image, *MODULE[:2], f"{MODULE[2]}.{step}", *options[step], folder=exported))
    assert child.wait(BUILD_SECONDS) == 2
    said = child.log.read_text()
    assert f"{step}: no NVIDIA GPU here" in said and "--dry-run shows how" in said
    assert not list((exported / "output").iterdir()), "nothing half-made"


def test_with_the_cpu_in_the_engines_place_it_makes_all_that_the_endpoint_serves(
    yard: Yard, image: str, exported: Path
) -> None:
    output = exported / "cpu"
    output.mkdir()
    output.chmod(0o777)
    words = ("--device", "cpu", "--model", "inputs/base", "--names", "encoder", "--output", "cpu")
    sizes = ("--max-batch", "8", "--opt-batch", "4", "--opt-length", "32", "--max-length", "64")
    yard.run(*read_only(image, *MODULE[:2], f"{MODULE[2]}.build", *words, *sizes, folder=exported))
    assert {path.name for path in output.iterdir()} >= {"archives", "engine.json", "export.json", "probe.json"}
    assert [path.name for path in (output / "archives").iterdir()] == ["encoder.tar.gz"]

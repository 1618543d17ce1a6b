"""What images install is what the requirements say, or what another image installs."""

from __future__ import annotations

import re
from pathlib import Path

from settings import REPO_ROOT


def pins(path: Path) -> dict[str, str]:
    """{package: version}"""
    return dict(re.findall(r"^([a-z0-9-]+)==([\w.]+)", path.read_text(), re.MULTILINE))


def test_the_server_has_the_pins_that_the_tests_ran_with() -> None:
    image = pins(REPO_ROOT / "containers/question-answering-serving/requirements.txt")
    assert image == pins(REPO_ROOT / "requirements/serving.txt")
    demo = pins(REPO_ROOT / "requirements/demo.txt")
    different = {name: (version, demo[name]) for name, version in image.items() if demo.get(name, version) != version}
    assert different == {}


def test_transformers_is_everywhere_the_same() -> None:
    trace = pins(REPO_ROOT / "containers/question-answering-trace/requirements.txt")
    assert "transformers" in trace
    for image in ("sentiment-serving", "sentiment-training"):
        other = pins(REPO_ROOT / f"containers/{image}/requirements.txt")
        assert {name: other.get(name) for name in trace} == trace


def test_torch_is_the_base_images_or_the_build_for_cpus() -> None:
    """A second torch beside the base's costs gigabytes, and has another CUDA; Triton's image brings none."""
    for path in (REPO_ROOT / "containers").glob("*/requirements.txt"):
        if path.parent.name == "tensorrt-builder":
            assert re.search(r"^torch==[\d.]+\+cpu$", path.read_text(), re.MULTILINE)
        else:
            assert not {"torch", "torch-neuronx", "numpy"} & set(pins(path)), path

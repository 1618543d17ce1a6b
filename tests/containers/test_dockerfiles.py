"""What every Dockerfile promises to the scripts and services that run its image, without building it."""

from __future__ import annotations

import importlib.util
import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from settings import REPO_ROOT

OFFLINE = {"question-answering-serving", "sentiment-serving", "sentiment-training", "tensorrt-builder"}
"""Images whose programs load models from their folder alone; the trace reads what a build fetched, or the hub."""
READ_ONLY = {"neuron-monitor", "nginx", "question-answering-serving"}
"""Images that run with a read-only root (hosts/inferentia/common.sh), by a user of this number."""
FLEET_USER = "10003"
RUN_ONCE = {"neuron-monitor", "question-answering-trace"}
"""Images whose exit status is their health."""
GRAVITON = {"LRU_CACHE_CAPACITY": "1024", "THP_MEM_ALLOC_ENABLE": "1", "OMP_PROC_BIND": "false", "OMP_PLACES": "cores"}
"""AWS's guide for PyTorch on Graviton (aws-graviton-getting-started, machinelearning/pytorch.md)."""


@dataclass(frozen=True)
class Dockerfile:
    """The instructions of one image, in their order."""

    name: str
    instructions: list[tuple[str, str]]

    def all(self, instruction: str) -> list[str]:
        return [text for word, text in self.instructions if word == instruction]

    def one(self, instruction: str) -> str:
        (text,) = self.all(instruction)
        return text

    @property
    def environment(self) -> dict[str, str]:
        pairs = " ".join(self.all("ENV")).split()
        return dict(pair.split("=", 1) for pair in pairs)

    def place(self, instruction: str, part: str) -> int:
        """Where an instruction with that part stands. Raises ValueError when there is none."""
        found = [index for index, (word, text) in enumerate(self.instructions) if word == instruction and part in text]
        if not found:
            raise ValueError(f"{self.name}: no {instruction} with {part!r}")
        return found[0]


def read(path: Path) -> Dockerfile:
    text = re.sub(r"^\s*#.*\n", "", path.read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\s*\\\n\s*", " ", text).splitlines()
    pairs = [line.strip().partition(" ") for line in lines if line.strip()]
    return Dockerfile(name=path.parent.name, instructions=[(word, rest.strip()) for word, _, rest in pairs])


ALL = {path.parent.name: path for path in sorted((REPO_ROOT / "containers").glob("*/Dockerfile"))}
every = pytest.mark.parametrize("name", ALL)


@every
def test_it_stands_on_the_base_that_it_is_given(name: str) -> None:
    assert read(ALL[name]).instructions[:2] == [("ARG", "BASE_IMAGE"), ("FROM", "${BASE_IMAGE}")]


@every
def test_its_last_user_exists_and_is_nobody_special(name: str) -> None:
    file = read(ALL[name])
    user = file.all("USER")[-1]
    assert user.isdigit() and int(user) >= 1000
    if name == "triton":
        assert f'test "$(id -u triton-server)" = {user}' in file.one("RUN"), "its base brings the user"
        return
    assert file.all("USER") == ["0", user], "bases end with users of their own"
    made = file.place("RUN", f"--uid {user} --shell /usr/sbin/nologin torchlift")
    assert file.place("USER", "0") < made < file.place("USER", user)
    assert (user == FLEET_USER) == (name in READ_ONLY)


@every
def test_it_installs_exactly_what_is_pinned_and_from_one_index_at_a_time(name: str) -> None:
    text = ALL[name].read_text()
    assert not re.search(r"^ADD |:latest\b", text, re.MULTILINE)
    requirements = ALL[name].parent / "requirements.txt"
    assert requirements.exists() == ("pip install" in text)
    assert "--extra-index-url" not in text, "one index for each install: pip takes a name from whichever has it"
    assert text.count("--index-url") == len(re.findall(r"pip install .*--no-deps .*--index-url", text))
    for line in requirements.read_text().splitlines() if requirements.exists() else ():
        requirement = line.partition("#")[0].strip()
        assert not requirement or re.fullmatch(r"[A-Za-z0-9._\[\]-]+==\S+( *;.*)?", requirement), line


@every
def test_what_python_needs(name: str) -> None:
    """Our code where Python finds it, pinned libraries before it so that a change of code keeps their layer."""
    file = read(ALL[name])
    ours = ("COPY", "model_code /opt/torchlift/model_code") in file.instructions
    assert ours == (file.environment.get("PYTHONPATH") == "/opt/torchlift")
    # A print shows in the log when it is made, not when a buffer is full.
    assert ours == (file.environment.get("PYTHONUNBUFFERED") == "1")
    assert (name in READ_ONLY and ours) == (file.environment.get("PYTHONDONTWRITEBYTECODE") == "1")
    assert (name in OFFLINE) == (file.environment.get("HF_HUB_OFFLINE") == "1")
    requirements = ALL[name].parent / "requirements.txt"
    if requirements.exists():
        copied = file.place("COPY", f"containers/{name}/requirements.txt /opt/torchlift/requirements.txt")
        installed = file.place("RUN", "pip install")
        assert copied < installed
        assert "-r /opt/torchlift/requirements.txt" in file.instructions[installed][1]
        assert "--no-cache-dir" in file.instructions[installed][1] or file.environment["PIP_NO_CACHE_DIR"] == "1"
        assert not ours or installed < file.place("COPY", "model_code /opt/")
        # An import that fails ends the build, not the job. The servers' libraries look for a device.
        imports = re.search(r'-c "import .*\btorch\b', file.instructions[installed][1])
        assert bool(imports) == (name != "question-answering-serving")


@every
def test_its_home_and_folder_can_be_written(name: str) -> None:
    file = read(ALL[name])
    if name == "triton":
        return
    user, folder = file.all("USER")[-1], file.one("WORKDIR")
    if name in READ_ONLY:
        # /tmp is a tmpfs there.
        assert file.environment.get("HOME", "/tmp") == "/tmp"
        return
    home = file.environment.get("HOME", "/home/torchlift")
    assert home == "/home/torchlift" and "--create-home" in " ".join(file.all("RUN"))
    assert folder == home or f"chown {user}:{user} {folder}" in " ".join(file.all("RUN"))


@every
def test_what_it_starts_is_there(name: str) -> None:
    file = read(ALL[name])
    for text in file.all("ENTRYPOINT"):
        words = json.loads(text)
        if words[:2] == ["python3", "-m"]:
            assert importlib.util.find_spec(words[2]) is not None
            assert file.one("CMD") in ("[]", '["--help"]')
        else:
            assert words[0] == "nginx" and "/etc/torchlift/nginx.conf" in words and file.one("CMD") == "[]"
    started = {"neuron-monitor", "nginx", "question-answering-serving", "question-answering-trace"}
    assert bool(file.all("ENTRYPOINT")) == (name in started), "the others keep their base's, or are told what to run"


def test_servers_say_where_they_listen_and_how_they_are() -> None:
    for name, port in (("nginx", "8080"), ("question-answering-serving", "8081")):
        file = read(ALL[name])
        assert file.one("EXPOSE") == port
        assert port in file.one("HEALTHCHECK") and "/healthz" in file.one("HEALTHCHECK")
    for name in RUN_ONCE:
        assert read(ALL[name]).one("HEALTHCHECK") == "NONE"
    # nginx finishes what it has only with this one.
    assert read(ALL["nginx"]).one("STOPSIGNAL") == "SIGQUIT"
    assert "install --yes --no-install-recommends nginx" in read(ALL["nginx"]).one("RUN")


def test_graviton_serving_is_tuned_and_finds_its_handler() -> None:
    file = read(ALL["sentiment-serving"])
    assert GRAVITON.items() <= file.environment.items()
    assert file.environment["SAGEMAKER_PROGRAM"] == "inference.py"
    assert file.environment["SAGEMAKER_SUBMIT_DIRECTORY"] == "/opt/ml/model/code"
    (folders,) = [text for text in file.all("RUN") if "chown -R" in text]
    for written in ("/opt/ml", "/home/torchlift", "/etc/sagemaker-ts.properties"):
        assert written in folders.partition("chown -R")[2]


def test_training_has_the_compiler_of_torch_compile() -> None:
    assert "command -v gcc" in " ".join(read(ALL["sentiment-training"]).all("RUN"))


def test_the_builder_of_engines_has_trtexec_and_the_exporters() -> None:
    file = read(ALL["tensorrt-builder"])
    assert file.environment["PATH"] == "/usr/src/tensorrt/bin:$PATH"
    assert file.environment["PIP_BREAK_SYSTEM_PACKAGES"] == "1"
    runs = file.all("RUN")
    assert "command -v trtexec" in runs[0]
    assert "import modelopt.onnx, onnxruntime, onnxscript, torch, transformers, tritonclient.grpc" in " ".join(runs)


def test_triton_brings_what_sagemaker_starts() -> None:
    run = read(ALL["triton"]).one("RUN")
    assert "command -v serve" in run and "command -v tritonserver" in run


@every
def test_telemetry_of_the_hub_is_off_where_the_hub_is_used(name: str) -> None:
    file = read(ALL[name])
    used = name in ("question-answering-trace", "sentiment-training", "tensorrt-builder")
    assert used == (file.environment.get("HF_HUB_DISABLE_TELEMETRY") == "1")

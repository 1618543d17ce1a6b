"""The server's environment variables."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from model_code.serving.settings import SettingsError, from_environment

GOOD = {"TORCHLIFT_MODEL_SOURCE": "/models/qa"}


def test_defaults_and_the_port_of_the_core() -> None:
    settings = from_environment({**GOOD, "NEURON_RT_VISIBLE_CORES": "11"})
    assert (settings.core, settings.port, settings.host) == (11, 8092, "127.0.0.1")
    assert from_environment({**GOOD, "TORCHLIFT_PORT": "9000"}).port == 9000


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"NEURON_RT_VISIBLE_CORES": "0-3"}, "a server serves one core"),
        ({"NEURON_RT_VISIBLE_CORES": "x"}, "expected cores such as"),
        ({"TORCHLIFT_MODEL_SOURCE": ""}, "not both or none"),
        ({"TORCHLIFT_MODELS": "models.json"}, "not both or none"),
        ({"TORCHLIFT_QUEUE_ROWS": "many"}, "TORCHLIFT_QUEUE_ROWS='many': expected a whole number"),
        ({"TORCHLIFT_QUEUE_ROWS": "0"}, "too small or too large"),
        ({"TORCHLIFT_POLL_SECONDS": "nan"}, "too small or too large"),
        ({"TORCHLIFT_TOKEN_FILE": "/nowhere"}, "No such file"),
        ({"TORCHLIFT_TOKEN_FILE": os.devnull}, "the file is empty"),
        ({"TORCHLIFT_TOKEN": "a", "TORCHLIFT_TOKEN_FILE": os.devnull}, "not both"),
    ],
)
def test_mistakes(given: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        from_environment({**GOOD, **given})


def test_all_mistakes_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        from_environment({"TORCHLIFT_PORT": "x", "TORCHLIFT_THREADS": "y", "NEURON_RT_VISIBLE_CORES": "1,1"})
    assert len(str(caught.value).splitlines()) == 4


def test_the_program_names_them_without_a_traceback(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        [sys.executable, "-m", "model_code.serving"],
        env={**environment, "TORCHLIFT_WORKLOAD": "chess", "TORCHLIFT_MODEL_SOURCE": "x"},
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (2, "serving: TORCHLIFT_WORKLOAD='chess': there is question-answering\n")

"""Question answering deployed alone, with a tiny model, and its clients."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from settings import names
from stand_in.session import StandIn

PARAMETER = names.parameter_name("local", "question-answering", "url")
QUESTION = {"question": "where does it lie?", "context": "the old bridge lies over the river"}
SECTION = """
[question_answering]
model = "{model}"
instance_type = "inf2.xlarge"
min_instances = 1
max_instances = 2
num_models_per_server = {models}
batch_sizes = [1, 4]
lengths = [32, 64]
stride = 8
max_answer_tokens = 10
null_threshold = "none"
ami_parameter = "/aws/service/neuron/dlami/base/ubuntu-24.04/latest/image_id"
"""


def write_settings(path: Path, root: Path, *, model: Path, models: int = 1, more: str = "") -> None:
    """`deployments/local.toml` without its workloads, and with this one; `more` are further lines of its section."""
    shared = (root / "deployments/local.toml").read_text().partition("[training]")[0]
    path.write_text(shared + SECTION.format(model=model, models=models) + more)


def ask(aws: StandIn, path: str = "/predict", body: Any = QUESTION) -> Any:
    """Ask the address that clients look up."""
    url = str(aws.client("ssm").get_parameter(Name=PARAMETER)["Parameter"]["Value"])
    data = json.dumps(body).encode() if body is not None else None
    # Past the proxy that the environment names.
    with closing(http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)) as connection:
        connection.request("POST" if data else "GET", path, data, {"Content-Type": "application/json"})
        response = connection.getresponse()
        assert response.status == 200, response.read()
        return json.load(response)


@contextmanager
def asked_all_the_while(aws: StandIn) -> Iterator[None]:
    """Nobody notices what the block does."""
    end, answers, failures = threading.Event(), 0, []

    def client() -> None:
        nonlocal answers
        while not end.wait(0.05):
            try:
                answers += ask(aws)["model"] != ""
            except (OSError, http.client.HTTPException, AssertionError) as error:
                failures.append(str(error))

    thread = threading.Thread(target=client)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()
    assert (failures, answers > 5) == ([], True)

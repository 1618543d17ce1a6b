"""The server's settings, all from environment variables."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from model_code.serving.neuron_cores import CoreError, parse_visible_cores, port_of


class SettingsError(ValueError):
    """Variables that cannot be used; str() has a line for each."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Each field is the variable TORCHLIFT_<FIELD>; `core` comes from NEURON_RT_VISIBLE_CORES.

    :param workload: what is served
    :param models: models.json, a file or s3://bucket/key: the models, followed while the server runs
    :param model_source: instead of `models`: one folder or s3://bucket/prefix/, served as model_0, model_1, …
    :param num_models_per_server: how many of them
    :param core: the NeuronCore that this process serves
    :param host: address to listen on
    :param port: default 8081 + core
    :param queue_rows: rows that may wait or run; more are answered with 503
    :param batch_wait_ms: longest wait for a batch to fill while others are on their way
    :param timeout_ms: time for a request that names none in X-Timeout-Ms
    :param max_timeout_ms: most that X-Timeout-Ms may ask
    :param max_body_bytes: larger bodies are answered with 413
    :param max_rows: rows that one input may make (windows of a long context)
    :param max_inputs: inputs of one request
    :param threads: processor threads of one model run
    :param tokenizer_threads: threads that prepare long inputs
    :param poll_seconds: how often models.json is looked at
    :param ready_timeout_seconds: 0 opens the port at once, and /readyz says 503 until the models have answered. Behind
        a proxy that knows a server only by its port (nginx), a number: the port opens when they have answered, and the
        process ends after so many seconds without
    :param drain_delay_seconds: after SIGTERM /readyz is 503 for so long before the port closes
    :param drain_timeout_seconds: then requests in flight have so long to finish
    :param model_root: folders of models.json are looked for below it: `/`, or where an image's files lie on a machine
        that runs no containers
    :param cache_dir: where models from S3 are kept
    :param token: bearer token that requests must bring; or
    :param token_file: a file that holds it
    """

    workload: str = "question-answering"
    models: str = ""
    model_source: str = ""
    num_models_per_server: int = 1
    core: int = 0
    host: str = "127.0.0.1"
    port: int = 0
    queue_rows: int = 256
    batch_wait_ms: float = 2.0
    timeout_ms: int = 10_000
    max_timeout_ms: int = 60_000
    max_body_bytes: int = 1_000_000
    max_rows: int = 64
    max_inputs: int = 64
    threads: int = 1
    tokenizer_threads: int = 2
    poll_seconds: float = 15.0
    ready_timeout_seconds: float = 0.0
    drain_delay_seconds: float = 1.0
    drain_timeout_seconds: int = 30
    model_root: str = "/"
    cache_dir: str = str(Path(tempfile.gettempdir()) / "torchlift-models")
    token: str = ""
    token_file: str = ""


MAY_BE_ZERO = {"batch_wait_ms", "drain_delay_seconds", "ready_timeout_seconds"}


def from_environment(environment: Mapping[str, str] = os.environ) -> Settings:
    """Read and check everything; raises SettingsError with all mistakes at once."""
    values: dict[str, str | int | float] = {}
    wrong: list[str] = []
    for field in fields(Settings):
        name = f"TORCHLIFT_{field.name.upper()}"
        text = environment.get(name)
        if field.name == "core" or text is None or text == "":
            continue
        kind: type[str] | type[int] | type[float] = type(field.default)  # type: ignore[assignment]
        try:
            value = kind(text)
        except ValueError:
            wrong.append(f"{name}={text!r}: expected {'a whole number' if kind is int else 'a number'}")
            continue
        if isinstance(value, (int, float)) and not (0 if field.name in MAY_BE_ZERO else 1e-3) <= value < 1e9:
            wrong.append(f"{name}={text!r}: too small or too large")
            continue
        values[field.name] = value
    try:
        visible = environment.get("NEURON_RT_VISIBLE_CORES", "0")
        cores = parse_visible_cores(visible)
        if len(cores) != 1:
            wrong.append(f"NEURON_RT_VISIBLE_CORES={visible!r}: a server serves one core; start one for each")
        values["core"] = cores[0]
    except CoreError as error:
        wrong.append(str(error))
    if bool(values.get("models")) == bool(values.get("model_source")):
        wrong.append("set TORCHLIFT_MODELS (a models.json) or TORCHLIFT_MODEL_SOURCE (one model), not both or none")
    if values.get("models") and "num_models_per_server" in values:
        wrong.append("TORCHLIFT_NUM_MODELS_PER_SERVER goes with TORCHLIFT_MODEL_SOURCE; models.json lists its models")
    if values.get("token") and values.get("token_file"):
        wrong.append("set TORCHLIFT_TOKEN or TORCHLIFT_TOKEN_FILE, not both")
    elif values.get("token_file"):
        try:
            values["token"] = Path(str(values["token_file"])).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            wrong.append(f"TORCHLIFT_TOKEN_FILE={values['token_file']!r}: {error}")
        else:
            if not values["token"]:  # an empty token would let everybody in
                wrong.append(f"TORCHLIFT_TOKEN_FILE={values['token_file']!r}: the file is empty")
    if wrong:
        raise SettingsError("\n".join(wrong))
    values.setdefault("port", port_of(int(values["core"])))
    return Settings(**values)  # type: ignore[arg-type]

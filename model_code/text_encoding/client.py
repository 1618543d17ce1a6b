"""Ask a text encoder on a multi-model endpoint. numpy and tritonclient; boto3 and a tokenizer only when used.

A request is KServe's inference protocol, version 2: as JSON alone, or a JSON header with the tensors behind it in
binary, whose length then stands in the content type. Lengths are padded up to a few buckets, since Triton batches
requests of equal shape only.
"""

from __future__ import annotations

import http.client
import json
import re
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from model_code.text_encoding.engine import Engine

Arrays = Mapping[str, npt.NDArray[Any]]
BINARY = "application/vnd.sagemaker-triton.binary+json;json-header-size="
JSON = "application/json"
BUCKETS = (16, 32, 64, 128, 256, 512)
"""Sequence lengths in tokens that requests are padded to."""
TARGET = "X-Amzn-SageMaker-Target-Model"
NOT_READY = 429
"""SageMaker still loads the model that was asked for: the same request, later, is right."""
Send = Callable[[str, bytes, str], "tuple[int, str, bytes]"]
"""(target model, body, content type) → (status, content type, body)."""


class EncodingError(ValueError):
    """A request that is refused, here or by the endpoint; `status` is the HTTP status, 0 when it was never sent."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What the model takes: the largest batch, the shortest and longest sequence in tokens, its inputs."""

    max_batch: int
    max_sequence: int
    min_sequence: int = 1
    inputs: tuple[str, ...] = ("input_ids", "attention_mask")


def limits_of(engine: Engine) -> Limits:
    """What the models of an engine take, from its engine.json."""
    return Limits(
        max_batch=engine.shapes.maximum[0], max_sequence=engine.shapes.maximum[1],
        min_sequence=engine.shapes.minimum[1], inputs=tuple(engine.inputs),
    )  # fmt: skip


def tokenise(folder: Path, texts: Sequence[str], *, limits: Limits) -> dict[str, npt.NDArray[np.int32]]:
    """int32 [texts, bucket] for each input of the model, by the tokenizer.json in `folder`; long texts are cut."""
    from tokenizers import Tokenizer

    if isinstance(texts, str) or not texts:
        raise EncodingError(0, "give a list of at least one text")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(limits.max_sequence)
    tokenizer.no_padding()
    encodings = tokenizer.encode_batch(list(texts))
    length = bucket(max(len(one.ids) for one in encodings), limits=limits)
    padding = _padding_id(folder, tokenizer)
    for one in encodings:
        one.pad(length, pad_id=padding)
    columns = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
    return {
        name: np.array([getattr(one, columns[name]) for one in encodings], dtype=np.int32) for name in limits.inputs
    }


def bucket(length: int, *, limits: Limits) -> int:
    """The smallest bucket for `length` tokens that the model takes."""
    fitting = [size for size in BUCKETS if max(length, limits.min_sequence) <= size < limits.max_sequence]
    return min([*fitting, limits.max_sequence])


def check(inputs: Arrays, *, limits: Limits) -> None:
    """Raise EncodingError for what the model would refuse, or read wrongly."""
    shapes = {name: array.shape for name, array in inputs.items()}
    if sorted(inputs) != sorted(limits.inputs):
        raise EncodingError(0, f"inputs are {', '.join(inputs) or 'none'}: the model's are {', '.join(limits.inputs)}")
    for name, array in inputs.items():
        if array.dtype != np.int32:
            raise EncodingError(0, f"{name} is {array.dtype}: the model takes int32")
        if array.ndim != 2 or array.shape != shapes[limits.inputs[0]]:
            raise EncodingError(0, f"{name} has shape {array.shape}: all inputs are [batch, sequence], all alike")
    batch, sequence = shapes[limits.inputs[0]]
    if not 1 <= batch <= limits.max_batch:
        raise EncodingError(0, f"the batch has {batch} rows: the model takes 1 to {limits.max_batch}")
    low, high = limits.min_sequence, limits.max_sequence
    if not low <= sequence <= high:
        raise EncodingError(0, f"the sequence has {sequence} tokens: the model takes {low} to {high}")


def build(inputs: Arrays, *, outputs: Sequence[str] = (), binary: bool = True) -> tuple[bytes, str]:
    """Body and content type of a request; without `outputs` the answer holds all of them."""
    from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput

    sent = []
    for name, array in inputs.items():
        one = InferInput(name, list(array.shape), "INT32")
        one.set_data_from_numpy(np.ascontiguousarray(array), binary_data=binary)
        sent.append(one)
    # Naming none asks for all; they then come as JSON, unless the client's own default is spelt out.
    wanted = [InferRequestedOutput(name, binary_data=binary) for name in outputs] or None
    body, header = InferenceServerClient.generate_request_body(sent, outputs=wanted)
    return body, JSON if header is None else f"{BINARY}{header}"


def parse(body: bytes, content_type: str) -> dict[str, npt.NDArray[Any]]:
    """Output name → array. Raises EncodingError."""
    from tritonclient.http import InferenceServerClient

    size = re.fullmatch(re.escape(BINARY) + r"(\d+)", content_type.replace(" ", ""))
    try:
        answer = InferenceServerClient.parse_response_body(body, header_length=int(size[1]) if size else None)
        names = [one["name"] for one in answer.get_response()["outputs"]]
        found = {name: answer.as_numpy(name) for name in names}
    except Exception as error:  # tritonclient raises whatever its JSON reader does
        raise EncodingError(200, f"not an answer of Triton: {body[:200]!r}") from error
    return found


def encode(
    send: Send, model: str, inputs: Arrays, *, limits: Limits, outputs: Sequence[str] = (), binary: bool = True
) -> dict[str, npt.NDArray[Any]]:
    """Outputs of `model` (an archive's name, `bert-0.tar.gz`) for int32 [batch, sequence] inputs.

    Raises EncodingError with the endpoint's own sentence when it refuses.
    """
    check(inputs, limits=limits)
    body, content_type = build(inputs, outputs=outputs, binary=binary)
    status, answer_type, answer = send(model, body, content_type)
    if status != 200:
        raise EncodingError(status, f"{model or 'the model'}: {_reason(answer) or _known(status)}")
    return parse(answer, answer_type)


def encode_all(
    send: Send, work: Sequence[tuple[str, Arrays]], *, limits: Limits, outputs: Sequence[str] = (), at_once: int = 8
) -> list[dict[str, npt.NDArray[Any]]]:
    """Answers of many requests (model, inputs), in order, `at_once` in flight. Raises EncodingError of the first."""
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(lambda one: encode(send, one[0], one[1], limits=limits, outputs=outputs), work))


def sagemaker(endpoint: str, client: Any = None) -> Send:
    """Send to a SageMaker endpoint; `client` is a boto3 sagemaker-runtime client.

    An endpoint that serves one model only is asked with an empty name.
    """
    if client is None:
        import boto3
        from botocore.config import Config

        # SageMaker answers within 60 s, if only that the model still loads: boto3 itself gives up then, and asks again.
        client = boto3.client("sagemaker-runtime", config=Config(read_timeout=75))

    def send(model: str, body: bytes, content_type: str) -> tuple[int, str, bytes]:
        try:
            target = {"TargetModel": model} if model else {}
            answer = client.invoke_endpoint(EndpointName=endpoint, Body=body, ContentType=content_type, **target)
        except client.exceptions.ModelError as error:
            said = str(error.response.get("OriginalMessage", ""))
            return int(error.response.get("OriginalStatusCode", 500)), JSON, said.encode()
        except client.exceptions.ModelNotReadyException as error:
            return NOT_READY, JSON, str(error.response.get("Error", {}).get("Message", "")).encode()
        except client.exceptions.ValidationError as error:
            return 404, JSON, str(error.response.get("Error", {}).get("Message", "")).encode()
        return 200, str(answer["ContentType"]), answer["Body"].read()

    return send


def loopback(url: str, path: Callable[[str], str]) -> Send:
    """Send over plain HTTP, `path` telling where a model is invoked: for a server on this machine."""
    place = urllib.parse.urlsplit(url)

    def send(model: str, body: bytes, content_type: str) -> tuple[int, str, bytes]:
        connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=60)
        try:
            connection.request("POST", path(model), body, {"Content-Type": content_type, TARGET: model})
            answer = connection.getresponse()
            return answer.status, answer.getheader("Content-Type", ""), answer.read()
        finally:
            connection.close()

    return send


def _reason(body: bytes) -> str:
    """What Triton says: `{"error": "…"}`, else the body's first words."""
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return body[:300].decode(errors="replace")


def _known(status: int) -> str:
    meanings = {404: "the endpoint has no such model", 507: "the endpoint is out of memory for another model"}
    return meanings.get(status, f"the endpoint gave no reason (status {status})")


def _padding_id(folder: Path, tokenizer: Any) -> int:
    """The padding token's id, from config.json (pad_token_id) or tokenizer_config.json's name of it; 0 without."""
    for file, key in (("config.json", "pad_token_id"), ("tokenizer_config.json", "pad_token")):
        if (folder / file).is_file():
            value = json.loads((folder / file).read_text(encoding="utf-8")).get(key)
            found = tokenizer.token_to_id(value) if isinstance(value, str) else value
            if found is not None:
                return int(found)
    return 0

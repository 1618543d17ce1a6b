"""`torchlift encode`: ask one model of the text-encoding endpoint."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console

from model_code.text_encoding import client
from model_code.text_encoding.client import EncodingError, Limits, Send
from operations.account import Account
from operations.failure import CommandFailed
from operations.models.build import SUFFIX, WORKLOAD, Build, describe, interface, single_model
from operations.models.store import Store
from settings import Settings, names

VECTORS = ("sentence_embedding", "pooler_output")
"""Outputs that hold one vector a text, the better one first; without them the first token of last_hidden_state."""
SHOWN = 4
"""Numbers of a vector that a line has."""
PATIENCE, PAUSE = 400.0, 5.0
"""Seconds to wait for a model that SageMaker still loads, which it does for 360 (developer guide, "Invoke a Multi-Model
Endpoint"), and between two requests."""


def encode(arguments: argparse.Namespace, settings: Settings, console: Console) -> int:
    """Encode texts by one model of the text-encoding endpoint.

    Tokens are made here, by the tokenizer that the deployment's build published; longer texts are cut. A model that no
    instance has loaded is loaded by the first request, which is repeated as long as SageMaker says that it loads.

    examples:
      torchlift encode dev bert-0 "The soup was cold." "Lovely place."
      torchlift encode dev bert-0 "The soup was cold." --json | jq '.[0].vector | length'

    IAM: ssm:GetParameter, s3:ListBucket, s3:GetObject, kms:Decrypt, sagemaker:InvokeEndpoint; with mode =
    "single-model" also sagemaker:DescribeEndpoint, sagemaker:DescribeEndpointConfig, sagemaker:DescribeModel
    """
    account = Account(settings)
    endpoint = account.parameter(WORKLOAD, "endpoint")
    if endpoint is None:
        parameter = names.parameter_name(account.deployment, WORKLOAD, "endpoint")
        raise CommandFailed(f"nothing is deployed: the SSM parameter {parameter} does not exist.")
    build, about, target = _found(account, endpoint, arguments.model)
    if not about:
        raise CommandFailed(f"nothing tells what {arguments.model} takes: neither its archive nor the build.")
    limits, outputs = interface(about)
    output = _chosen(arguments.output, outputs, model=arguments.model)
    send = patient(client.sagemaker(endpoint, account.client("sagemaker-runtime")))
    with tempfile.TemporaryDirectory(prefix="torchlift-") as work:
        folder = arguments.tokenizer or Path(work)
        if arguments.tokenizer is None:
            build.tokenizer(folder)
        elif not (folder / "tokenizer.json").is_file():
            raise CommandFailed(f"--tokenizer: {folder / 'tokenizer.json'} is missing.")
        try:
            rows = [
                row
                for part in batches(arguments.text, limits.max_batch)
                for row in _ask(send, arguments, part, target=target, limits=limits, output=output, folder=folder)
            ]
        except EncodingError as error:
            raise CommandFailed(str(error)) from None
    if arguments.json:
        answers = zip(arguments.text, rows, strict=True)
        found = [{"text": text, "output": output, "vector": row.tolist()} for text, row in answers]
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return 0
    for text, row in zip(arguments.text, rows, strict=True):
        start = " ".join(f"{value:+.4f}" for value in row.flat[:SHOWN])
        sizes = " x ".join(map(str, row.shape))
        console.print(f"{output} [{sizes}] {start} …  {text}", markup=False, highlight=False, soft_wrap=True)
    return 0


def patient(send: Send) -> Send:
    """`send`, repeated while SageMaker says that it still loads the model, for PATIENCE seconds at most."""

    def wait(model: str, body: bytes, content_type: str) -> tuple[int, str, bytes]:
        until = time.monotonic() + PATIENCE
        while True:
            answer = send(model, body, content_type)
            if answer[0] != client.NOT_READY or time.monotonic() > until:
                return answer
            print(f"{model} is being loaded …", file=sys.stderr)
            time.sleep(PAUSE)

    return wait


def batches(texts: Sequence[str], size: int) -> list[Sequence[str]]:
    """The texts in runs of at most `size`."""
    return [texts[start : start + size] for start in range(0, len(texts), size)]


def _found(account: Account, endpoint: str, model: str) -> tuple[Build, dict[str, str], str]:
    """The build, the model's engine in few words, and the endpoint's name of the model: none when it has but one."""
    if account.parameter(WORKLOAD, "models") is None and (one := single_model(account, endpoint)) is not None:
        name, build = one
        if model != name:
            raise CommandFailed(f"deployment '{account.deployment}' has no model '{model}'. It has: {name}.")
        own = build.engine()
        return build, describe(own) if own else {}, ""
    store = Store(account)
    return store.build, store.about(model) or describe_own(store), f"{model}{SUFFIX}"


def describe_own(store: Store) -> dict[str, str]:
    """The deployment's own engine: the best guess for an archive that somebody put there by hand."""
    own = store.build.engine()
    return describe(own) if own else {}


def _ask(
    send: Send,
    arguments: argparse.Namespace,
    texts: Sequence[str],
    *,
    target: str,
    limits: Limits,
    output: str,
    folder: Path,
) -> list[npt.NDArray[Any]]:
    inputs = client.tokenise(folder, texts, limits=limits)
    answer = client.encode(send, target, inputs, limits=limits, outputs=[output], binary=arguments.wire == "binary")[
        output
    ]
    if output == "last_hidden_state" and arguments.output is None:
        answer = answer[:, 0]
    return [np.asarray(row) for row in answer]


def _chosen(wanted: str | None, outputs: Sequence[str], *, model: str) -> str:
    if wanted is None:
        return next((name for name in VECTORS if name in outputs), outputs[0])
    if wanted not in outputs:
        raise CommandFailed(f"--output {wanted}: {model} has {', '.join(outputs)}.")
    return wanted

"""Take requests from the SageMaker inference toolkit in our own way.

The toolkit (sagemaker-inference 1.10) reads all requests of a batch with the headers of the first, takes any header
that begins with "Content-Type" for the content type, makes JSON of an Accept header that is not there, and answers a
failure with its traceback, once for the whole batch. So its Transformer.transform is replaced; loading stays its own.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from model_code.sentiment import answering, protocol


def install() -> None:
    """Install `transform`; without the toolkit, nothing. A toolkit without the seams: RuntimeError, no model loads."""
    try:
        transformer = importlib.import_module("sagemaker_inference.transformer").Transformer
    except ImportError:
        return
    for seam in ("transform", "validate_and_initialize"):
        if not callable(getattr(transformer, seam, None)):
            raise RuntimeError(f"this version of sagemaker-inference has no Transformer.{seam}")
    transformer.transform = transform


def transform(transformer: Any, data: Sequence[Mapping[str, Any]], context: Any) -> list[str]:
    """Bodies of the answers to a batch, as TorchServe wants them; statuses and content types go into `context`.

    At most TORCHLIFT_MAX_TEXTS texts a request.
    """
    # The model is there since the worker's start; this does nothing then.
    transformer.validate_and_initialize(model_dir=context.system_properties.get("model_dir"), context=context)
    classifier = transformer._model
    batch = [
        answering.Incoming(item.get("body"), headers_of(processor.get_request_properties()))
        for item, processor in zip(data, context.request_processor)  # noqa: B905 - TorchServe makes them in one loop
    ]
    max_texts = int(os.environ.get("TORCHLIFT_MAX_TEXTS", protocol.MAX_TEXTS))
    answers = answering.answer(batch, labels=classifier.labels, score=classifier.scores, max_texts=max_texts)
    for index, answer in enumerate(answers):
        context.set_response_status(code=int(answer.status), phrase=HTTPStatus(answer.status).phrase, idx=index)
        context.set_response_content_type(index, answer.kind)
    return [answer.body for answer in answers]


def headers_of(properties: Mapping[str, Any]) -> dict[str, str]:
    """Headers by names in lower case; TorchServe puts descriptions of the body's parts, no texts, among them."""
    return {name.lower(): value for name, value in properties.items() if isinstance(value, str)}

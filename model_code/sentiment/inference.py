"""The four functions that the SageMaker PyTorch toolkit calls; `protocol` says what goes in and comes out."""

from __future__ import annotations

import os
from pathlib import Path

from model_code.sentiment import negotiation, protocol, toolkit
from model_code.sentiment.classifier import Classifier

# (labels, a row of scores per text, how many labels to name)
Prediction = tuple[list[str], list[list[float]], "int | None"]

toolkit.answer_errors_plainly()


def model_fn(model_dir: str) -> Classifier:
    """Load the unpacked archive, and answer once: a model that can't predict must not become healthy."""
    classifier = Classifier(Path(model_dir))
    classifier.scores(["warm up"])
    return classifier


def input_fn(body: str | bytes | None, content_type: str | None) -> protocol.Request:
    """Check and read a request. At most TORCHLIFT_MAX_TEXTS texts."""
    max_texts = int(os.environ.get("TORCHLIFT_MAX_TEXTS", protocol.MAX_TEXTS))
    return protocol.parse_request(body, content_type, max_texts=max_texts)


def predict_fn(request: protocol.Request, classifier: Classifier) -> Prediction:
    """Judge the texts."""
    return classifier.labels, classifier.scores(request.texts), request.top_k


def output_fn(prediction: Prediction, accept: str | None) -> tuple[str, str]:
    """(body, content type) of the answer."""
    kind = negotiation.choose_answer(accept)
    return protocol.format_answer(*prediction, kind), kind

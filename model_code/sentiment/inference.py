"""What the SageMaker PyTorch toolkit loads: `model_fn`, and requests go `toolkit`'s way; `protocol` describes them."""

from __future__ import annotations

from pathlib import Path

from model_code.sentiment import precision, toolkit
from model_code.sentiment.classifier import Classifier

toolkit.install()


def model_fn(model_dir: str) -> Classifier:
    """Load the unpacked archive, and judge some texts: a model that can't must not become healthy."""
    classifier = Classifier(Path(model_dir))
    precision.choose(classifier)
    precision.warm_up(classifier)
    return classifier

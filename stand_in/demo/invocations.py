"""Ask the served model, and say which program answered."""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from model_code.sentiment import client as sentiment
from settings import names
from stand_in.session import StandIn

SENTENCE = "Covid cases are increasing fast!"
"""The sentence that AWS's post on PyTorch 2.0 training tries its model with. It is neither good nor bad: no test asks
for an answer to it."""

LATENCY_INVOCATIONS = 20
REVIEWS_NEEDED = 22


class WrongAnswers(Exception):
    """The served model labels too many of the review sentences wrongly."""


@dataclass(frozen=True, kw_only=True)
class SentimentResult:
    """What the sentiment endpoint said."""

    served_by: str
    label: str
    score: float
    latency_ms: float
    metrics: dict[str, float]
    reviews_right: int
    reviews: int
    wrong: list[str]

    def as_report(self) -> dict[str, Any]:
        """The workload's entry in the demo's report."""
        return {
            "served_by": self.served_by,
            "input": SENTENCE,
            "prediction": {"label": self.label, "score": self.score},
            "latency_ms": self.latency_ms,
            "metrics": self.metrics | {"reviews_right": self.reviews_right, "reviews": self.reviews},
        }


def invoke_sentiment(aws: StandIn, deployment: str, *, console: Console) -> SentimentResult:
    """Find the endpoint by its parameter, as any client does, and ask it.

    Raises WrongAnswers when fewer than REVIEWS_NEEDED review sentences are labelled right: then something between
    training and serving is broken, whatever the endpoint's status says.
    """
    endpoint = aws.client("ssm").get_parameter(Name=names.parameter_name(deployment, "sentiment", "endpoint"))
    name = endpoint["Parameter"]["Value"]
    runtime = aws.client("sagemaker-runtime")
    reviews = json.loads((Path(__file__).parent / "review_sentences.json").read_text())
    answers = sentiment.ask(name, [review["text"] for review in reviews], client=runtime)
    wrong = [
        f"{review['text']} (is {review['label']}, was called {answer[0].label} with {answer[0].score:.2f})"
        for review, answer in zip(reviews, answers, strict=True)
        if answer[0].label != review["label"]
    ]
    right = len(reviews) - len(wrong)
    console.print(f"    {right} of {len(reviews)} review sentences labelled right", highlight=False)
    for line in wrong:
        console.print(f"      wrong: {line}", markup=False, highlight=False)
    if right < REVIEWS_NEEDED:
        raise WrongAnswers(
            f"only {right} of {len(reviews)} review sentences were labelled right; {REVIEWS_NEEDED} are needed"
        )
    latencies = []
    for _ in range(LATENCY_INVOCATIONS):
        started = time.perf_counter()
        first = sentiment.ask(name, [SENTENCE], client=runtime)[0][0]
        latencies.append((time.perf_counter() - started) * 1000)
    console.print(f"    “{SENTENCE}” → {first.label} ({first.score:.2f})", highlight=False)
    served = next(item for item in aws.get("/_torchlift/state")["endpoints"] if item["name"] == name)
    return SentimentResult(
        served_by=f"{served['program']} {served['version']}",
        label=first.label,
        score=first.score,
        latency_ms=round(statistics.median(latencies), 1),
        metrics=held_out_metrics(aws, deployment),
        reviews_right=right,
        reviews=len(reviews),
        wrong=wrong,
    )


def held_out_metrics(aws: StandIn, deployment: str) -> dict[str, float]:
    """The scores on the held-out split that training wrote beside the weights."""
    uri = aws.client("ssm").get_parameter(Name=names.parameter_name(deployment, "sentiment", "model"))
    bucket, _, prefix = uri["Parameter"]["Value"].removeprefix("s3://").partition("/")
    body = aws.client("s3").get_object(Bucket=bucket, Key=f"{prefix.rstrip('/')}/metrics.json")["Body"].read()
    held_out = json.loads(body)["held_out"]
    return {f"held_out_{name}": float(held_out[name]) for name in ("accuracy", "macro_recall", "macro_f1")}

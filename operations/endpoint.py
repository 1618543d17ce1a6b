"""`torchlift invoke`: ask the sentiment endpoint."""

from __future__ import annotations

import argparse

from rich.console import Console

from model_code.sentiment import client as sentiment
from operations.account import Account
from operations.failure import CommandFailed
from settings import Settings, names


def invoke(arguments: argparse.Namespace, settings: Settings, console: Console) -> int:
    """Send texts to the sentiment endpoint and print labels and scores.

    examples:
      torchlift invoke dev "The soup was cold." "Lovely place."
      torchlift invoke dev "The soup was cold." --top-k 3 --variant challenger

    IAM: ssm:GetParameter, sagemaker:InvokeEndpoint
    """
    account = Account(settings)
    endpoint = account.parameter("sentiment", "endpoint")
    if endpoint is None:
        parameter = names.parameter_name(account.deployment, "sentiment", "endpoint")
        raise CommandFailed(f"nothing is deployed: the SSM parameter {parameter} does not exist.")
    answers = sentiment.ask(
        endpoint,
        arguments.text,
        top_k=arguments.top_k,
        variant=arguments.variant,
        client=account.client("sagemaker-runtime"),
    )
    for text, predictions in zip(arguments.text, answers, strict=True):
        labels = "  ".join(f"{prediction.label} {prediction.score:.3f}" for prediction in predictions)
        console.print(f"{labels}  {text}", markup=False, highlight=False, soft_wrap=True)
    return 0

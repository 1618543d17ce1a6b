"""The operator's command `torchlift`: look at a deployment and talk to what it serves.

It reads settings and what the stacks put out (parameters, stack states); it never imports the stacks.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console

from model_code.sentiment import client as sentiment
from model_code.sentiment.protocol import RequestError
from operations.status import status_table
from settings import Settings, SettingsError, load_settings, names

EXIT_OK, EXIT_FAILED = 0, 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 on success, 1 with one clear sentence on standard error otherwise."""
    arguments = _parser().parse_args(argv)
    console = Console()
    try:
        settings = load_settings(arguments.deployment)
        return int(arguments.command(arguments, settings, console))
    except SettingsError as error:
        print(error, file=sys.stderr)
    except (ClientError, BotoCoreError, RequestError, sentiment.AnswerError) as error:
        print(f"torchlift {arguments.name}: {error}", file=sys.stderr)
    return EXIT_FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="torchlift", description="Look at a deployment and talk to what it serves.")
    commands = parser.add_subparsers(dest="name", required=True, metavar="COMMAND")

    def add(name: str, command: Any, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.add_argument(
            "deployment", help="the name of a file in deployments/, without .toml; or a path to a .toml file"
        )
        sub.set_defaults(command=command)
        return sub

    add("check", _check, "Validate deployments/<deployment>.toml and print every problem at once.")
    add("status", _status, "Show the stacks of a deployment and what they put out.")
    invoke = add("invoke", _invoke, "Send texts to the sentiment endpoint and print labels and scores.")
    invoke.add_argument("text", nargs="+", help="a text to classify; quote it")
    invoke.add_argument("--top-k", type=int, default=1, help="labels per text, best first (default: 1)")
    return parser


def _check(arguments: argparse.Namespace, _: Settings, console: Console) -> int:
    given = arguments.deployment
    path = given if given.endswith(".toml") else f"deployments/{given}.toml"
    console.print(f"{path} is valid.", markup=False, highlight=False)
    return EXIT_OK


def _status(_: argparse.Namespace, settings: Settings, console: Console) -> int:
    table = status_table(boto3.Session(region_name=settings.deployment.region), settings.deployment.name)
    if table is None:
        print(
            f"No stack of deployment '{settings.deployment.name}' exists in {settings.deployment.region}.",
            file=sys.stderr,
        )
        return EXIT_FAILED
    console.print(table)
    return EXIT_OK


def _invoke(arguments: argparse.Namespace, settings: Settings, console: Console) -> int:
    session = boto3.Session(region_name=settings.deployment.region)
    parameter = names.parameter_name(settings.deployment.name, "sentiment", "endpoint")
    ssm = session.client("ssm")
    try:
        endpoint = ssm.get_parameter(Name=parameter)["Parameter"]["Value"]
    except ssm.exceptions.ParameterNotFound:
        print(f"Nothing is deployed: the SSM parameter {parameter} does not exist.", file=sys.stderr)
        return EXIT_FAILED
    answers = sentiment.ask(endpoint, arguments.text, top_k=arguments.top_k, client=session.client("sagemaker-runtime"))
    for text, predictions in zip(arguments.text, answers, strict=True):
        labels = "  ".join(f"{prediction.label} {prediction.score:.3f}" for prediction in predictions)
        console.print(f"{labels}  {text}", markup=False, highlight=False)
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())

"""`torchlift ask`: ask the question-answering fleet."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from model_code.question_answering.client import AskError, UnreachableError
from model_code.question_answering.client import ask as ask_fleet
from operations.account import Account
from operations.failure import CommandFailed
from settings import Settings, names

WORKLOAD = "question-answering"
TOKEN = "TORCHLIFT_TOKEN"  # noqa: S105 - the variable's name
INSIDE = (
    "The load balancer is internal: it answers inside the VPC only, and networks connected to it. From elsewhere, "
    "forward a port through an instance of the fleet (docs/question-answering.md) and give --url."
)


def ask(arguments: argparse.Namespace, settings: Settings, console: Console) -> int:
    """Ask the question-answering fleet about a text, and print the answer.

    The load balancer is internal: ask from inside its network, or forward a port and give --url. Where the fleet wants
    a token, the variable TORCHLIFT_TOKEN has it, or it is read from the secret that the settings name.

    examples:
      torchlift ask dev "Who wrote it?" --context "The book was written by Ada."
      torchlift ask dev "Who wrote it?" --context-file book.txt --model model_0 --json

    IAM: ssm:GetParameter; with a token in a secret secretsmanager:GetSecretValue, kms:Decrypt
    """
    account = Account(settings)
    url = arguments.url or account.parameter(WORKLOAD, "url")
    if url is None:
        parameter = names.parameter_name(account.deployment, WORKLOAD, "url")
        raise CommandFailed(f"nothing is deployed: the SSM parameter {parameter} does not exist.")
    context = arguments.context
    if arguments.context_file is not None:
        context = _text(arguments.context_file)
    try:
        found = ask_fleet(url, arguments.question, context, model=arguments.model, token=token(account))
    except UnreachableError as error:
        raise CommandFailed(f"{error}. {INSIDE}") from None
    except AskError as error:
        hint = f" Set {TOKEN}, or token_secret_arn in the settings." if error.status == 401 else ""
        raise CommandFailed(f"{error}{hint}") from None
    if arguments.json:
        print(json.dumps(asdict(found), indent=2, ensure_ascii=False))
        return 0
    said = found.text if found.has_answer else "(the context has no answer)"
    where = f"{found.model} on core {found.core}, {found.milliseconds:.1f} ms"
    console.print(f"{said}  {found.score:.3f}  [{where}]", markup=False, highlight=False, soft_wrap=True)
    return 0


def token(account: Account) -> str | None:
    """What requests must bring: from the environment, else from the settings' secret, else nothing."""
    given = os.environ.get(TOKEN, "").strip()
    section = account.settings.question_answering
    if given or section is None or section.token_secret_arn is None:
        return given or None
    secrets = account.client("secretsmanager")
    return str(secrets.get_secret_value(SecretId=section.token_secret_arn)["SecretString"]).strip()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise CommandFailed(f"--context-file {path}: not UTF-8 text.") from None

"""The operator's command `torchlift`: look at a deployment, and do to it what a deploy does not do.

This module only parses and dispatches. A command is a function that takes the arguments, the settings and a console
and returns the exit status; its docstring is its help. None of them imports the stacks.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console

from model_code.sentiment.client import AnswerError
from model_code.sentiment.protocol import RequestError
from operations import advising, encoding, endpoint, proof, question, status
from operations.failure import CommandFailed, sentence
from operations.models import commands as models
from operations.models import question_answering as fleet
from operations.preflight.commands import preflight
from operations.teardown import commands as teardowns
from operations.versions import commands as versions
from settings import Settings, SettingsError, load_settings
from settings.question_answering_models import BERT_BASE_MIB

EXIT_OK, EXIT_FAILED, EXIT_INTERRUPTED = 0, 1, 130
Command = Callable[[argparse.Namespace, Settings, Console], int] | Callable[[argparse.Namespace, None, Console], int]
STATUSES = "exit status: 0 done, 1 failed (one sentence on standard error), 2 wrong usage, 130 interrupted"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status, with one clear sentence on standard error unless it is 0."""
    arguments = _parser().parse_args(argv)
    console = Console()
    try:
        settings = None if arguments.deployment is None else load_settings(arguments.deployment)
        return int(arguments.command(arguments, settings, console))
    except SettingsError as error:
        print(error, file=sys.stderr)
    except (ClientError, BotoCoreError) as error:
        _complain(arguments, sentence(error))
    except (CommandFailed, RequestError, AnswerError, OSError) as error:
        _complain(arguments, str(error))
    except KeyboardInterrupt:
        _complain(arguments, "interrupted")
        return EXIT_INTERRUPTED
    return EXIT_FAILED


def _complain(arguments: argparse.Namespace, text: str) -> None:
    print(f"torchlift {arguments.name}: {text}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="torchlift",
        description="Look at a deployment, and do to it what a deploy does not do.",
        epilog=f"`torchlift COMMAND --help` has examples and the IAM actions that a command needs. {STATUSES}",
    )
    commands = parser.add_subparsers(dest="name", required=True, metavar="COMMAND")
    _add(commands, "check", check)
    _add(commands, "preflight", preflight)
    advise = _add(commands, "advise", advising.compare, deployment=None)
    advise.add_argument("--models-per-core", type=int, default=1, metavar="K", help="on each NeuronCore (default: 1)")
    advise.add_argument(
        "--weights-mib", type=float, default=BERT_BASE_MIB, metavar="N", help="of one model (default: BERT base, 420)"
    )
    advise.add_argument("--shapes", type=int, default=9, metavar="N", help="batch sizes times lengths (default: 9)")
    advise.add_argument("--json", action="store_true", help="print JSON, memory in MiB")
    _add(commands, "status", status.show)
    invoke = _add(commands, "invoke", endpoint.invoke)
    invoke.add_argument("text", nargs="+", help="a text to classify; quote it")
    invoke.add_argument("--top-k", type=int, default=1, help="labels per text, best first (default: 1)")
    invoke.add_argument("--variant", help="ask this production variant, such as a challenger, whatever its weight")
    encode = _add(commands, "encode", encoding.encode)
    encode.add_argument("model", help="a name that `torchlift models list` shows")
    encode.add_argument("text", nargs="+", help="a text to encode; quote it")
    encode.add_argument("--output", help="the model's output to print (default: one vector a text)")
    encode.add_argument("--wire", choices=("binary", "json"), default="binary", help="how tensors travel")
    encode.add_argument("--tokenizer", type=Path, metavar="FOLDER", help="tokenizer.json of another model than built")
    encode.add_argument("--json", action="store_true", help="print whole vectors as JSON")
    ask = _add(commands, "ask", question.ask)
    ask.add_argument("question", help="quote it")
    context = ask.add_mutually_exclusive_group(required=True)
    context.add_argument("--context", help="the text that has the answer")
    context.add_argument("--context-file", type=Path, metavar="FILE", help="a UTF-8 file with it")
    ask.add_argument("--model", help="a name that `torchlift models show` shows (default: one by weight)")
    ask.add_argument("--url", help="another address of the fleet, such as a forwarded port's")
    ask.add_argument("--json", action="store_true", help="print JSON")
    _add_models(commands)
    _add_versions(commands)
    prove = _add(commands, "prove", proof.prove)
    prove.add_argument("--yes", action="store_true", help="do not ask")
    teardown = _add(commands, "teardown", teardowns.teardown)
    teardown.add_argument("--dry-run", action="store_true", help="only say what would go and what would stay")
    teardown.add_argument("--unprotect", action="store_true", help="take the termination protection off, after asking")
    teardown.add_argument("--yes", action="store_true", help="do not ask; a protected deployment is asked for anyway")
    return parser


def _add_models(commands: Any) -> None:
    group = commands.add_parser("models", help="The models that an endpoint or a fleet serves: list, show, change.")
    inner = group.add_subparsers(dest="subcommand", required=True, metavar="SUBCOMMAND")
    _add(inner, "list", models.list_models).add_argument("--json", action="store_true", help="print JSON")
    add, remove = _add(inner, "add", models.add_model), _add(inner, "remove", models.remove_model)
    for sub in (add, remove):
        sub.add_argument("model", help="the model's name; its archive is <name>.tar.gz")
        sub.add_argument("--dry-run", action="store_true", help="only say what would be done")
    source = add.add_mutually_exclusive_group(required=True)
    source.add_argument("--archive", type=Path, metavar="FILE", help="a .tar.gz with the model's folder in it")
    source.add_argument("--repository", type=Path, metavar="FOLDER", help="a model's folder, with config.pbtxt in it")
    source.add_argument(
        "--traced", metavar="HASH", help="for question answering: a compiled model's 16 digits, or s3://…"
    )
    add.add_argument("--weight", type=float, help="with --traced: its share of requests without a name (default: 0)")
    remove.add_argument("--yes", action="store_true", help="do not ask")
    remove.add_argument("--workload", choices=("text-encoding", fleet.WORKLOAD), default="text-encoding", help="whose")
    _add(inner, "show", fleet.show_models).add_argument("--json", action="store_true", help="print JSON")
    change = _add(inner, "set", fleet.set_weights)
    change.add_argument("weights", nargs="+", metavar="NAME=WEIGHT", help="such as model_0=9; 0: asked by name only")


def _add_versions(commands: Any) -> None:
    group = commands.add_parser("versions", help="The model versions of a deployment: list, publish, promote, delete.")
    inner = group.add_subparsers(dest="subcommand", required=True, metavar="SUBCOMMAND")
    listing = _add(inner, "list", versions.list_versions)
    show = _add(inner, "show", versions.show_version)
    show.add_argument("version", help="16 digits of 0-9 and a-f")
    for sub in (listing, show):
        sub.add_argument("--json", action="store_true", help="print JSON")
    publish = _add(inner, "publish", versions.publish_version)
    publish.add_argument("folder", help="a trained model's folder")
    promote = _add(inner, "promote", versions.promote_version, deployment="the deployment that has the version")
    promote.add_argument("to", help="the deployment that gets it")
    promote.add_argument("version", help="16 digits of 0-9 and a-f")
    promote.add_argument("--from-profile", metavar="PROFILE", help="AWS profile that reads the one")
    promote.add_argument("--to-profile", metavar="PROFILE", help="AWS profile that writes the other")
    delete = _add(inner, "delete", versions.delete_version)
    delete.add_argument("version", help="16 digits of 0-9 and a-f")
    delete.add_argument("--yes", action="store_true", help="do not ask")


def _add(
    commands: Any, name: str, command: Command, *, deployment: str | None = "the deployment to work on"
) -> argparse.ArgumentParser:
    """A subcommand that does `command`, with the first line of its docstring as help and the rest below it.

    :param deployment: help of the argument; None for a command that works on no deployment
    """
    first, _, rest = (inspect.getdoc(command) or "").partition("\n\n")
    sub: argparse.ArgumentParser = commands.add_parser(
        name,
        help=first,
        description=first,
        epilog="\n\n".join(_filled(paragraph) for paragraph in [*rest.split("\n\n"), STATUSES] if paragraph),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if deployment is not None:
        sub.add_argument(
            "deployment", help=f"{deployment}: a file in deployments/, without .toml; or a path to a .toml"
        )
    sub.set_defaults(command=command, deployment=None)
    return sub


def _filled(paragraph: str) -> str:
    """A paragraph of a docstring at the width of a terminal; examples stay as they are written."""
    return paragraph if paragraph.startswith("example") else textwrap.fill(" ".join(paragraph.split()), 80)


def check(arguments: argparse.Namespace, _: Settings, console: Console) -> int:
    """Validate deployments/<deployment>.toml and print every problem at once.

    example: torchlift check prod

    IAM: none; nothing is asked of AWS
    """
    given = arguments.deployment
    path = given if given.endswith(".toml") else f"deployments/{given}.toml"
    console.print(f"{path} is valid.", markup=False, highlight=False)
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())

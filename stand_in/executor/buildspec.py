"""A buildspec as one bash script, which runs its phases in the order and with the consequences that CodeBuild has.

Source: "Build specification reference for CodeBuild" and "View build details" (phases' transitions) in its user guide.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

PHASES = ("install", "pre_build", "build", "post_build")


class BuildspecError(ValueError):
    """The buildspec is broken, or has something that nothing here does; the message names it."""


def script(buildspec: str) -> str:
    """The script for `bash`; its exit status is that of the first command that failed, or 0. Raises BuildspecError.

    Version 0.2: all commands share one shell. A command that fails ends its phase; after `install` or `pre_build` that
    ends the build, after `build` the phase `post_build` still runs. `buildspec` is JSON, as the app writes it.
    """
    try:
        document: Any = json.loads(buildspec)
    except ValueError as error:
        raise BuildspecError(f"the buildspec is no JSON: {error}") from error
    if not isinstance(document, dict) or document.get("version") not in (0.2, "0.2"):
        raise BuildspecError("the buildspec is not of version 0.2")
    _only("the buildspec", document, ("version", "env", "phases"))
    _only("env", document.get("env", {}), ("shell", "variables"))
    if document.get("env", {}).get("shell") != "bash":
        raise BuildspecError("env.shell is not bash, the one shell that builds have here")
    phases = document.get("phases", {})
    _only("phases", phases, PHASES)
    variables = document.get("env", {}).get("variables", {})
    # What the project or the call sets wins over the buildspec's own.
    lines = [f": ${{{name}={shlex.quote(str(value))}}}; export {name}" for name, value in sorted(variables.items())]
    for name in PHASES:
        lines += _function(name, phases.get(name, {}))
    return "\n".join([*lines, "torchlift_install && torchlift_pre_build || exit", "torchlift_build", "status=$?",
                      "torchlift_post_build || { after=$?; [ $status -ne 0 ] || status=$after; }",
                      "exit $status", ""])  # fmt: skip


def _function(name: str, phase: Mapping[str, Any]) -> list[str]:
    _only(f"phases.{name}", phase, ("commands",))
    commands = phase.get("commands", [])
    if not isinstance(commands, list) or not all(isinstance(command, str) for command in commands):
        raise BuildspecError(f"phases.{name}.commands is no list of commands")
    lines = [f"torchlift_{name}() {{"]
    for command in commands:
        lines += [f"echo {shlex.quote(f'[{name}] ' + command.partition(chr(10))[0])}", command]
        lines += ["torchlift_status=$?", '[ "$torchlift_status" -eq 0 ] || return "$torchlift_status"']
    return [*lines, ":", "}"]


def _only(where: str, given: Any, known: tuple[str, ...]) -> None:
    if not isinstance(given, dict):
        raise BuildspecError(f"{where} is no mapping")
    if unknown := sorted(set(given) - set(known)):
        raise BuildspecError(f"{where}: nothing here does {', '.join(unknown)} (only {', '.join(known)})")

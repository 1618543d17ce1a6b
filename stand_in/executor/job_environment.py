"""The job's environment as an instance's user data carries it."""

from __future__ import annotations

import base64
import shlex
from contextlib import suppress

MARK = "TORCHLIFT_JOB_ENV"
FLEET_MARK = "TORCHLIFT_FLEET_ENV"


class NoJobEnvironment(ValueError):
    """The user data carries no job's environment; the message says what is wrong with it."""


def from_user_data(user_data: str | bytes, *, mark: str = MARK) -> dict[str, str]:
    """Read the here-document that user data writes to `/etc/torchlift/job.env`, or with FLEET_MARK to fleet.env.

    It lies between a line that ends in `<<'TORCHLIFT_JOB_ENV'` and a line `TORCHLIFT_JOB_ENV`, one shell-quoted
    `NAME=value` after the other. `user_data` may be base64-encoded. Raises NoJobEnvironment.
    """
    lines = iter(text(user_data).splitlines())
    for line in lines:
        if line.rstrip().endswith(f"<<'{mark}'"):
            break
    else:
        raise NoJobEnvironment(f"the user data has no here-document {mark}")
    document = []
    for line in lines:
        if line == mark:
            break
        document.append(line)
    else:
        raise NoJobEnvironment(f"the user data's here-document has no closing line {mark}")
    return _assignments("\n".join(document))


def _assignments(document: str) -> dict[str, str]:
    found = {}
    try:
        words = shlex.split(document)
    except ValueError as error:
        raise NoJobEnvironment(f"the job's environment is not quoted for a shell: {error}") from error
    for word in words:
        name, separator, value = word.partition("=")
        if not separator or not name.isidentifier():
            raise NoJobEnvironment(f"'{word[:80]}' is no NAME=value")
        found[name] = value
    return found


def text(user_data: str | bytes) -> str:
    """User data as a script, whether base64-encoded or not."""
    raw = user_data.encode() if isinstance(user_data, str) else user_data
    if not raw.startswith(b"#!"):
        with suppress(ValueError):
            raw = base64.b64decode(raw, validate=True)
    return raw.decode(errors="replace")

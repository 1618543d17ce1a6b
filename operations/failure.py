"""How a command says that it failed: one sentence, never a traceback."""

from __future__ import annotations

import re

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AccessDeniedFault", "NotAuthorized")
"""The codes by which services refuse a caller."""


class CommandFailed(Exception):
    """A command cannot do what was asked; the text is for the user."""


def error_code(error: ClientError) -> str:
    """The service's code of an error, such as `AccessDenied`."""
    return str(error.response.get("Error", {}).get("Code", ""))


def is_denied(error: ClientError) -> bool:
    """Whether the caller lacks the permission."""
    return error_code(error) in DENIED or error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") == 403


def sentence(error: ClientError | BotoCoreError) -> str:
    """An error of AWS, or of reaching it, as one line that says what to do where that is known."""
    if isinstance(error, NoCredentialsError):
        return "No AWS credentials were found: sign in, or set AWS_PROFILE."
    if isinstance(error, ClientError):
        message = " ".join(str(error.response.get("Error", {}).get("Message", "")).split())
        if error_code(error) in ("ExpiredToken", "ExpiredTokenException", "RequestExpired"):
            return "The AWS credentials have expired: sign in again."
        if is_denied(error):
            return f"not allowed: {action(error)}. {message}".strip()
        return f"{error.operation_name}: {message or error_code(error)}"
    return " ".join(str(error).split())


_PERFORM = re.compile(r"perform:? ([a-z0-9-]+:\w+)")
_ACTIONS = {"ListObjectsV2": "ListBucket", "HeadObject": "GetObject", "CreateMultipartUpload": "PutObject"}


def action(error: ClientError) -> str:
    """The IAM action behind the refused call: what the service says, else from the operation."""
    said = _PERFORM.search(str(error.response.get("Error", {}).get("Message", "")))
    if said:
        return said.group(1)
    return _ACTIONS.get(error.operation_name, error.operation_name)

"""What AWS answers to a call that is not allowed, in the form of the service's protocol."""

from __future__ import annotations

import json
from xml.sax.saxutils import escape

from stand_in.access.operations import Request
from stand_in.hooks import Answer

REQUEST_ID = "00000000-0000-0000-0000-000000000000"


def refusal(request: Request, message: str) -> Answer:
    """An error that every client reads as AccessDenied; EC2 calls it UnauthorizedOperation."""
    if request.headers.get("X-Amz-Target"):
        return _json(message, status=400)
    if request.service in ("lambda", "sagemaker"):
        return _json(message, status=403)
    code = "UnauthorizedOperation" if request.service == "ec2" else "AccessDenied"
    error = f"<Code>{code}</Code><Message>{escape(message)}</Message>"
    if request.service == "ec2":
        text = f"<Response><Errors><Error>{error}</Error></Errors><RequestID>{REQUEST_ID}</RequestID></Response>"
    elif request.service in ("s3", ""):
        text = f"<Error>{error}<RequestId>{REQUEST_ID}</RequestId></Error>"
    else:
        error = f"<Error><Type>Sender</Type>{error}</Error>"
        text = f"<ErrorResponse>{error}<RequestId>{REQUEST_ID}</RequestId></ErrorResponse>"
    # The answer to HEAD has no body.
    body = b"" if request.method == "HEAD" else f'<?xml version="1.0" encoding="UTF-8"?>{text}'.encode()
    return Answer(status=403, body=body, headers={"Content-Type": "text/xml"})


def _json(message: str, *, status: int) -> Answer:
    kind = "AccessDeniedException"
    body = json.dumps({"__type": kind, "message": message}).encode()
    headers = {"Content-Type": "application/x-amz-json-1.1", "x-amzn-ErrorType": kind}
    return Answer(status=status, body=body, headers=headers)

"""CloudFormation's query protocol, parsed and written from botocore's own model of the service."""

from __future__ import annotations

import re
import traceback
from typing import Any
from urllib.parse import parse_qsl

from moto.core.parse import QueryParser
from moto.core.serialize import QuerySerializer
from moto.core.utils import get_service_model

from stand_in.cloudformation.service import CloudFormation, NotFound
from stand_in.cloudformation.template import TemplateError
from stand_in.hooks import Answer, Call

_MODEL = get_service_model("cloudformation")


def answer(service: CloudFormation, call: Call) -> Answer:
    """Run one request against the service."""
    values = dict(parse_qsl(call.body.decode(), keep_blank_values=True))
    action = values.get("Action", "")
    method = getattr(service, re.sub(r"(?<!^)(?=[A-Z])", "_", action).lower(), None)
    if action not in _MODEL.operation_names or method is None:
        return _error("InvalidAction", f"the stand-in's CloudFormation has no action {action}", 400)
    operation = _MODEL.operation_model(action)
    try:
        params: dict[str, Any] = {}
        if operation.input_shape is not None:
            params = dict(QueryParser(operation)._do_parse({"values": values}, operation.input_shape))
        result = method(params, call.region)
    except NotFound as error:
        return _error("ChangeSetNotFound", str(error), 404)
    except TemplateError as error:
        return _error("ValidationError", str(error), 400)
    except Exception as error:
        traceback.print_exc()
        return _error("InternalFailure", f"{type(error).__name__}: {error}", 500)
    written = QuerySerializer(operation).serialize(_without_none(result))
    body = written["body"]
    return Answer(
        status=200, body=body.encode() if isinstance(body, str) else body, headers={"Content-Type": "text/xml"}
    )


def _error(code: str, message: str, status: int) -> Answer:
    from xml.sax.saxutils import escape

    body = (
        '<ErrorResponse xmlns="http://cloudformation.amazonaws.com/doc/2010-05-15/"><Error><Type>Sender</Type>'
        f"<Code>{code}</Code><Message>{escape(message)}</Message></Error>"
        "<RequestId>00000000-0000-0000-0000-000000000000</RequestId></ErrorResponse>"
    )
    return Answer(status=status, body=body.encode(), headers={"Content-Type": "text/xml"})


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_none(item) for item in value]
    return value

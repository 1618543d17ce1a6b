"""Make the SageMaker inference toolkit answer an error with its status and one sentence.

The toolkit (sagemaker-inference 1.10) answers every exception with its traceback as the body, nearly always
as status 500, and it decodes a JSON body before any function of ours sees it. Its one seam is
Transformer.handle_error, called inside the `except` block; it is replaced here.
"""

from __future__ import annotations

import importlib
import logging
import sys
from http import HTTPStatus
from typing import Any

from model_code.sentiment.protocol import JSON, RequestError, format_error

logger = logging.getLogger(__name__)


def answer_errors_plainly() -> None:
    """Install `answer_error`; without the toolkit, nothing. A toolkit without the seam: the load fails."""
    try:
        transformer = importlib.import_module("sagemaker_inference.transformer").Transformer
    except ImportError:
        return
    if not callable(getattr(transformer, "handle_error", None)):
        raise RuntimeError("this version of sagemaker-inference has no Transformer.handle_error")
    transformer.handle_error = staticmethod(answer_error)


def answer_error(context: Any, _exception: Exception, trace: str) -> list[str]:
    """The body for the exception being handled, as the toolkit wants it; the status goes into `context`."""
    status, sentence = describe(sys.exc_info()[1])
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        logger.error("%s", trace)
    context.set_response_status(code=int(status), phrase=HTTPStatus(status).phrase)
    context.set_response_content_type(0, JSON)
    return [format_error(sentence)]


def describe(error: BaseException | None) -> tuple[int, str]:
    """HTTP status and sentence for an exception."""
    if isinstance(error, RequestError):
        return error.status, str(error)
    if isinstance(error, UnicodeDecodeError):  # the toolkit's own decoding of the body
        return HTTPStatus.BAD_REQUEST, "The body is not valid UTF-8."
    return (
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "The model failed to answer; the reason is in the endpoint's log.",
    )

"""Answer requests that came in together: each read and refused by itself, the good ones' texts judged together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from model_code.sentiment import negotiation, protocol

logger = logging.getLogger(__name__)

# Texts → a row of scores each, a column per label.
Score = Callable[[Sequence[str]], list[list[float]]]


@dataclass(frozen=True)
class Incoming:
    """One HTTP request: its body, and its headers by names in lower case."""

    body: bytes | bytearray | str | None
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Answer:
    """HTTP status, body and content type."""

    status: int
    body: str
    kind: str = protocol.JSON


FAILED = Answer(
    HTTPStatus.INTERNAL_SERVER_ERROR,
    protocol.format_error("The model failed to answer; the reason is in the endpoint's log."),
)


def answer(batch: Sequence[Incoming], *, labels: Sequence[str], score: Score, max_texts: int) -> list[Answer]:
    """An answer for each request, in order; raises nothing. `max_texts` counts per request."""
    read = [_read(one, max_texts) for one in batch]
    good = [one for one in read if not isinstance(one, Answer)]
    answers = iter(_judge(good, labels, score))
    return [one if isinstance(one, Answer) else next(answers) for one in read]


@dataclass(frozen=True)
class _Wanted:
    request: protocol.Request
    kind: str


def _read(incoming: Incoming, max_texts: int) -> _Wanted | Answer:
    try:
        content = incoming.headers.get("content-type")
        request = protocol.parse_request(incoming.body, content, max_texts=max_texts)
        return _Wanted(request, negotiation.choose_answer(incoming.headers.get("accept"), content))
    except protocol.RequestError as error:
        return Answer(error.status, protocol.format_error(str(error)))
    except Exception:
        logger.exception("a request could not be read")
        return FAILED


def _judge(good: Sequence[_Wanted], labels: Sequence[str], score: Score) -> list[Answer]:
    """Answers to `good`; when judging them together fails, each is tried alone."""
    try:
        rows = iter(score([text for one in good for text in one.request.texts]) if good else [])
        return [
            Answer(
                HTTPStatus.OK,
                protocol.format_answer(labels, [next(rows) for _ in one.request.texts], one.request.top_k, one.kind),
                one.kind,
            )
            for one in good
        ]
    except Exception:
        if len(good) == 1:
            logger.exception("the model failed")
            return [FAILED]
        logger.warning("the model failed on %d requests together: each is tried alone", len(good))
        return [found for one in good for found in _judge([one], labels, score)]

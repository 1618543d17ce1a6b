"""Addresses under which others report back: wait-condition handles and custom-resource responses."""

from __future__ import annotations

import json
import threading
import time
import uuid
from typing import Any

Message = dict[str, Any]
POLL_SECONDS = 0.2
"""How soon a cancelled wait ends."""


class Mailbox:
    """Boxes by id; each collects the messages PUT to it. `/_torchlift/<kind>/<id>` is a box's address."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self._boxes: dict[str, list[Message]] = {}
        self._changed = threading.Condition()

    def open(self, kind: str) -> str:
        """A new box; returns its URL."""
        identifier = f"{kind}/{uuid.uuid4()}"
        with self._changed:
            self._boxes[identifier] = []
        return f"{self._base_url}/_torchlift/{identifier}"

    def close(self, url: str) -> None:
        """Forget a box; later messages to it are refused, as for an expired URL."""
        with self._changed:
            self._boxes.pop(self._id(url), None)

    def put(self, path: str, content_type: str, body: bytes) -> int:
        """A message arrives; returns the HTTP status.

        The URLs that AWS gives out are signed for an empty Content-Type: any other is refused with 403.
        """
        identifier = path.removeprefix("/_torchlift/")
        if content_type:
            return 403
        try:
            message = json.loads(body)
        except ValueError:
            return 400
        if not isinstance(message, dict):
            return 400
        with self._changed:
            if identifier not in self._boxes:
                return 403
            self._boxes[identifier].append(message)
            self._changed.notify_all()
        return 200

    def messages(self, url: str) -> list[Message]:
        """What has arrived so far."""
        with self._changed:
            return list(self._boxes.get(self._id(url), ()))

    def wait(self, url: str, *, count: int, seconds: float, cancelled: threading.Event) -> list[Message]:
        """Wait until `count` messages with different UniqueId arrived, one says FAILURE, time is over, or cancelled.

        Returns the messages so far, first of each UniqueId only.
        """
        deadline = time.monotonic() + seconds
        while True:
            with self._changed:
                distinct = self._distinct(self._boxes.get(self._id(url), []))
                failed = any(message.get("Status") in ("FAILURE", "FAILED") for message in distinct)
                if len(distinct) >= count or failed or cancelled.is_set() or time.monotonic() >= deadline:
                    return distinct
                self._changed.wait(min(POLL_SECONDS, max(0.0, deadline - time.monotonic())))

    @staticmethod
    def _distinct(messages: list[Message]) -> list[Message]:
        seen: dict[Any, Message] = {}
        for index, message in enumerate(messages):
            seen.setdefault(message.get("UniqueId", index), message)
        return list(seen.values())

    def _id(self, url: str) -> str:
        return url.partition("/_torchlift/")[2]

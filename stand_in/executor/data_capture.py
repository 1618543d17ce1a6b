"""Data capture: requests and answers as JSON lines in S3."""

from __future__ import annotations

import base64
import json
import logging
import random
import threading
import uuid
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from stand_in.executor.site import Site

log = logging.getLogger(__name__)
FLUSH_SECONDS = 0.5
"""How long lines are collected for one file; on AWS minutes."""


@dataclass(frozen=True, kw_only=True)
class Content:
    """A body and its type."""

    type: str
    body: bytes


@dataclass(frozen=True, kw_only=True)
class _Place:
    region: str
    destination: str
    key: str
    endpoint: str
    variant: str
    role: str


def summary(config: Mapping[str, Any]) -> dict[str, Any] | None:
    """DataCaptureConfig of DescribeEndpoint; None when the configuration has none."""
    if not config:
        return None
    enabled = bool(config.get("EnableCapture"))
    return {
        "EnableCapture": enabled,
        "CaptureStatus": "Started" if enabled else "Stopped",
        "CurrentSamplingPercentage": config["InitialSamplingPercentage"],
        "DestinationS3Uri": config["DestinationS3Uri"],
        "KmsKeyId": config.get("KmsKeyId", ""),
    }


class Captures:
    """Collects lines and writes them to S3 soon."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._lock = threading.Lock()
        self._lines: dict[_Place, list[str]] = defaultdict(list)
        self._timer: threading.Timer | None = None

    def record(
        self,
        config: Mapping[str, Any],
        *,
        region: str,
        endpoint: str,
        variant: str,
        role: str,
        request: Content,
        answer: Content,
    ) -> None:
        """Keep an invocation, or not: as the configuration's share says. `role` is the one to write it with."""
        if not config.get("EnableCapture") or random.uniform(0, 100) >= config["InitialSamplingPercentage"]:
            return
        place = _Place(
            region=region,
            destination=config["DestinationS3Uri"],
            key=config.get("KmsKeyId", ""),
            endpoint=endpoint,
            variant=variant,
            role=role,
        )
        with self._lock:
            self._lines[place].append(_line(config, request, answer))
            if self._timer is None:
                self._timer = threading.Timer(FLUSH_SECONDS, self.flush)
                self._timer.daemon = True
                self._timer.start()

    def flush(self) -> None:
        """Write what was collected."""
        with self._lock:
            lines, self._lines = self._lines, defaultdict(list)
            self._timer = None
        for place, content in lines.items():
            try:
                self._write(place, "".join(content))
            except (ClientError, BotoCoreError):
                log.exception("captured data of endpoint %s", place.endpoint)

    def _write(self, place: _Place, content: str) -> None:
        bucket, _, prefix = place.destination.removeprefix("s3://").partition("/")
        now = datetime.now(UTC)
        file = f"{now:%M-%S}-{now.microsecond // 1000:03d}-{uuid.uuid4()}.jsonl"
        parts = [prefix.strip("/"), place.endpoint, place.variant, f"{now:%Y/%m/%d/%H}", file]
        encryption = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": place.key} if place.key else {}
        self._site.client("s3", place.region, role=place.role).put_object(
            Bucket=bucket, Key="/".join(part for part in parts if part), Body=content.encode(), **encryption
        )


def _line(config: Mapping[str, Any], request: Content, answer: Content) -> str:
    """One event (SageMaker guide, "Capture data from real-time endpoint"), with its newline."""
    modes = {option["CaptureMode"] for option in config.get("CaptureOptions", ())}
    sides = {"Input": ("endpointInput", request), "Output": ("endpointOutput", answer)}
    event = {
        "captureData": {
            name: {"observedContentType": content.type, "mode": mode.upper(), **_encoded(config, content)}
            for mode, (name, content) in sides.items()
            if mode in modes or "InputAndOutput" in modes
        },
        "eventMetadata": {"eventId": str(uuid.uuid4()), "inferenceTime": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"},
        "eventVersion": "0",
    }
    return json.dumps(event) + "\n"


def _encoded(config: Mapping[str, Any], content: Content) -> dict[str, str]:
    """As text where the configuration says so, in base64 everywhere else."""
    told = config.get("CaptureContentTypeHeader") or {}
    kind = content.type.partition(";")[0].strip()
    for encoding in ("Json", "Csv"):
        if kind in told.get(f"{encoding}ContentTypes", ()):
            return {"data": content.body.decode(errors="replace"), "encoding": encoding.upper()}
    return {"data": base64.b64encode(content.body).decode(), "encoding": "BASE64"}

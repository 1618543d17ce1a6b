"""The servers behind one endpoint configuration, and which of them answers."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from stand_in.executor.endpoint_interfaces import Interfaces
from stand_in.executor.servers import INVOCATION_SECONDS, ModelServer
from stand_in.executor.site import Site
from stand_in.executor.together import together


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A production variant whose server answers."""

    name: str
    server: ModelServer


class Fleet:
    """All variants of a configuration; `stop()` lets invocations in progress finish first."""

    def __init__(
        self,
        site: Site,
        *,
        variants: Sequence[Variant],
        shown: list[dict[str, Any]],
        capture: Mapping[str, Any],
        interfaces: Interfaces,
    ) -> None:
        """Take over running servers.

        :param shown: ProductionVariants of DescribeEndpoint; UpdateEndpointWeightsAndCapacities changes them in place
        :param capture: the DataCaptureConfig in force, empty for none
        """
        self._site = site
        self._interfaces = interfaces
        self.variants = tuple(variants)
        self.shown = shown
        self.capture = capture
        self._busy = 0
        self._changed = threading.Condition()

    def choose(self, wanted: str = "") -> Variant | None:
        """The variant of that name, or one by weight; None when there is no such variant."""
        if wanted:
            return next((one for one in self.variants if one.name == wanted), None)
        weights = {one["VariantName"]: float(one["CurrentWeight"]) for one in self.shown}
        shares = [weights[one.name] for one in self.variants]
        return random.choices(self.variants, shares if sum(shares) > 0 else None)[0]

    def __enter__(self) -> Fleet:
        with self._changed:
            self._busy += 1
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._busy -= 1
            self._changed.notify_all()

    def stop(self, *, drain_s: float = INVOCATION_SECONDS) -> None:
        """End the servers, at the latest after `drain_s`."""
        with self._changed:
            self._changed.wait_for(lambda: self._busy == 0, drain_s)
        together(partial(stop_server, self._site, variant.server) for variant in self.variants)
        self._interfaces.release()


def stop_server(site: Site, server: ModelServer) -> None:
    """End one server."""
    try:
        server.stop()
    finally:
        site.registry.process_ended(server.child.pid)

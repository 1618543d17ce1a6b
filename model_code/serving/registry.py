"""The models in memory: which request goes to which, and following the list of those that should be loaded."""

from __future__ import annotations

import asyncio
import gc
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from model_code.serving.core import Core
from model_code.serving.errors import ServingError
from model_code.serving.log import log
from model_code.serving.metrics import Metrics
from model_code.serving.model_list import Entry, ModelListError, ModelListFile
from model_code.serving.settings import Settings
from model_code.serving.sources import folder_of
from model_code.serving.workload import Workload

WARM_UP_RUNS = 3  # TorchScript still optimizes during the first two


class Loaded:
    """A model in memory. Counters are changed by the event loop only, `costs` by the inference thread only."""

    def __init__(self, entry: Entry, model: Any, costs: dict[tuple[int, int], float]) -> None:
        self.name = entry.name
        self.source = entry.source
        self.weight = entry.weight
        self.model = model
        self.costs = costs
        self.requests = 0
        self.in_use = 0
        self.credit = 0.0

    def describe(self) -> dict[str, Any]:
        """For /models."""
        shapes = self.model.shapes
        times = {f"{batch}x{length}": round(self.costs[batch, length] * 1e3, 3) for batch, length in shapes}
        return {
            "name": self.name,
            "source": self.source,
            "weight": self.weight,
            "requests": self.requests,
            "in_flight": self.in_use,
            "file_bytes": self.model.file_bytes,
            "batch_sizes": list(shapes.batch_sizes),
            "lengths": list(shapes.lengths),
            "milliseconds": times,
            **self.model.describe(),
        }


class Registry:
    """Routes by name and by weight. Routing and changing happen on the event loop, loading beside it."""

    def __init__(self, *, settings: Settings, workload: Workload, core: Core, metrics: Metrics) -> None:
        self._settings = settings
        self._workload = workload
        self._core = core
        self._metrics = metrics
        self._file = ModelListFile(settings)
        self._loader = ThreadPoolExecutor(1, thread_name_prefix="loader")
        self._retiring: set[asyncio.Task[None]] = set()
        self.routes: dict[str, Loaded] = {}
        self.problem: str | None = "the models are being loaded"

    def route(self, name: str | None) -> Loaded:
        """The model of that name, or the next one by weight. Raises ServingError."""
        if not self.routes:
            raise ServingError(503, "No model is ready yet.", headers={"Retry-After": "5"})
        if name is None:
            return self._by_weight()
        if name not in self.routes:
            there = ", ".join(self.routes)
            raise ServingError(404, f"There is no model {name[:64]!a} here; there are: {there}.")
        return self.routes[name]

    def _by_weight(self) -> Loaded:
        """Smooth weighted round robin: exact shares over every run of requests, without chance."""
        total = 0.0
        best: Loaded | None = None
        for loaded in self.routes.values():
            loaded.credit += loaded.weight
            total += loaded.weight
            if loaded.weight and (best is None or loaded.credit > best.credit):
                best = loaded
        assert best is not None  # the list was checked to have a weight
        best.credit -= total
        return best

    async def follow(self) -> None:
        """Load what the list says, for ever. A list that cannot be followed leaves everything as it is."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                entries = await loop.run_in_executor(self._loader, self._file.changed)
                if entries is not None:
                    await self._apply(entries)
                    self.problem = None
            except Exception as error:  # a wrong list, S3, a damaged model: all are tried again
                if not isinstance(error, ModelListError):
                    self._file.forget()
                self._metrics.list_failures.inc()
                self.problem = f"{type(error).__name__}: {error}"
                log("models not changed", error=self.problem)
            await asyncio.sleep(self._settings.poll_seconds)

    async def _apply(self, entries: list[Entry]) -> None:
        loop = asyncio.get_running_loop()
        routes: dict[str, Loaded] = {}
        for entry in entries:
            old = self.routes.get(entry.name)
            if old is not None and old.source == entry.source:
                routes[entry.name] = old
            else:
                routes[entry.name] = await loop.run_in_executor(self._loader, self._load, entry)
        for entry in entries:
            routes[entry.name].weight = entry.weight
        before, self.routes = self.routes, routes
        kept = {id(loaded) for loaded in routes.values()}
        for loaded in before.values():
            if id(loaded) not in kept:
                task = loop.create_task(self._retire(loaded))
                self._retiring.add(task)
                task.add_done_callback(self._retiring.discard)
        log("models changed", models=list(routes))

    def _load(self, entry: Entry) -> Loaded:
        """Load, run every compiled shape and compare; on the loader's thread, its batches on the inference thread."""
        started = time.monotonic()
        model = self._workload.load(self._folder(entry))
        costs: dict[tuple[int, int], float] = {}
        for batch, length in model.shapes:
            run = partial(_timed, model, batch, length)
            costs[batch, length] = min(self._core.call(run) for _ in range(WARM_UP_RUNS))
        log("model loaded", model=entry.name, source=entry.source, seconds=round(time.monotonic() - started, 3))
        return Loaded(entry, model, costs)

    def _folder(self, entry: Entry) -> Path:
        return folder_of(entry.source, cache=Path(self._settings.cache_dir), root=Path(self._settings.model_root))

    async def _retire(self, loaded: Loaded) -> None:
        """Let go of a model when the last request that has it is answered."""
        while loaded.in_use:
            await asyncio.sleep(0.02)
        loaded.model = None
        await asyncio.get_running_loop().run_in_executor(self._loader, gc.collect)
        log("model unloaded", model=loaded.name, source=loaded.source)

    def close(self) -> None:
        """End the loader."""
        self._loader.shutdown(wait=False, cancel_futures=True)


def _timed(model: Any, batch: int, length: int) -> float:
    started = time.monotonic()
    model.check(batch=batch, length=length)
    return time.monotonic() - started

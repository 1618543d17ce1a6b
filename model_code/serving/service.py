"""From an input to its answer: admission, preparing, queue, inference."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from model_code.serving.core import Core, Job
from model_code.serving.errors import ServingError, overloaded, too_late
from model_code.serving.metrics import Metrics
from model_code.serving.registry import Loaded, Registry
from model_code.serving.settings import Settings
from model_code.serving.workload import Workload

# Characters that are prepared on the event loop, in about a millisecond; a thread costs as much and more.
SMALL = 1_000


@dataclass(frozen=True)
class Answered:
    """An output with what the server knows about it; times in seconds: prepare, queue, inference, total."""

    output: Any
    model: str
    seconds: tuple[float, float, float, float]
    rows: int


class NotReadyError(RuntimeError):
    """No model answered in the time that the settings give."""


class Service:
    """Everything of one process; the HTTP layer calls `answer`."""

    def __init__(self, settings: Settings, workload: Workload) -> None:
        self.settings = settings
        self.workload = workload
        self.metrics = Metrics(settings.core)
        self.core = Core(core=settings.core, batch_wait_seconds=settings.batch_wait_ms / 1e3, metrics=self.metrics)
        self.registry = Registry(settings=settings, workload=workload, core=self.core, metrics=self.metrics)
        self.draining = False
        self.pending = 0  # rows let in and not answered
        self.metrics.pending.set_function(lambda: self.pending)
        self._threads = ThreadPoolExecutor(settings.tokenizer_threads, thread_name_prefix="prepare")

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Start the threads and follow the models; stop them at the end."""
        self.core.start()
        following = asyncio.get_running_loop().create_task(self.registry.follow())
        try:
            await self._first_models()
            yield
        finally:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following
            self.registry.close()
            self._threads.shutdown(wait=False, cancel_futures=True)
            self.core.stop()

    async def _first_models(self) -> None:
        """Wait for them when the settings say so. Raises NotReadyError."""
        seconds = self.settings.ready_timeout_seconds
        ends = time.monotonic() + seconds
        while seconds and (reason := self.not_ready()):
            if self.draining or time.monotonic() > ends:
                raise NotReadyError(f"core {self.settings.core} is not ready: {reason}")
            await asyncio.sleep(0.05)

    def not_ready(self) -> str | None:
        """Why no request should come here, or None."""
        if self.draining:
            return "the server is shutting down"
        if not self.registry.routes:
            return self.registry.problem or "no model is loaded"
        return self.core.sick()

    def deadline(self, timeout_ms: int) -> float:
        """time.monotonic() by which a request that begins now must be answered."""
        return time.monotonic() + timeout_ms / 1e3

    async def answer_all(self, given: Sequence[Any], *, deadline: float) -> list[Answered]:
        """Answers in order; the first refusal refuses all."""
        if self.pending + len(given) > self.settings.queue_rows:
            raise overloaded(self.pending, self.settings.queue_rows)
        found = await asyncio.gather(
            *(self.answer(one, name=one.model, deadline=deadline) for one in given), return_exceptions=True
        )
        for one in found:
            if isinstance(one, BaseException):
                raise one
        return found  # type: ignore[return-value]

    async def answer(self, given: Any, *, name: str | None, deadline: float) -> Answered:
        """One answer. Raises ServingError."""
        began = time.monotonic()
        loaded = self.registry.route(name)
        self._let_in(1)
        loaded.in_use += 1
        loaded.requests += 1
        held = 1
        try:
            rows = await self._prepare(loaded, given)
            if len(rows) > 1:
                self._let_in(len(rows) - 1)
                held = len(rows)
            prepared = time.monotonic()
            loop = asyncio.get_running_loop()
            job = Job(loaded, rows, deadline, loop.create_future())
            self.core.submit(job)
            alarm = loop.call_later(deadline - prepared, _expire, job.future)
            try:
                results = await job.future
            finally:
                alarm.cancel()
            output = self.workload.output(loaded.model, given, rows, results)
        finally:
            loaded.in_use -= 1
            self.pending -= held
        ended = time.monotonic()
        seconds = (prepared - began, job.started_at - prepared, job.finished_at - job.started_at, ended - began)
        self.metrics.stages(loaded.name, seconds)
        return Answered(output, loaded.name, seconds, len(rows))

    def _let_in(self, rows: int) -> None:
        if self.pending + rows > self.settings.queue_rows:
            raise overloaded(self.pending, self.settings.queue_rows)
        self.pending += rows

    async def _prepare(self, loaded: Loaded, given: Any) -> list[Any]:
        # More rows than the queue holds would never be let in.
        most = min(self.settings.max_rows, self.settings.queue_rows)
        self.core.preparing += 1
        try:
            if self.workload.size(given) <= SMALL:
                return self.workload.rows(loaded.model, given, max_rows=most)
            return await asyncio.get_running_loop().run_in_executor(
                self._threads, lambda: self.workload.rows(loaded.model, given, max_rows=most)
            )
        except ValueError as error:
            raise ServingError(422, str(error)) from error
        finally:
            self.core.preparing -= 1


def _expire(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_exception(too_late())

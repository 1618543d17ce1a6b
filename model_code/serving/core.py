"""The inference thread: everything that runs on a NeuronCore runs here, one batch after the other."""

from __future__ import annotations

import asyncio
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from model_code.serving import batching
from model_code.serving.errors import ServingError, too_late
from model_code.serving.log import log
from model_code.serving.metrics import Metrics

FAILURES_UNTIL_SICK = 3
STUCK_SECONDS = 60.0


@dataclass(eq=False)
class Job:
    """One input on its way.

    :param loaded: what it is for (registry.Loaded)
    :param deadline: time.monotonic() after which nobody wants the results
    """

    loaded: Any
    rows: Sequence[Any]
    deadline: float
    future: asyncio.Future[list[Any]]
    queued_at: float = 0.0
    started_at: float = 0.0
    finished_at: float = 0.0
    results: list[Any] = field(default_factory=list)
    left: int = 0
    error: Exception | None = None


@dataclass(eq=False)
class _Waiting:
    job: Job
    place: int
    model: object
    length: int


class Core:
    """The thread, its queue and what it measured."""

    def __init__(self, *, core: int, batch_wait_seconds: float, metrics: Metrics) -> None:
        self._batch_wait = batch_wait_seconds
        self._metrics = metrics
        self._condition = threading.Condition()
        self._waiting: deque[_Waiting] = deque()
        self._calls: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._stopping = False
        self._last = (0, 0)  # inputs and rows of the last batch
        self._busy_since: float | None = None
        self._failures = 0
        self.preparing = 0  # inputs that were let in and are not in the queue yet; written by the event loop only
        self._thread = threading.Thread(target=self._loop, name=f"core-{core}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the batch that runs; what waits is not answered."""
        with self._condition:
            self._stopping = True
            self._condition.notify()
        self._thread.join(5)

    def submit(self, job: Job) -> None:
        """Queue a job; called from the event loop of its future."""
        shapes = job.loaded.model.shapes
        job.left = len(job.rows)
        job.results = [None] * len(job.rows)
        job.queued_at = time.monotonic()
        items = [_Waiting(job, i, job.loaded, shapes.length_for(row.length)) for i, row in enumerate(job.rows)]
        with self._condition:
            self._waiting.extend(items)
            self._condition.notify()

    def call(self, function: Callable[[], Any]) -> Any:
        """Run something on the thread between two batches, and wait for it; for other threads."""
        future: Future[Any] = Future()
        with self._condition:
            self._calls.append((function, future))
            self._condition.notify()
        return future.result()

    def sick(self) -> str | None:
        """Why this process should be replaced, or None."""
        since = self._busy_since
        if not self._thread.is_alive():
            return "the inference thread has ended"
        if since is not None and time.monotonic() - since > STUCK_SECONDS:
            return f"a batch has been running for more than {STUCK_SECONDS:.0f} s"
        if self._failures >= FAILURES_UNTIL_SICK:
            return f"the last {self._failures} batches failed"
        return None

    def _loop(self) -> None:
        while True:
            with self._condition:
                while not (self._waiting or self._calls or self._stopping):
                    self._condition.wait()
                if self._stopping:
                    return
                call = self._calls.popleft() if self._calls else None
                batch = [] if call else self._next_batch()
            if call:
                _fulfil(*call)
            elif batch:
                self._run(batch)

    def _next_batch(self) -> list[_Waiting]:
        """Wait a little for rows that are on their way, then take the next batch; the lock is held."""
        until = time.monotonic() + self._batch_wait
        while self._more_to_come() and (left := until - time.monotonic()) > 0:
            self._condition.wait(left)
        now = time.monotonic()
        late = {item.job for item in self._waiting if item.job.deadline <= now or item.job.error}
        if late:
            self._waiting = deque(item for item in self._waiting if item.job not in late)
            for job in late:
                job.error = job.error or too_late()
            self._deliver(list(late))
        if not self._waiting:
            return []
        loaded = self._waiting[0].job.loaded
        batch = batching.choose(self._waiting, loaded.model.shapes, loaded.costs)
        taken = set(map(id, batch))
        self._waiting = deque(item for item in self._waiting if id(item) not in taken)
        self._metrics.queue_rows.set(len(self._waiting))
        return batch

    def _more_to_come(self) -> bool:
        """Whether waiting may fill the batch: an input is being prepared, or the last batch held several inputs, whose
        senders will be back. A lone client never waits."""
        inputs, rows = self._last
        if self._stopping or not self._waiting:
            return False
        if len(self._waiting) >= self._waiting[0].job.loaded.model.shapes.batch_sizes[-1]:
            return False
        return self.preparing > 0 or (inputs > 1 and len(self._waiting) < rows)

    def _run(self, batch: list[_Waiting]) -> None:
        loaded = batch[0].job.loaded
        jobs = list({id(item.job): item.job for item in batch}.values())
        started = time.monotonic()
        for job in jobs:
            job.started_at = job.started_at or started
        self._busy_since = started
        try:
            results = loaded.model.run([item.job.rows[item.place] for item in batch])
            self._failures = 0
        except Exception as error:  # whatever the runtime raises must not end the thread
            self._failures += 1
            log("inference failed", model=loaded.name, rows=len(batch), error=repr(error), trace=traceback.format_exc())
            for job in jobs:
                job.error = ServingError(500, "The model failed; the log has the reason.")
            self._deliver(jobs)
            return
        finally:
            self._busy_since = None
            self._last = (len(jobs), len(batch))
        seconds = time.monotonic() - started
        shape = (loaded.model.shapes.batch_for(len(batch)), max(item.length for item in batch))
        loaded.costs[shape] += 0.2 * (seconds - loaded.costs[shape])
        self._metrics.batch(loaded.name, rows=len(batch), batch=shape[0], length=shape[1], seconds=seconds)
        for item, result in zip(batch, results, strict=True):
            item.job.results[item.place] = result
            item.job.left -= 1
        self._deliver([job for job in jobs if job.left == 0])

    def _deliver(self, jobs: list[Job]) -> None:
        """Hand finished jobs to their event loop, all in one go."""
        if jobs:
            now = time.monotonic()
            for job in jobs:
                job.finished_at = now
            jobs[0].future.get_loop().call_soon_threadsafe(_resolve, jobs)


def _resolve(jobs: list[Job]) -> None:
    for job in jobs:
        if job.future.done():  # its sender gave up
            continue
        if job.error:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.results)


def _fulfil(function: Callable[[], Any], future: Future[Any]) -> None:
    try:
        future.set_result(function())
    except BaseException as error:  # the caller gets it
        future.set_exception(error)

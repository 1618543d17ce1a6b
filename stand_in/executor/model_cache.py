"""Which models a multi-model container has loaded: SageMaker's part in it, whatever the container is.

A model is loaded at its first invocation, once however many ask at the same time, and stays until its room is needed.
A container without room answers 507; then the model that was asked for the longest time ago goes, and the load is tried
again. A model in use is never unloaded. Loads and unloads take turns, as they do in Triton.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from stand_in.executor.servers import Answer, Refused

FULL = 507
"""Status of a container that has no room (SageMaker's contract for multi-model containers)."""
ROOM_SECONDS = 30.0
"""How long a load waits for a model in use to become idle, so that it can go."""
Record = Callable[[str, float], None]
"""Takes a metric's name and its value: seconds, or a number."""


class NotLoaded(Exception):
    """The container did not load a model; `answer` is what it said."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"status {answer.status}")
        self.answer = answer


class Container(Protocol):
    """The calls that SageMaker makes to a multi-model container."""

    def load(self, name: str, folder: Path, *, target: str) -> Answer:
        """POST /models."""

    def unload(self, name: str, *, target: str) -> Answer:
        """DELETE /models/{name}."""


class Store(Protocol):
    """The storage volume: models stay there when they are unloaded."""

    def folder(self, target: str) -> Path:
        """The unpacked model, downloaded unless it is there."""

    def forget(self, target: str) -> None:
        """Delete it."""


@dataclass(eq=False, kw_only=True)
class _Model:
    target: str
    loading: Future[None] = field(default_factory=Future)
    users: int = 0
    last_use: int = 0


class ModelCache:
    """The models in one container's memory."""

    def __init__(self, *, container: Container, store: Store, record: Record, keep: bool = True) -> None:
        """Start with none. `keep`: false to unload and delete each model after its invocation."""
        self._container = container
        self._store = store
        self._record = record
        self._keep = keep
        self._models: dict[str, _Model] = {}
        self._uses = itertools.count(1)
        self._changed = threading.Condition()
        self._one_at_a_time = threading.RLock()

    def loaded(self) -> list[str]:
        """Targets in memory, sorted."""
        with self._changed:
            return sorted(one.target for one in self._models.values() if one.loading.done())

    @contextmanager
    def held(self, target: str, *, seconds: float) -> Iterator[str]:
        """The name by which the container knows the model, which stays loaded inside the block.

        Raises Refused when it is still not loaded after `seconds`, NotLoaded, and what the store raises.
        """
        model, hit = self._take(target)
        began = time.monotonic()
        try:
            try:
                model.loading.result(seconds)
            except TimeoutError as late:
                message = f"Model {target} is still being downloaded or loaded. Wait and try your request again."
                raise Refused(message, status=429, kind="ModelNotReadyException") from late
            if not hit:
                self._record("ModelLoadingWaitTime", time.monotonic() - began)
            yield name_of(target)
        finally:
            with self._changed:
                model.users -= 1
                self._changed.notify_all()
            if not self._keep:
                self._drop_if_idle(model)
            self._record("LoadedModelCount", len(self.loaded()))

    def make_room(self, wanting: str) -> bool:
        """Unload the model that was asked for the longest time ago, but not `wanting`; false when there is no other."""
        with self._one_at_a_time:
            victim = self._victim(wanting)
            if victim is not None:
                self._unload(victim)
            return victim is not None

    def _take(self, target: str) -> tuple[_Model, bool]:
        """The model, now in use, and whether it was loaded already."""
        with self._changed:
            model = self._models.get(target)
            hit = model is not None and model.loading.done()
            if model is None:
                model = self._models[target] = _Model(target=target)
                threading.Thread(target=self._load, args=(model,), name=f"load {target}", daemon=True).start()
            model.users += 1
            model.last_use = next(self._uses)
        self._record("ModelCacheHit", float(hit))
        return model, hit

    def _load(self, model: _Model) -> None:
        try:
            with self._one_at_a_time:
                self._load_from(model.target, self._store.folder(model.target))
        except BaseException as error:
            with self._changed:
                del self._models[model.target]
            model.loading.set_exception(error)
            return
        model.loading.set_result(None)
        if not self._keep:
            self._drop_if_idle(model)

    def _load_from(self, target: str, folder: Path) -> None:
        while True:
            began = time.monotonic()
            answer = self._container.load(name_of(target), folder, target=target)
            if answer.status != FULL or not self.make_room(target):
                break
        if answer.status != 200:
            raise NotLoaded(answer)
        self._record("ModelLoadingTime", time.monotonic() - began)

    def _victim(self, wanting: str) -> _Model | None:
        deadline = time.monotonic() + ROOM_SECONDS
        with self._changed:
            while True:
                others = [one for one in self._models.values() if one.target != wanting and one.loading.done()]
                idle = [one for one in others if one.users == 0]
                if idle:
                    return self._models.pop(min(idle, key=lambda one: one.last_use).target)
                if not others or not self._changed.wait(deadline - time.monotonic()):
                    return None

    def _drop_if_idle(self, model: _Model) -> None:
        with self._one_at_a_time:
            with self._changed:
                gone = model.users > 0 or self._models.get(model.target) is not model or not model.loading.done()
                if gone:
                    return
                del self._models[model.target]
            self._unload(model)
            self._store.forget(model.target)

    def _unload(self, model: _Model) -> None:
        began = time.monotonic()
        self._container.unload(name_of(model.target), target=model.target)
        self._record("ModelUnloadingTime", time.monotonic() - began)


def name_of(target: str) -> str:
    """What the container calls a model: SageMaker makes a hash of the archive's name."""
    return sha256(target.encode()).hexdigest()[:32]

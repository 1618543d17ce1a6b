"""Which models a multi-model container has loaded, with a container and a storage volume made for the test."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stand_in.executor.model_cache import FULL, ModelCache, NotLoaded, name_of
from stand_in.executor.servers import Answer, Refused


@dataclass
class Box:
    """A container with room for `room` models, its storage volume, and what happened in order."""

    room: int = 2
    refuse: str = ""
    calls: list[str] = field(default_factory=list)
    inside: set[str] = field(default_factory=set)
    disk: set[str] = field(default_factory=set)
    metrics: list[tuple[str, float]] = field(default_factory=list)
    may_load: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.may_load.set()

    def cache(self, *, keep: bool = True) -> ModelCache:
        return ModelCache(container=self, store=self, record=lambda *point: self.metrics.append(point), keep=keep)

    def load(self, name: str, folder: Path, *, target: str) -> Answer:
        self.may_load.wait(20)
        assert name == name_of(target) and folder == Path(target)
        self.calls.append(f"load {target}")
        if target == self.refuse:
            return answer(400)
        if name in self.inside:
            return answer(409)
        if len(self.inside) >= self.room:
            return answer(FULL)
        self.inside.add(name)
        return answer(200)

    def unload(self, name: str, *, target: str) -> Answer:
        self.calls.append(f"unload {target}")
        self.inside.remove(name)
        return answer(200)

    def folder(self, target: str) -> Path:
        if target == "missing":
            raise Refused("no such archive")
        if target not in self.disk:
            self.calls.append(f"download {target}")
            self.disk.add(target)
        return Path(target)

    def forget(self, target: str) -> None:
        self.disk.remove(target)

    def values(self, name: str) -> list[float]:
        return [value for metric, value in self.metrics if metric == name]


def answer(status: int) -> Answer:
    return Answer(status=status, headers={}, body=b"")


def use(cache: ModelCache, *targets: str) -> None:
    for target in targets:
        with cache.held(target, seconds=20) as name:
            assert name == name_of(target)


def test_a_model_is_loaded_at_its_first_use_only() -> None:
    box = Box()
    cache = box.cache()
    use(cache, "a", "a", "b", "a")
    assert box.calls == ["download a", "load a", "download b", "load b"]
    assert cache.loaded() == ["a", "b"]
    assert box.values("ModelCacheHit") == [0, 1, 0, 1]
    assert box.values("LoadedModelCount") == [1, 1, 2, 2]
    assert len(box.values("ModelLoadingTime")) == len(box.values("ModelLoadingWaitTime")) == 2


def test_the_longest_unused_model_makes_room_and_comes_back_from_the_volume() -> None:
    box = Box(room=2)
    cache = box.cache()
    use(cache, "a", "b", "a", "c")
    assert cache.loaded() == ["a", "c"]
    del box.calls[:]
    use(cache, "b")
    assert box.calls == ["load b", "unload a", "load b"], "no second download"
    assert len(box.values("ModelUnloadingTime")) == 2


def test_many_first_uses_at_once_load_once() -> None:
    box = Box()
    cache = box.cache()
    box.may_load.clear()
    with ThreadPoolExecutor(8) as pool:
        done = [pool.submit(use, cache, "a") for _ in range(8)]
        box.may_load.set()
        for one in done:
            one.result(20)
    assert box.calls == ["download a", "load a"]


def test_a_model_in_use_is_never_unloaded() -> None:
    box = Box(room=1)
    cache = box.cache()
    with ThreadPoolExecutor(1) as pool, cache.held("a", seconds=20):
        waiting = pool.submit(use, cache, "b")
        while "load b" not in box.calls:
            pass
        assert not waiting.done() and cache.loaded() == ["a"]
    waiting.result(20)
    assert cache.loaded() == ["b"]


def test_without_any_other_model_a_full_container_refuses() -> None:
    box = Box(room=0)
    cache = box.cache()
    with pytest.raises(NotLoaded) as found:
        use(cache, "a")
    assert found.value.answer.status == FULL and cache.loaded() == []
    assert not cache.make_room("a")


def test_what_cannot_be_loaded_harms_nobody_and_may_be_tried_again() -> None:
    box = Box(refuse="bad")
    cache = box.cache()
    use(cache, "a")
    with pytest.raises(NotLoaded):
        use(cache, "bad")
    with pytest.raises(Refused, match="no such archive"):
        use(cache, "missing")
    assert cache.loaded() == ["a"]
    box.refuse = ""
    use(cache, "bad", "a")
    assert cache.loaded() == ["a", "bad"]


def test_a_load_that_takes_too_long_goes_on_without_the_caller() -> None:
    box = Box()
    cache = box.cache()
    box.may_load.clear()
    with pytest.raises(Refused) as found, cache.held("a", seconds=0.05):
        pass
    assert (found.value.status, found.value.kind) == (429, "ModelNotReadyException")
    box.may_load.set()
    use(cache, "a")
    assert box.calls == ["download a", "load a"]


def test_without_caching_a_model_is_there_for_one_invocation() -> None:
    box = Box()
    cache = box.cache(keep=False)
    use(cache, "a", "a")
    assert box.calls == ["download a", "load a", "unload a"] * 2
    assert cache.loaded() == [] and box.disk == set() and box.values("ModelCacheHit") == [0, 0]


@pytest.mark.parametrize("keep", [True, False])
def test_any_order_of_uses_leaves_the_container_as_the_cache_says(keep: bool) -> None:
    box = Box(room=2)
    cache = box.cache(keep=keep)

    def work(number: int) -> None:
        target = f"m{number * 7 % 5}"
        with cache.held(target, seconds=20) as name:
            assert name in box.inside

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(120)))
    assert {name_of(one) for one in cache.loaded()} == box.inside
    assert len(box.inside) == (2 if keep else 0)

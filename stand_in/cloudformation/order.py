"""Work on many resources at once, each after what it needs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

WORKERS = 8


def in_order(needs: Mapping[str, set[str]], work: Callable[[str], None], *, cancelled: threading.Event) -> None:
    """Run `work` for each name once what it needs is done.

    The first failure starts nothing further, sets `cancelled` for what runs, and is raised when that has ended.
    """
    left = {name: set(of) for name, of in needs.items()}
    running: dict[Future[None], str] = {}
    failure: BaseException | None = None
    with ThreadPoolExecutor(WORKERS, thread_name_prefix="resource") as pool:
        while left or running:
            if failure is None:
                for name in [name for name, of in left.items() if not of]:
                    del left[name]
                    running[pool.submit(work, name)] = name
            if not running:
                break
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                name = running.pop(future)
                error = future.exception()
                if error is not None:
                    failure = failure or error
                    cancelled.set()
                for of in left.values():
                    of.discard(name)
    if failure is not None:
        raise failure

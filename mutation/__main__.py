"""Make each mutant of the given files in a copy of the checkout and run the file's tests: `make mutate`.

Prints what no test caught. Exit status: 0 when nothing survived but what `survivors.toml` explains, 1 otherwise.
Takes seconds to minutes a mutant; nothing of it runs in CI but the small sample of `test_mutants.py`.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from queue import SimpleQueue

import psutil

from mutation.mutants import Mutant, mutants, survivors, watched_by
from settings import REPO_ROOT

LINKED = (".venv", ".venvs", "node_modules")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run mutants of the files named, or of all that have tests."""
    parser = argparse.ArgumentParser(prog="python -m mutation", description=__doc__)
    parser.add_argument("paths", nargs="*", help="from the checkout's root; default: every script, unit and Dockerfile")
    parser.add_argument("--sample", type=int, default=0, help="only so many, chosen by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at once, each in its own copy")
    parser.add_argument("--timeout", type=float, default=900, help="seconds for the tests of one mutant")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    options = parser.parse_args(arguments)
    found = [one for path in options.paths or files() for one in mutants(path, (REPO_ROOT / path).read_text())]
    if options.sample:
        found = random.Random(options.seed).sample(found, min(options.sample, len(found)))  # noqa: S311 - no secret
    if options.list:
        print("\n".join(str(one) for one in found))
        return 0
    with tempfile.TemporaryDirectory(prefix="torchlift-mutation-") as folder:
        workers = [checkout(Path(folder) / str(number) / "checkout") for number in range(options.jobs)]
        left = run(found, workers, timeout=options.timeout)
    unexplained = [one for one in left if not any(entry.covers(one) for entry in survivors())]
    print(f"{len(found)} mutants: {len(found) - len(left)} caught, {len(left) - len(unexplained)} explained")
    for one in unexplained:
        print(f"survived: {one}")
    return 1 if unexplained else 0


def files() -> list[str]:
    """Every tracked script, unit and Dockerfile of what is deployed."""
    done = subprocess.run(
        ["git", "ls-files", "scripts", "hosts", "containers"], cwd=REPO_ROOT, capture_output=True, text=True, check=True
    )
    return [path for path in done.stdout.split() if path.endswith((".sh", ".service", "Dockerfile"))]


def checkout(folder: Path) -> Path:
    """A copy of the tracked files as they are now, tracked there, too, with the environments linked."""
    done = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPO_ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, done.stdout.split("\0")):
        source, target = REPO_ROOT / name, folder / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    # Tests ask git which files there are.
    for command in (["init", "--quiet"], ["add", "--all", "--force"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    for name in LINKED:
        if (REPO_ROOT / name).exists():
            (folder / name).symlink_to((REPO_ROOT / name).resolve())
    return folder


def run(found: Sequence[Mutant], workers: Sequence[Path], *, timeout: float) -> list[Mutant]:
    """Those that survive, tried in these checkouts. Raises RuntimeError when the tests fail without any mutant."""
    free: SimpleQueue[Path] = SimpleQueue()
    for folder in workers:
        free.put(folder)

    def somewhere(work: Callable[[Path], str]) -> str:
        folder = free.get()
        try:
            return work(folder)
        finally:
            free.put(folder)

    with ThreadPoolExecutor(len(workers)) as pool:
        watching = dict.fromkeys(tuple(watched_by(one.path)) for one in found)
        sound = {pool.submit(somewhere, partial(what_fails, tests, timeout=timeout)): tests for tests in watching}
        for done in as_completed(sound):
            if done.result():
                pool.shutdown(cancel_futures=True)
                raise RuntimeError(f"without any mutant: {done.result()} (of {' '.join(sound[done])})")
        tried = {pool.submit(somewhere, partial(what_catches, one, timeout=timeout)): one for one in found}
        left = []
        for number, done in enumerate(as_completed(tried), 1):
            one, caught = tried[done], done.result()
            left += [] if caught else [one]
            print(f"{number}/{len(found)} {'caught  ' if caught else 'SURVIVED'} {one}  {caught}", flush=True)
    return left


def what_catches(one: Mutant, folder: Path, *, timeout: float) -> str:
    """What of its file's tests fails with it. The checkout is afterwards as it was."""
    changed = folder / one.path
    original = changed.read_text()
    changed.write_text(one.text)
    try:
        return what_fails(watched_by(one.path), folder, timeout=timeout)
    finally:
        changed.write_text(original)


def what_fails(tests: Iterable[str], folder: Path, *, timeout: float) -> str:
    """The first test that fails, by name, or that they do not end; empty when all pass."""
    # Of the plugins those that these tests use: to load all takes longer than many of them.
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "pytest_timeout", *tests]
    # Everything that the tests start has a path below it in its environment.
    temporary = folder.with_name("tmp")
    temporary.mkdir(exist_ok=True)
    path = os.pathsep.join([str(folder), str(folder / "constructs")])
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(temporary), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            timeout=timeout,
            check=False,
            text=True,
        )
    except subprocess.TimeoutExpired:
        return f"no end after {timeout:.0f} s"
    finally:
        end_what_is_left(folder.parent)
    # 2: a test could not be collected, as it can without the mutant.
    if done.returncode not in (0, 1, 2):
        raise RuntimeError(f"pytest could not run {' '.join(tests)}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return "" if done.returncode == 0 else failed[1] if failed else done.stdout[-500:]


def end_what_is_left(folder: Path) -> None:
    """Kill what a mutant kept running: a loop that never ends takes the processor from all that come after it."""
    for process in psutil.process_iter():
        try:
            if f"{folder}{os.sep}" in " ".join([*process.cmdline(), *process.environ().values()]):
                process.kill()
        except psutil.Error:
            continue


if __name__ == "__main__":
    sys.exit(main())

"""Make each mutant of the given files in a copy of the checkout and run the file's tests: `make mutate`.

Prints what no test caught. Exit status: 0 when nothing survived but what `survivors.toml` explains, 1 otherwise.
Takes seconds to minutes a mutant; nothing of it runs in CI but the small sample of `test_mutants.py`.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mutation.mutants import Mutant, mutants, survivors, watched_by
from settings import REPO_ROOT

LINKED = (".venv", ".venvs", "node_modules")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run mutants of the files named, or of all that have tests."""
    parser = argparse.ArgumentParser(prog="python -m mutation", description=__doc__)
    parser.add_argument("paths", nargs="*", help="from the checkout's root; default: every script, unit and Dockerfile")
    parser.add_argument("--sample", type=int, default=0, help="only so many, chosen by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=400, help="seconds for the tests of one mutant")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    options = parser.parse_args(arguments)
    found = [one for path in options.paths or files() for one in mutants(path, (REPO_ROOT / path).read_text())]
    if options.sample:
        found = random.Random(options.seed).sample(found, min(options.sample, len(found)))  # noqa: S311 - no secret
    if options.list:
        print("\n".join(str(one) for one in found))
        return 0
    with tempfile.TemporaryDirectory(prefix="torchlift-mutation-") as folder:
        left = run(found, checkout(Path(folder) / "checkout"), timeout=options.timeout)
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


def run(found: Sequence[Mutant], folder: Path, *, timeout: float) -> list[Mutant]:
    """Those that survive. Raises RuntimeError when the tests fail without any mutant."""
    left = []
    for path in dict.fromkeys(one.path for one in found):
        if not caught_nothing(watched_by(path), folder, timeout=timeout):
            raise RuntimeError(f"the tests of {path} fail as it is: {' '.join(watched_by(path))}")
        original = (folder / path).read_text()
        for one in (mutant for mutant in found if mutant.path == path):
            (folder / path).write_text(one.text)
            alive = caught_nothing(watched_by(path), folder, timeout=timeout)
            left += [one] if alive else []
            print(f"{'SURVIVED' if alive else 'caught  '} {one}", flush=True)
        (folder / path).write_text(original)
    return left


def caught_nothing(tests: Sequence[str], folder: Path, *, timeout: float) -> bool:
    """Whether the tests pass; one that hangs does not."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(folder / "constructs")])}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, timeout=timeout, check=False, text=True
        )
    except subprocess.TimeoutExpired:
        return False
    # 2: a test could not be collected, as it can without the mutant.
    if done.returncode not in (0, 1, 2):
        raise RuntimeError(f"pytest could not run {' '.join(tests)}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())

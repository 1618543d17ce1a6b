"""Break one step of a script: calls of programs are counted, and one of them fails or takes all with it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.scripts.conftest import REPO_ROOT, Quick, Workbench, require_sound

# Of bash alone: the programs that it would call may be broken themselves.
COUNTED = """
mapfile -d "" -t words <"/proc/$PPID/cmdline"
if [[ "${{words[*]}}" == *{caller}* ]]; then
  exec {{own}}>"{folder}/lock" && /usr/bin/flock "$own" # the programs of a pipeline come at once
  number=0 wanted=0
  [ ! -e "{folder}/count" ] || number=$(<"{folder}/count")
  [ ! -e "{folder}/break_at" ] || wanted=$(<"{folder}/break_at")
  echo "$((number + 1))" >"{folder}/count"
  call="${{0##*/}} $*"
  echo "${{call//$'\\n'/ }}" >>"{folder}/steps" # one line each
  exec {{own}}>&-
  if [ "$((number + 1))" -eq "$wanted" ]; then {breakage}; fi
fi
exec "{real}" "$@"
"""
OF_BOOT = ("rm", "install", "df", "tail", "tr", "timeout", "python3", "systemctl")
"""Programs that the user data of hosts calls."""
FAILS = "exit 1"
MISSING = "exit 127"
# The whole process group, as a host that loses its power: no trap runs.
KILLED = "kill -KILL 0"


def count(bench: Workbench, programs: Sequence[str], *, caller: str, breakage: str) -> None:
    """Put counters in the place of programs, those of the bench among them.

    :param caller: part of the command line of the script whose calls count; empty: whoever calls
    """
    hidden = bench.folder / "hidden"
    hidden.mkdir(exist_ok=True)
    for name in programs:
        real = shutil.which(name, path=os.environ["PATH"])
        if (bench.bin / name).exists() and "break_at" not in (bench.bin / name).read_text():
            (bench.bin / name).rename(hidden / name)
        if (hidden / name).exists():
            real = str(hidden / name)
        bench.program(name, COUNTED.format(caller=caller, folder=bench.folder, breakage=breakage, real=real))


def break_at(bench: Workbench, step: int) -> None:
    """Count anew, and break that step; none when it is 0."""
    for name in ("count", "steps"):
        (bench.folder / name).unlink(missing_ok=True)
    (bench.folder / "break_at").write_text(str(step))


def steps(bench: Workbench) -> list[str]:
    """The calls since `break_at`."""
    file = bench.folder / "steps"
    return file.read_text().splitlines() if file.exists() else []


def sweep(bench: Workbench, *, stride: int = 1) -> Iterator[int]:
    """Yield 0, with nothing broken, and then each step (or each of `stride`), which breaks now.

    How many there are is what was called at 0, since the last `break_at`.
    """
    break_at(bench, 0)
    yield 0
    for step in range(1, len(steps(bench)) + 1, stride):
        break_at(bench, step)
        yield step


def start(bench: Workbench, script: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    """Run a script in a process group of its own."""
    return subprocess.Popen(
        ["bash", str(REPO_ROOT / script), *arguments],
        env={**bench.environment, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit status and all that it said."""
    output, _ = process.communicate(timeout=200)
    require_sound(output)
    return process.returncode, output


def written(*roots: Path) -> dict[Path, tuple[bytes, int]]:
    """All files below the folders, with times: whoever writes again, changes something."""
    found = [path for root in roots for path in root.rglob("*") if path.is_file()]
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


def state(bench: Quick) -> dict[Path, tuple[bytes, int]]:
    """What is written in the bucket and the work folder."""
    return written(
        bench.store, *(bench.work / name for name in ("inputs", "output", "checkpoints", "saved_checkpoints"))
    )

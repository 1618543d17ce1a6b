"""`keep` of scripts/common.sh: whatever becomes of a log, nobody dies of it, and as much as can be is kept."""

from __future__ import annotations

import pytest

from tests.scripts.conftest import REPO_ROOT, Workbench

# More than a pipe holds.
LINES = [f"line {number}" for number in range(20_000)]
WRITER = "seq -f 'line %.0f' 0 19999"


def kept(bench: Workbench, program: str, options: str = "") -> tuple[int, list[str], list[str]]:
    """Status of a writer whose output is kept, what was shown of it, what the file holds."""
    log = bench.folder / "log"
    text = f'. "{REPO_ROOT}/scripts/common.sh"\nset -o pipefail\n{WRITER} | keep "{log}" {options} {program}\n'
    (bench.folder / "keep.sh").write_text(text)
    done = bench.run(str(bench.folder / "keep.sh"))
    return done.returncode, done.stdout.splitlines(), log.read_text().splitlines() if log.exists() else []


def test_it_shows_and_keeps_everything(bench: Workbench) -> None:
    assert kept(bench, "") == (0, LINES, LINES)
    assert kept(bench, "", "-a") == (0, LINES, [*LINES, *LINES])
    assert kept(bench, "") == (0, LINES, LINES)


def test_what_a_broken_tee_leaves_is_shown_and_kept(bench: Workbench) -> None:
    bench.program("tee", "exit 127")
    assert kept(bench, "") == (0, LINES, LINES)


def test_a_writer_outlives_whoever_reads_what_is_shown(bench: Workbench) -> None:
    status, shown, log = kept(bench, "> >(head -n 1)")
    assert (status, shown, log) == (0, LINES[:1], LINES)


@pytest.mark.parametrize("tee", ["exit 1", "exec /usr/bin/tee /dev/full"])
def test_a_full_disk_ends_no_writer(bench: Workbench, tee: str) -> None:
    bench.program("tee", tee)
    (bench.folder / "log").symlink_to("/dev/full")
    text = f'. "{REPO_ROOT}/scripts/common.sh"\nset -euo pipefail\n{WRITER} | keep "{bench.folder}/log"\necho end\n'
    (bench.folder / "keep.sh").write_text(text)
    done = bench.run(str(bench.folder / "keep.sh"))
    assert done.returncode == 0 and done.stdout.splitlines() == [*LINES, "end"]

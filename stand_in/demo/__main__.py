"""`make demo`: the whole way on this machine, and back to nothing."""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import sys
from pathlib import Path

from rich.console import Console

from settings import SettingsError
from stand_in.demo.cdk import CdkFailed
from stand_in.demo.invocations import WrongAnswers
from stand_in.demo.lock import AlreadyRunning, exclusive
from stand_in.demo.run import Demo, write_report
from stand_in.demo.tables import show
from stand_in.environment import scrub_process_environment
from stand_in.images.engine import EngineError
from stand_in.images.readiness import CannotRunImages, require
from stand_in.session import StandInFailed

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = (AlreadyRunning, CannotRunImages, CdkFailed, EngineError, SettingsError, StandInFailed, WrongAnswers)


def main() -> int:
    """0 when everything worked and nothing is left, 1 otherwise, 130 when interrupted."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--mode", choices=["direct", "images"], default="direct", help="how jobs are executed")
    parser.add_argument("--keep", action="store_true", help="leave it running until Ctrl-C")
    arguments = parser.parse_args()
    console = Console(width=110 if not sys.stdout.isatty() else None)
    os.chdir(ROOT)
    scrub_process_environment()
    die_with_parent()
    # A shell starts background commands with SIGINT ignored; this one says that Ctrl-C or `kill -INT` ends it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if arguments.mode == "images":
            require()
        with exclusive(ROOT / "build" / "demo.lock"):
            results = Demo(root=ROOT, mode=arguments.mode, keep=arguments.keep, console=console).run()
            write_report(results, ROOT / "build" / "demo-report.json")
    except EXPECTED as error:
        console.print("\n[bold red]The demo stopped.[/bold red] Nothing that it started is left running.")
        console.print(f"{error}\nLogs: build/logs/, build/stand_in/logs/", markup=False, highlight=False)
        return 1
    except KeyboardInterrupt:
        console.print("\nInterrupted. Nothing that the demo started is left running.")
        return 130
    show(results, console)
    return 1 if results.leftovers is None or results.leftovers.found else 0


def die_with_parent() -> None:
    """End this process when `make` is killed, so that what it started ends too (prctl(2), PR_SET_PDEATHSIG)."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGTERM, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


if __name__ == "__main__":
    sys.exit(main())

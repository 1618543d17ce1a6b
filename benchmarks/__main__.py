"""`make bench [ONLY=id]`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable

from benchmarks import multi_model, payloads, synth
from benchmarks.harness import Comparison, record

BENCHMARKS: dict[str, Callable[[], Comparison]] = {
    "P4": synth.run,
    "P8a": lambda: payloads.run(1),
    "P8b": lambda: payloads.run(8),
    "P8c": lambda: payloads.run(64),
    "P9": multi_model.cold,
    "P10": multi_model.batching,
}


def main() -> int:
    """Run all or one, print and record."""
    parser = argparse.ArgumentParser(prog="make bench", description="Side-by-side measurements.")
    parser.add_argument("--only", metavar="ID", default="", help=f"one of {', '.join(BENCHMARKS)}; default: all")
    only = parser.parse_args().only
    chosen = {
        id: run for id, run in BENCHMARKS.items() if only in ("", id) or re.fullmatch(f"{re.escape(only)}[a-z]", id)
    }
    if not chosen:
        print(
            f"ONLY={only}: there is no such benchmark; right would be one of {', '.join(BENCHMARKS)}", file=sys.stderr
        )
        return 1
    for id, run in chosen.items():
        print(f"{id} ...", flush=True)
        result = run()
        record(id, result)
        print(f"{id}: {result}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

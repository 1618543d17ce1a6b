"""`make bench [ONLY=id]`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable

from benchmarks import multi_model, payloads, question_answering, synth
from benchmarks import qa_servers as servers
from benchmarks.harness import Comparison, Value, record

BENCHMARKS: dict[str, Callable[[], Comparison | Value]] = {
    "P1a-32": lambda: question_answering.against_loop("minilm", 32, rows=256),
    "P1a-128": lambda: question_answering.against_loop("minilm", 128, rows=96),
    "P1a-tiny": lambda: question_answering.against_loop("tiny", 32, rows=4096),
    "P1a-tiny-16": lambda: question_answering.against_loop("tiny", 32, rows=4096, together=16),
    "P1b": lambda: question_answering.against_original(servers.mixed(300), name="mixed"),
    "P1b-32": lambda: question_answering.against_original(servers.rows_of(32, 300), name="short"),
    "P1c": question_answering.health,
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
    ids = chosen(only)
    if not ids:
        print(
            f"ONLY={only}: there is no such benchmark; right would be one of {', '.join(BENCHMARKS)}", file=sys.stderr
        )
        return 1
    for id in ids:
        print(f"{id} ...", flush=True)
        result = BENCHMARKS[id]()
        record(id, result)
        print(f"{id}: {result}")
    return 0


def chosen(only: str) -> list[str]:
    """The ids that `only` means: all when empty, itself, or the parts of which it is the beginning (P1: P1a-32, …)."""
    part = re.compile(f"{re.escape(only)}([a-z](-.+)?|-.+)?")
    return [id for id in BENCHMARKS if not only or part.fullmatch(id)]


if __name__ == "__main__":
    sys.exit(main())

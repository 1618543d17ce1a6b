"""python -m model_code.serving: serve the models of one NeuronCore. `settings` lists the environment variables."""

from __future__ import annotations

import os
import sys

from model_code.serving import log, settings, workload


def main() -> int:
    """Serve until SIGTERM; returns the exit status. Wrong settings are named on stderr."""
    try:
        given = settings.from_environment()
        # Before torch is imported: the libraries below it read these once.
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ[name] = str(given.threads)
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        kind = workload.find(given.workload)
    except ValueError as error:
        print(f"serving: {error}", file=sys.stderr)
        return 2
    from model_code.serving import program

    log.start()
    try:
        return program.serve(given, kind)
    finally:
        log.stop()


if __name__ == "__main__":
    sys.exit(main())

"""Build an encoder in several precisions on a GPU, measure each, and recommend one.

    python -m model_code.text_encoding.sweep --onnx FOLDER --output FOLDER --samples FILE.npz [--precisions fp32 fp16]

Each precision gets a folder as `build_engine` leaves it. Speed is trtexec's own benchmark at the optimum shape; the
difference is that from the ONNX file in float32, on the samples. Writes report.json, report.md and report.png; what is
served is chosen by the settings, not here.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from model_code.text_encoding import build_engine, differences, sweep_report, trtexec
from model_code.text_encoding.build_engine import BuildError
from model_code.text_encoding.differences import Arrays, SamplesError
from model_code.text_encoding.engine import Engine, EngineError
from model_code.text_encoding.sweep_report import Failed, Measured
from model_code.text_encoding.trtexec import Build, TrtexecError

LEAST_SIMILARITY = 0.99
"""Lowest cosine similarity of a recommended precision. What it costs in your search, only you can measure."""
Builder = Callable[[Build, Mapping[str, Any]], Engine]
Answerer = Callable[[Path, Arrays], Arrays]
"""(plan, inputs) → outputs."""


def main(argv: list[str] | None = None) -> int:
    """Sweep; returns the exit status, 2 when nothing could be built. What went wrong is one line on stderr."""
    options = _options(argv)
    try:
        builds: dict[str, Build] = {}
        export: Mapping[str, Any] = {}
        for precision in dict.fromkeys(options.precisions):
            build, export = build_engine.asked(options, precision=precision, output=options.output / precision)
            # Only int8 is calibrated; the builds of the others refuse the data.
            builds[precision] = build if precision == "int8" else dataclasses.replace(build, calibration=None)
            # What cannot be asked is told before an hour is gone.
            trtexec.commands(builds[precision], trtexec.MAJORS[-1])
        build = next(iter(builds.values()))
        path = options.samples or options.calibration
        if path is None:
            raise SamplesError("--samples: give an .npz file with tokens of real texts, to compare the answers on")
        batch, sequence = build.shapes.optimum
        inputs = differences.samples(path, build.inputs, batch=batch, sequence=sequence)
        wanted = differences.reference(build.onnx, inputs)

        def run(one: Build, export: Mapping[str, Any]) -> Engine:
            return build_engine.run(one, dict(export), minimum_driver=options.minimum_driver)

        rows = sweep(builds, export, inputs=inputs, wanted=wanted, build=run, answer=differences.engine_answers)
        report = sweep_report.report(rows, samples=len(next(iter(inputs.values()))), least=options.least_similarity)
        sweep_report.write(options.output, report)
    except (BuildError, SamplesError, TrtexecError, EngineError, OSError, ValueError, KeyError) as error:
        print(f"sweep: {error}", file=sys.stderr)
        return 2
    print(sweep_report.markdown(report), flush=True)
    return 0 if any(isinstance(row, Measured) for row in rows) else 2


def sweep(
    builds: Mapping[str, Build], export: Mapping[str, Any], *, inputs: Arrays, wanted: Arrays, build: Builder,
    answer: Answerer,
) -> list[Measured | Failed]:  # fmt: skip
    """Build and measure each precision; one that fails is a row too, with the reason, and the others go on.

    :param inputs: int32 [batch, sequence] each
    :param wanted: what the ONNX file answers to them in float32
    :param build: builds an engine and describes it; `build_engine.run` on a GPU
    :param answer: asks an engine; `differences.engine_answers` on a GPU
    """
    rows: list[Measured | Failed] = []
    for precision, one in builds.items():
        print(f"--- {precision} ---", flush=True)
        try:
            engine = build(one, export)
            found = differences.difference(answer(one.plan, inputs), wanted, mask=inputs["attention_mask"])
        except (BuildError, TrtexecError, EngineError) as error:
            print(f"sweep: {precision}: {error}", file=sys.stderr)
            rows.append(Failed(precision=precision, reason=str(error)))
            continue
        rows.append(sweep_report.measured(engine, found, plan_bytes=one.plan.stat().st_size))
    return rows


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python3 -m model_code.text_encoding.sweep",
        description="Build an encoder in several precisions on a GPU, measure each, and recommend one.",
    )
    build_engine.add_options(parser)
    parser.add_argument(
        "--precisions", nargs="+", default=["fp32", "fp16"], choices=trtexec.PRECISIONS,
        help="what to build (default: fp32 fp16; int8 needs --calibration)",
    )  # fmt: skip
    parser.add_argument("--samples", type=Path, help=".npz with an array for each input (default: --calibration)")
    parser.add_argument(
        "--least-similarity", type=float, default=LEAST_SIMILARITY,
        help=f"lowest cosine similarity to float32 that is recommended (default: {LEAST_SIMILARITY})",
    )  # fmt: skip
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())

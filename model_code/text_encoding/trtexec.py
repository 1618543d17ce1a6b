"""The command lines of trtexec for each major version of TensorRT, and what it prints. Standard library only.

Options: sampleOptions.cpp of TensorRT 8.6, 9.3 and 11.1, and NVIDIA's pages "Migrating trtexec Usage" from 8.x to 10.x
and from 10.x to 11.x. Sizes are in MiB.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model_code.text_encoding.engine import Shapes

PRECISIONS = ("fp32", "fp16", "int8")
MAJORS = (8, 9, 10, 11)
PERCENTILES = "50,90,95,99"
BANNER = re.compile(r"&&&& \w+ TensorRT\.trtexec \[TensorRT v([\d.]+)\]")
DEVICE = re.compile(r"\[I\] (Selected Device|Compute Capability): (.+?)\s*$", re.MULTILINE)
# The five lines of numbers in trtexec's "Performance summary".
FIGURES = re.compile(r"\[I\] (Latency|Enqueue Time|H2D Latency|GPU Compute Time|D2H Latency): (min = .+)")
FIGURE = re.compile(r"(min|max|mean|median|percentile\((\d+)%\)) = ([\d.e+-]+) ms")


class TrtexecError(ValueError):
    """A build that cannot be asked of this TensorRT, or an output without what it should tell."""


@dataclass(frozen=True, kw_only=True)
class Build:
    """What is asked for."""

    onnx: Path
    plan: Path
    shapes: Shapes
    inputs: Sequence[str]
    precision: str = "fp16"
    workspace_mib: int = 4096
    calibration: Path | None = None
    """For int8: an .npz file with an array [samples, sequence] for each input."""


def commands(build: Build, major: int) -> list[list[str]]:
    """The commands to run, in order; the last is trtexec. Raises TrtexecError.

    TensorRT 11 knows strongly typed networks only: the precision stands in the ONNX file, put there by NVIDIA's
    ModelOpt before. int8 always goes that way, since calibration inside TensorRT is gone from 11 and deprecated in 10.
    """
    if major not in MAJORS:
        raise TrtexecError(f"TensorRT {major}: this knows the options of {', '.join(map(str, MAJORS))}")
    if build.precision not in PRECISIONS:
        raise TrtexecError(f"precision '{build.precision}': it is one of {', '.join(PRECISIONS)}")
    if (build.precision == "int8") != (build.calibration is not None):
        needs = "needs calibration data" if build.precision == "int8" else "takes no calibration data"
        raise TrtexecError(f"precision '{build.precision}' {needs} (--calibration)")
    before, source = _conversion(build, major)
    memory = f"--workspace={build.workspace_mib}" if major == 8 else f"--memPoolSize=workspace:{build.workspace_mib}"
    precision = {"fp32": [], "fp16": ["--fp16"], "int8": ["--fp16", "--int8"]}[build.precision]
    trtexec = [
        "trtexec",
        f"--onnx={source}",
        f"--saveEngine={build.plan}",
        f"--minShapes={shape(build.inputs, build.shapes.minimum)}",
        f"--optShapes={shape(build.inputs, build.shapes.optimum)}",
        f"--maxShapes={shape(build.inputs, build.shapes.maximum)}",
        f"--shapes={shape(build.inputs, build.shapes.optimum)}",
        memory,
        *([] if major >= 11 else precision),
        f"--percentile={PERCENTILES}",
    ]
    return [*before, trtexec]


def _conversion(build: Build, major: int) -> tuple[list[list[str]], Path]:
    """Commands that put the precision into the ONNX file, and the file to build from."""
    converted = build.plan.with_name(f"{build.onnx.stem}.{build.precision}.onnx")
    files = [f"--onnx_path={build.onnx}", f"--output_path={converted}"]
    if build.precision == "int8":
        calibration = [f"--calibration_data_path={build.calibration}", "--calibration_eps", "cuda:0", "cpu"]
        kind = ["--quantize_mode=int8", "--high_precision_dtype=fp16"]
        return [["python3", "-m", "modelopt.onnx.quantization", *files, *kind, *calibration]], converted
    if build.precision == "fp16" and major >= 11:
        kind = ["--low_precision_type=fp16", "--keep_io_types"]
        return [["python3", "-m", "modelopt.onnx.autocast", *files, *kind]], converted
    return [], build.onnx


def answering(plan: Path, inputs: Mapping[str, Path], size: tuple[int, int], output: Path) -> list[str]:
    """The command that runs an engine once on given inputs, a raw file each, and writes what it answers as JSON."""
    return [
        "trtexec",
        f"--loadEngine={plan}",
        f"--shapes={shape(list(inputs), size)}",
        f"--loadInputs={','.join(f'{name}:{path}' for name, path in inputs.items())}",
        "--iterations=1",
        "--warmUp=0",
        "--duration=0",
        f"--exportOutput={output}",
    ]


def answered(document: str) -> dict[str, tuple[tuple[int, ...], list[float]]]:
    """What --exportOutput wrote: output name → its dimensions and its values, in six digits. Raises TrtexecError.

    C++ prints `nan` and `inf`, which JSON has no words for: they come back as NaN and infinity.
    """
    spelt = re.sub(r"\binf\b", "Infinity", re.sub(r"-?\bnan\b", "NaN", document))
    try:
        found = json.loads(spelt)
        return {
            one["name"]: (tuple(int(size) for size in one["dimensions"].split("x")), [float(v) for v in one["values"]])
            for one in found
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TrtexecError(f"trtexec exported no outputs: {document[:200]!r} ({error})") from error


def shape(inputs: Sequence[str], size: tuple[int, int]) -> str:
    """`input_ids:16x128,attention_mask:16x128`."""
    return ",".join(f"{name}:{size[0]}x{size[1]}" for name in inputs)


def version(output: str) -> str:
    """TensorRT version in trtexec's first line: `v8503`, `v101303` or `v11.1.0.106`. Raises TrtexecError."""
    match = BANNER.search(output)
    if match is None:
        raise TrtexecError(f"no TensorRT version in what trtexec printed: {output[:200]!r}")
    if "." in match[1]:
        return ".".join(match[1].split(".")[:3])
    number = int(match[1])
    # NV_TENSORRT_VERSION: major * 1000 + minor * 100 + patch up to 9, major * 10000 + … from 10 on.
    major, rest = divmod(number, 1000 if number < 10_000 else 10_000)
    return f"{major}.{rest // 100}.{rest % 100}"


def device(output: str) -> dict[str, str]:
    """`{"gpu": "NVIDIA A10G", "compute_capability": "8.6"}` as trtexec saw it. Raises TrtexecError."""
    found = dict(DEVICE.findall(output))
    if len(found) != 2:
        raise TrtexecError("trtexec printed no 'Selected Device' and 'Compute Capability'")
    return {"gpu": found["Selected Device"], "compute_capability": found["Compute Capability"]}


def measured(output: str) -> dict[str, Any]:
    """trtexec's own benchmark at the optimum shape: queries a second, and milliseconds by name. Raises TrtexecError.

    `{"throughput_qps": 812.5, "latency_ms": {"min": 1.2, …, "p99": 1.9}, "gpu_compute_time_ms": {…}, …}`; a query is a
    whole batch.
    """
    rate = re.search(r"\[I\] Throughput: ([\d.e+]+) qps", output)
    rows = FIGURES.findall(output)
    if rate is None or not rows:
        raise TrtexecError("trtexec printed no performance summary")
    found: dict[str, Any] = {"throughput_qps": float(rate[1])}
    for name, text in rows:
        figures = {f"p{percent}" if percent else key: float(value) for key, percent, value in FIGURE.findall(text)}
        found[f"{name.lower().replace(' ', '_')}_ms"] = figures
    return found


def driver_and_gpu(output: str) -> Mapping[str, str]:
    """From `nvidia-smi --query-gpu=driver_version,name,compute_cap --format=csv,noheader`. Raises TrtexecError."""
    fields = [part.strip() for part in output.strip().splitlines()[0].split(",")] if output.strip() else []
    if len(fields) != 3 or not re.fullmatch(r"\d+(\.\d+)+", fields[0]):
        raise TrtexecError(f"nvidia-smi tells no driver and GPU: {output[:200]!r}")
    return {"driver": fields[0], "gpu": fields[1], "compute_capability": fields[2]}

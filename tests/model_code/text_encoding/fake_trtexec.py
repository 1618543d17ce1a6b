#!/usr/bin/env python3
"""Speaks as trtexec does, and writes a plan; no engine is built.

FAKE_TRTEXEC: the fault to have, if any. FAKE_ONNX: the file that answers in the place of a loaded engine, by ONNX
Runtime, in the JSON that sampleReporting.cpp of TensorRT writes.
"""

import os
import struct
import sys
from pathlib import Path

fault = os.environ.get("FAKE_TRTEXEC", "")
banner = "&&&& {} TensorRT.trtexec [TensorRT v101303] [b9] # trtexec " + " ".join(sys.argv[1:])
print(banner.format("RUNNING"))
if sys.argv[1:] == ["--help"]:
    sys.exit(0)
print("[12/02/2026-03:00:00] [I] === Device Information ===")
print("[12/02/2026-03:00:00] [I] Selected Device: NVIDIA A10G")
print("[12/02/2026-03:00:00] [I] Compute Capability: 8.6")
given = dict(part.lstrip("-").partition("=")[::2] for part in sys.argv[1:])
if "loadEngine" in given:
    import numpy as np
    import onnxruntime

    sizes = dict(part.split(":") for part in given["shapes"].split(","))
    feeds = {}
    for name, file in (part.split(":") for part in given["loadInputs"].split(",")):
        feeds[name] = np.fromfile(file, np.int32).reshape([int(size) for size in sizes[name].split("x")])
    session = onnxruntime.InferenceSession(os.environ["FAKE_ONNX"], providers=["CPUExecutionProvider"])
    lines, sep = ["["], "  "
    for one, values in zip(session.get_outputs(), session.run(None, feeds), strict=True):
        size = "x".join(map(str, values.shape))
        numbers = ", ".join(f"{value:g}" for value in values.ravel())
        lines += [
            f'{sep}{{ "name" : "{one.name}"',
            f'  , "dimensions" : "{size}"',
            f'  , "values" : [ {numbers} ]',
            "  }",
        ]
        sep = ", "
    Path(given["exportOutput"]).write_text("\n".join([*lines, "]", ""]))
    print(banner.format("PASSED"))
    sys.exit(1 if fault == "cannot run" else 0)
if fault == "fails":
    print("[12/02/2026-03:00:01] [E] Error[2]: out of memory")
    print(banner.format("FAILED"))
    sys.exit(1)
target = next(part.split("=", 1)[1] for part in sys.argv if part.startswith("--saveEngine="))
if fault != "writes nothing":
    patch = (8, 5, 3) if fault == "other version" else (10, 13, 3)
    Path(target).write_bytes(struct.pack("<II16x4B", 0x74727466, 0, *patch, 9) + b"engine")
if fault != "no figures":
    figures = (
        "min = 1.25 ms, max = 4.5 ms, mean = 1.5 ms, median = 1.4 ms, percentile(50%) = 1.4 ms, "
        "percentile(90%) = 1.6 ms, percentile(95%) = 1.7 ms, percentile(99%) = 2.25 ms"
    )
    print("[12/02/2026-03:00:09] [I] === Performance summary ===")
    print("[12/02/2026-03:00:09] [I] Throughput: 641.5 qps")
    for name in ("Latency", "Enqueue Time", "H2D Latency", "GPU Compute Time", "D2H Latency"):
        print(f"[12/02/2026-03:00:09] [I] {name}: {figures}")
print(banner.format("PASSED"))

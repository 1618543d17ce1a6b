"""docs/inferentia.md, from the catalogue and the advisor: `python -m settings.inferentia_reference`."""

from __future__ import annotations

from collections.abc import Iterator

from settings.inferentia import (
    CORE_CODE_MIB,
    DEVICE_MIB,
    DEVICE_MIB_PER_WEIGHT_MIB,
    INF2_TYPES,
    SERVER_MIB,
    advise,
    device_of,
    port_of,
)
from settings.question_answering_models import BERT_BASE_MIB

MODELS = (1, 2, 4, 8)
SHAPES = 9
"""Those of the default settings: three batch sizes, three lengths."""

HEAD = f"""\
# Inf2 instances

What `torchlift advise` knows, made from it (`python -m settings.inferentia_reference > docs/inferentia.md`). vCPUs,
memory and chips are AWS's; what a model needs is reckoned, and no instance was measured:

- **Device memory.** A chip has {DEVICE_MIB // 1024} GiB for its two NeuronCores, of which {CORE_CODE_MIB} MiB a core
  are microcode. Each compiled shape (a batch size and a length) is a program with the model's weights in it; with code
  and scratch it takes {DEVICE_MIB_PER_WEIGHT_MIB} times the weights.
- **Host memory.** Each core has a server of its own. A server may use its share of nine tenths of the instance's memory
  less 1 GiB, needs {SERVER_MIB // 1024} GiB itself, and the weights of every shape once more.
- **vCPUs.** A server needs two: one for its event loop, one for tokenizing. Models of one core share them; they take
  turns on the core.

A server loads a new model before it lets the old one go: leave room for one model more if you want to change models
without a deploy. Settings that cannot fit are refused with the reason.
"""


def reference() -> str:
    """The whole document; a test holds docs/inferentia.md to it."""
    return "\n".join([HEAD, *_per_model(), *_fits(), *_cores()]) + "\n"


def _per_model() -> Iterator[str]:
    yield "## What each model gets\n"
    yield "vCPUs and GiB of host memory for each model, with so many models on each NeuronCore:\n"
    heads = [f"{models} a core" if models > 1 else "1 a core" for models in MODELS]
    yield f"| instance | chips | cores | vCPU | GiB | {' | '.join(heads)} |"
    yield "|---|---|---|---|---|" + "---|" * len(MODELS)
    for name in INF2_TYPES:
        cells = []
        for models in MODELS:
            one = advise(name, models, weights_mib=1, shapes=1)
            cells.append(f"{one.vcpus_per_model:.3g} vCPU, {one.host_mib_per_model / 1024:.3g} GiB")
        whole = f"{one.devices} | {one.cores} | {one.vcpus_per_core * one.cores:g}"
        memory = one.host_mib_per_model * one.models_per_core * one.cores / 1024
        yield f"| {name} | {whole} | {memory:g} | {' | '.join(cells)} |"
    yield ""


def _fits() -> Iterator[str]:
    yield "## How many models fit\n"
    yield f"BERT base ({BERT_BASE_MIB} MiB of weights in float32), on each NeuronCore:\n"
    yield "| instance | float32, 9 shapes | float32, 4 shapes | bfloat16, 9 shapes | bfloat16, 4 shapes |"
    yield "|---|---|---|---|---|"
    for name in INF2_TYPES:
        cells = [
            str(advise(name, 1, weights_mib=BERT_BASE_MIB / part, shapes=shapes).most_models)
            for part in (1, 2)
            for shapes in (SHAPES, 4)
        ]
        yield f"| {name} | {' | '.join(cells)} |"
    yield ""


def _cores() -> Iterator[str]:
    yield "## Cores, devices and ports\n"
    yield "A server is told its core's number over all chips, is given the chip's device, and has its own port:\n"
    yield "| core | device | port on the host |"
    yield "|---|---|---|"
    for core in (0, 1, 2, 11, 23):
        yield f"| {core} | `/dev/neuron{device_of(core)}` | {port_of(core)} |"


if __name__ == "__main__":
    print(reference(), end="")

"""Models to serve, and servers around them, each on one core of its own."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks.load import Load
from stand_in.demo import data as demo
from stand_in.demo.question_answering_data import Generator
from stand_in.executor.processes import spawn
from stand_in.executor.servers import free_ports

ROOT = Path(__file__).resolve().parents[1]
SERVER_CORE, CLIENT_CORE = 0, 1
QUESTION_WORDS = 5
_TEXT = """
river bridge city king train engine garden winter museum library stone glass north south year house water light road
night book school market music doctor letter window table paper horse
"""
WORDS = tuple(_TEXT.split())
Pair = tuple[str, str]

COMMANDS = {
    "uvicorn": [sys.executable, "-m", "model_code.serving"],  # as model_code/serving/program.py has it
    "hypercorn": [sys.executable, "-m", "hypercorn", "-k", "uvloop", "-b", "127.0.0.1:{port}", "benchmarks.qa_app:app"],
    "granian": [
        sys.executable, "-m", "granian", "--interface", "asgi", "--loop", "uvloop", "--host", "127.0.0.1",
        "--port", "{port}", "--workers", "1", "--no-ws", "benchmarks.qa_app:app",
    ],
    "original": [sys.executable, "-m", "hypercorn", "-b", "127.0.0.1:{port}", "benchmarks.qa_original:app"],
}  # fmt: skip


class TooFewCores(RuntimeError):
    """A machine where client and server would have to share a core."""


@contextlib.contextmanager
def pinned(core: int) -> Iterator[None]:
    """Run the block, and what it starts, on one core only. Raises TooFewCores."""
    before = os.sched_getaffinity(0)
    if len(before) < 2:
        raise TooFewCores("these benchmarks need two processor cores: one for the server, one for the client")
    os.sched_setaffinity(0, {sorted(before)[core]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def make_model(folder: Path, kind: str) -> Path:
    """`minilm` (pretrained, 22.6 million weights) or `tiny` (2 layers of 64, random), with a random head."""
    import torch
    from transformers import AutoConfig, AutoModelForQuestionAnswering, AutoTokenizer

    if not (folder / "base").exists():
        demo.copy_model(folder / "base")
    torch.manual_seed(0)
    if kind == "minilm":
        model = AutoModelForQuestionAnswering.from_pretrained(folder / "base")
    else:
        small = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 256}
        model = AutoModelForQuestionAnswering.from_config(AutoConfig.from_pretrained(folder / "base", **small))
    model.save_pretrained(folder / kind)
    AutoTokenizer.from_pretrained(folder / "base").save_pretrained(folder / kind)
    return folder / kind


def compiled(model: Path, *, batch_sizes: str, lengths: str) -> Path:
    """What trace.py makes of it for the CPU."""
    from model_code.question_answering import trace

    output = model.with_name(f"{model.name}-{batch_sizes}-{lengths}")
    shapes = ["--batch-sizes", batch_sizes, "--lengths", lengths]
    if trace.main(["--model", str(model), "--output", str(output), "--backend", "cpu", "--stride", "16", *shapes]):
        raise RuntimeError(f"{model} could not be compiled")
    return output


def rows_of(length: int, count: int) -> list[Pair]:
    """Questions and contexts that make exactly `length` tokens together: every word is one token of BERT's."""
    chance = random.Random(length)  # noqa: S311 - texts, not secrets
    words = length - QUESTION_WORDS - 3
    return [(" ".join(chance.choices(WORDS, k=QUESTION_WORDS)), " ".join(chance.choices(WORDS, k=words)))
            for _ in range(count)]  # fmt: skip


def mixed(count: int) -> list[Pair]:
    """The demo's questions with contexts of one to four sentences: 30 to 91 tokens together."""
    return [(one.question, one.context) for one in Generator(seed=0, held_out=False).examples(count)]


def body(*pairs: Pair) -> str:
    """For POST /predict: one alone, or several together."""
    inputs = [{"question": question, "context": context} for question, context in pairs]
    return json.dumps(inputs[0] if len(inputs) == 1 else {"inputs": inputs})


def path(pair: Pair) -> str:
    """For the GET path that both servers have."""
    return "/predictions_neuron_core_0/model_0?" + urlencode({"seq_0": pair[0], "seq_1": pair[1]})


@dataclass(frozen=True)
class Running:
    """A server that answers."""

    port: int
    scratch: Path

    def load(self, requests: list[str], *, connections: int, probe: bool = False) -> Load:
        """Send all requests from the client's core. Raises RuntimeError when one is not answered with 200."""
        file = self.scratch / "requests"
        file.write_text("\n".join(requests) + "\n", encoding="utf-8")
        command = [sys.executable, "-m", "benchmarks.load", "--port", str(self.port), "--requests", str(file)]
        with pinned(CLIENT_CORE):
            done = subprocess.run(
                [*command, "--connections", str(connections), *(["--probe"] if probe else [])],
                cwd=ROOT, capture_output=True, text=True, check=False,
            )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"the load failed:\n{done.stderr[-2000:]}")
        return Load(**json.loads(done.stdout))


@contextlib.contextmanager
def serving(program: str, model: Path, **settings: Any) -> Iterator[Running]:
    """A server of COMMANDS on the server's core, ready; settings are TORCHLIFT_ variables."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        (port,) = free_ports(1)
        given = {"port": port, "model_source": model, "queue_rows": 512, "timeout_ms": 60_000, **settings}
        environment = os.environ | {
            "PYTHONPATH": str(ROOT),
            "NEURON_RT_VISIBLE_CORES": "0",
            "OMP_NUM_THREADS": "1",
            **{f"TORCHLIFT_{name.upper()}": str(value) for name, value in given.items()},
        }
        command = [part.format(port=port) for part in COMMANDS[program]]
        with pinned(SERVER_CORE):
            child = spawn(command, env=environment, cwd=scratch, log=scratch / "log")
        try:
            # The original has no readiness of its own: it listens when it is ready.
            _wait(f"http://127.0.0.1:{port}/{'healthz' if program == 'original' else 'readyz'}", child, scratch / "log")
            yield Running(port, scratch)
        finally:
            child.stop()


def _wait(url: str, child: Any, log: Path, seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and child.poll() is None:
        with contextlib.suppress(urllib.error.URLError, OSError), urllib.request.urlopen(url, timeout=5):  # noqa: S310
            return
        time.sleep(0.1)
    raise RuntimeError(f"the server did not get ready:\n{log.read_text()[-2000:]}")


def raw_seconds(model: Any, pairs: list[Pair], *, batch: int, length: int) -> float:
    """Tokenize and run all pairs in batches, with nothing around; on the server's core."""
    from model_code.question_answering.windows import cut

    with pinned(SERVER_CORE):
        started = time.perf_counter()
        for at in range(0, len(pairs), batch):
            part = pairs[at : at + batch]
            model.run([cut(model.tokenizer, *pair, length=length, stride=16, max_windows=1)[0] for pair in part])
        return time.perf_counter() - started

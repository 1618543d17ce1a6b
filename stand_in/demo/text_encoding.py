"""The multi-model endpoint in the demo: a model that is added by an upload, and every model asked both ways.

What answers is said: the real Triton with its SageMaker front end, on the CPU. In the place of the TensorRT engine its
Python backend runs the exported ONNX file, so times here say nothing of a GPU.
"""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console

from model_code.text_encoding import client, engine
from settings import Settings, names
from stand_in.demo.invocations import WrongAnswers
from stand_in.session import StandIn, run

TEXTS = (
    "The waiter was rude and the soup was cold.",
    "Our server was unfriendly, and the food came lukewarm.",
    "Interest rates will rise again in spring.",
)
"""The first two say the same in other words, the third something else."""
ADDED = "sentiment-tuned"
REQUESTS = 20
OUTPUT = "last_hidden_state"
DIFFERENCE = "on a CPU each model is served with this change of its config:"
HONEST = (
    "Triton's real server and SageMaker front end on the CPU: ONNX Runtime behind its Python backend answers in the "
    "TensorRT engine's place"
)


@dataclass(frozen=True, kw_only=True)
class EncoderResult:
    """What one model of the endpoint said. Times in milliseconds; similarities are cosines of mean vectors."""

    model: str
    served_by: str
    first_ms: float
    binary_ms: float
    json_ms: float
    vector: npt.NDArray[np.float32]
    paraphrase: float
    unrelated: float

    def as_report(self) -> dict[str, Any]:
        """The model's entry in the demo's report."""
        return {
            "served_by": self.served_by,
            "input": TEXTS[0],
            "prediction": {"model": self.model, "vector": [round(float(one), 5) for one in self.vector[:8]]},
            "latency_ms": self.binary_ms,
            "metrics": {
                "first_request_ms": self.first_ms,
                "json_latency_ms": self.json_ms,
                "paraphrase_similarity": self.paraphrase,
                "unrelated_similarity": self.unrelated,
            },
        }


def invoke_encoders(aws: StandIn, settings: Settings, *, root: Path, console: Console) -> list[EncoderResult]:
    """Add a model, then ask all of them.

    Raises WrongAnswers when JSON and binary differ, when copies do not answer alike or other weights do, or when a
    paraphrase is no closer than another subject.
    """
    deployment = settings.deployment.name
    bucket, prefix = _parameter(aws, deployment, "text-encoding", "models").removeprefix("s3://").split("/", 1)
    console.print(f"    {HONEST}", highlight=False)
    for line in derivation(aws):
        console.print(f"      {line}", markup=False, highlight=False)
    _add_tuned(aws, deployment, settings, root=root)
    console.print(
        f"    {ADDED}: the encoder of the classifier trained above, added by `torchlift models add`: no deployment",
        highlight=False,
    )
    name = _parameter(aws, deployment, "text-encoding", "endpoint")
    listed = aws.client("s3").list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]
    archives = [Path(one["Key"]).name for one in listed if one["Key"].endswith(".tar.gz")]
    send = client.sagemaker(name, aws.client("sagemaker-runtime"))
    limits = _limits(aws, bucket, prefix)
    inputs = client.tokenise(root / "build" / "demo" / "base-model", TEXTS, limits=limits)
    served = next(one for one in aws.get("/_torchlift/state")["endpoints"] if one["name"] == name)
    by = f"{served['program']} {served['version']}"
    results = [_ask(send, archive, inputs, limits=limits, served_by=by) for archive in archives]
    check(results)
    return results


def derivation(aws: StandIn) -> list[str]:
    """How the served config.pbtxt differs from the shipped one, as the engine's job printed it."""
    jobs = [one for one in aws.get("/_torchlift/state")["jobs"] if one["job"] == "text-encoding-engine"]
    lines = Path(jobs[-1]["log"]).read_text(encoding="utf-8", errors="replace").splitlines() if jobs else []
    start = next((number for number, line in enumerate(lines) if DIFFERENCE in line), len(lines))
    found = []
    for line in lines[start + 1 :]:
        if not line.startswith(("-", "+", "@")):
            break
        found.append(line)
    return found


def check(results: list[EncoderResult]) -> None:
    """Raise WrongAnswers unless copies answer alike, other weights differently, and paraphrases are closest."""
    copies = [one for one in results if one.model != ADDED]
    tuned = [one for one in results if one.model == ADDED]
    for one in copies[1:]:
        if not np.array_equal(one.vector, copies[0].vector):
            raise WrongAnswers(f"{one.model} and {copies[0].model} are copies and answer differently")
    for one in tuned:
        if np.allclose(one.vector, copies[0].vector, atol=1e-3):
            raise WrongAnswers(f"{one.model} has weights of its own and answers as {copies[0].model} does")
    for one in copies:
        if one.paraphrase <= one.unrelated:
            raise WrongAnswers(f"{one.model}: a paraphrase is no closer than another subject")


def _ask(
    send: client.Send, archive: str, inputs: client.Arrays, *, limits: client.Limits, served_by: str
) -> EncoderResult:
    def asked(*, binary: bool) -> tuple[float, npt.NDArray[Any]]:
        began = time.perf_counter()
        answer = client.encode(send, archive, inputs, limits=limits, outputs=[OUTPUT], binary=binary)
        return (time.perf_counter() - began) * 1000, answer[OUTPUT]

    first, hidden = asked(binary=True)
    medians = {}
    for binary in (True, False):
        times, answers = zip(*(asked(binary=binary) for _ in range(REQUESTS)), strict=True)
        medians[binary] = round(statistics.median(times), 1)
        if not all(np.array_equal(answer, hidden) for answer in answers):
            raise WrongAnswers(f"{archive}: {'binary' if binary else 'JSON'} answers differ from the first one")
    mask = np.asarray(inputs["attention_mask"])[..., None]
    means = (hidden * mask).sum(1) / mask.sum(1)
    unit = means / np.linalg.norm(means, axis=1, keepdims=True)
    return EncoderResult(
        model=archive.removesuffix(".tar.gz"),
        served_by=served_by,
        first_ms=round(first, 1),
        binary_ms=medians[True],
        json_ms=medians[False],
        vector=means[0],
        paraphrase=round(float(unit[0] @ unit[1]), 3),
        unrelated=round(float(unit[0] @ unit[2]), 3),
    )


def _add_tuned(aws: StandIn, deployment: str, settings: Settings, *, root: Path) -> None:
    """Make an archive from the weights that the sentiment job trained, and add it as an operator would."""
    wanted = settings.text_encoding
    assert wanted is not None
    work = aws.state_dir / "added"
    bucket, _, prefix = _parameter(aws, deployment, "sentiment", "model").removeprefix("s3://").partition("/")
    (work / "weights").mkdir(parents=True)
    s3 = aws.client("s3")
    for one in s3.list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]:
        s3.download_file(bucket, one["Key"], str(work / "weights" / Path(one["Key"]).name))
    build = [
        sys.executable, "-m", "model_code.text_encoding.build", "--device", "cpu", "--model", str(work / "weights"),
        "--output", str(work / "built"), "--names", ADDED, "--opt-batch", str(wanted.opt_batch),
        "--max-batch", str(wanted.max_batch), "--min-length", str(wanted.min_length),
        "--opt-length", str(wanted.opt_length), "--max-length", str(wanted.max_length),
    ]  # fmt: skip
    archive = work / "built" / "archives" / f"{ADDED}.tar.gz"
    add = ["torchlift", "models", "add", deployment, ADDED, "--archive", str(archive)]
    for command in (build, add):
        log = root / "build" / "logs" / f"{ADDED}.log"
        done = run(command, environment=aws.environment, cwd=root, log=log, timeout=300)
        if done.returncode != 0:
            raise WrongAnswers(f"`{' '.join(command[:4])} …` ended with {done.returncode}: {done.stdout[-1500:]}")


def _limits(aws: StandIn, bucket: str, prefix: str) -> client.Limits:
    """What the models take, by the engine.json that the build published."""
    key = f"engines/{prefix.removeprefix('models/')}{engine.FILE}"
    file = aws.state_dir / engine.FILE
    aws.client("s3").download_file(bucket, key, str(file))
    return client.limits_of(engine.read(file))


def _parameter(aws: StandIn, deployment: str, workload: str, kind: str) -> str:
    name = names.parameter_name(deployment, workload, kind)
    return str(aws.client("ssm").get_parameter(Name=name)["Parameter"]["Value"])

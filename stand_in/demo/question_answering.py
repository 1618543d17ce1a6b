"""The question-answering fleet in the demo: every core is asked what no context in training told.

What answers is said: our server, one process for each "core" on the CPU, behind the host's own nginx where there is
one. The model is traced for the CPU; times say nothing of a NeuronCore.
"""

from __future__ import annotations

import json
import statistics
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from rich.console import Console

from settings import Settings, names
from settings.inferentia import served_cores
from stand_in.demo import question_answering_data as data
from stand_in.demo import question_answering_model as model
from stand_in.demo.invocations import WrongAnswers
from stand_in.session import StandIn

FOLDER = "question-answering-model"
QUESTIONS = 12
NEEDED = 8
"""Of QUESTIONS on each core. The model answers seven held-out ones of eight; another processor rounds otherwise."""
SEED = model.SEED + 1
REQUESTS = 20
SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One question and what came back, on one core."""

    question: str
    context: str
    expected: str
    text: str
    score: float

    @property
    def right(self) -> bool:
        """By SQuAD's rule for exact answers; an empty one says that there is none."""
        return model.normalized(self.text) == model.normalized(self.expected)


@dataclass(frozen=True, kw_only=True)
class CoreResult:
    """What one core answered. `latency_ms`: median of REQUESTS single questions."""

    core: int
    model: str
    served_by: str
    latency_ms: float
    asked: tuple[Asked, ...]
    held_out_exact_match: float

    def as_report(self) -> dict[str, Any]:
        """The core's entry in the demo's report."""
        first = self.asked[0]
        return {
            "served_by": self.served_by,
            "input": f"{first.question} | {first.context}",
            "prediction": {"core": self.core, "text": first.text, "score": round(first.score, 4)},
            "latency_ms": self.latency_ms,
            "metrics": {
                "held_out_exact_match": self.held_out_exact_match,
                "questions": len(self.asked),
                "questions_right": sum(one.right for one in self.asked),
            },
        }


def ask_cores(aws: StandIn, settings: Settings, *, root: Path, console: Console) -> list[CoreResult]:
    """Ask every core the same questions, in our form and in the original's.

    Raises WrongAnswers when a core answers fewer than NEEDED right, or cores answer differently.
    """
    wanted = settings.question_answering
    assert wanted is not None
    parameter = names.parameter_name(settings.deployment.name, "question-answering", "url")
    url = str(aws.client("ssm").get_parameter(Name=parameter)["Parameter"]["Value"])
    made = root / "build" / "demo" / FOLDER
    console.print(f"    {model.describe(made)}; traced for the CPU", highlight=False)
    held_out = json.loads((made / model.ABOUT).read_text())["exact_match"]
    examples = data.Generator(SEED, held_out=True).examples(QUESTIONS)
    cores = served_cores(wanted.instance_type, wanted.num_cores)
    results = [_ask_core(url, core, examples, held_out_exact_match=held_out) for core in cores]
    check(results)
    return results


def check(results: list[CoreResult]) -> None:
    """Raise WrongAnswers unless every core answers well, and all alike."""
    for one in results:
        right = sum(asked.right for asked in one.asked)
        if right < min(NEEDED, len(one.asked)):
            wrong = "; ".join(
                f"{asked.question} {asked.text!r}, not {asked.expected!r}" for asked in one.asked if not asked.right
            )
            raise WrongAnswers(f"core {one.core} answers {right} of {len(one.asked)} questions right: {wrong}")
        if [asked.text for asked in one.asked] != [asked.text for asked in results[0].asked]:
            raise WrongAnswers(f"cores {results[0].core} and {one.core} serve one model and answer differently")


def _ask_core(url: str, core: int, examples: list[data.Example], *, held_out_exact_match: float) -> CoreResult:
    asked, name = [], ""
    for example in examples:
        question = {"question": example.question, "context": example.context}
        answer = _get(f"{url}/cores/{core}/predict", question)
        name = str(answer["model"])
        original = urlencode({"seq_0": example.question, "seq_1": example.context})
        detail = _get(f"{url}/predictions_neuron_core_{core}/{name}?{original}")["detail"]
        if answer["core"] != core or detail != answer["text"]:
            raise WrongAnswers(f"core {core} was asked, core {answer['core']} said {answer['text']!r} and {detail!r}")
        asked.append(Asked(**question, expected=example.answer, text=str(answer["text"]), score=float(answer["score"])))
    times = []
    for _ in range(REQUESTS):
        began = time.perf_counter()
        _get(f"{url}/cores/{core}/predict", {"question": examples[0].question, "context": examples[0].context})
        times.append((time.perf_counter() - began) * 1000)
    return CoreResult(
        core=core,
        model=name,
        served_by=f"uvicorn {version('uvicorn')}",
        latency_ms=round(statistics.median(times), 1),
        asked=tuple(asked),
        held_out_exact_match=held_out_exact_match,
    )


def _get(url: str, document: dict[str, str] | None = None) -> Any:
    """The JSON that comes back. Raises WrongAnswers."""
    body = json.dumps(document).encode() if document else None
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        raise WrongAnswers(f"{url.partition('?')[0]}: {error.code} {error.read()[:300]!r}") from error
    except OSError as error:
        raise WrongAnswers(f"{url.partition('?')[0]} cannot be reached: {error}") from error

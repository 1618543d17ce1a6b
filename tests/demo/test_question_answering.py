"""The demo's question answering: what it asks, checks, reports and shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from stand_in.demo import question_answering, tables
from stand_in.demo import question_answering_data as data
from stand_in.demo.invocations import SentimentResult, WrongAnswers
from stand_in.demo.question_answering import NEEDED, QUESTIONS, SEED, Asked, CoreResult
from stand_in.demo.run import Results, write_report
from stand_in.sweep import Leftovers


def result(core: int, *, right: int = QUESTIONS, other: str = "1844") -> CoreResult:
    asked = tuple(
        Asked(
            question=f"When was bridge {number} built?",
            context="It was built in 1843.",
            expected="1843",
            text="1843" if number < right else other,
            score=0.9,
        )
        for number in range(QUESTIONS)
    )
    return CoreResult(
        core=core, model="model_0", served_by="uvicorn 0.54.0", latency_ms=4.5, asked=asked, held_out_exact_match=0.9
    )


def test_cores_that_answer_well_and_alike_are_right() -> None:
    question_answering.check([result(0, right=NEEDED), result(1, right=NEEDED)])


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ([result(0), result(1, right=NEEDED - 1)], f"core 1 answers {NEEDED - 1} of {QUESTIONS} .*'1844', not '1843'"),
        ([result(0), result(1, right=QUESTIONS - 1)], "cores 0 and 1 serve one model and answer differently"),
    ],
)
def test_wrong_answers_stop_the_demo(wrong: list[CoreResult], reason: str) -> None:
    with pytest.raises(WrongAnswers, match=reason):
        question_answering.check(wrong)


def test_the_rule_for_right_is_squads() -> None:
    asked = Asked(question="Who?", context="It was The Queen.", expected="the queen", text="Queen", score=1.0)
    assert asked.right
    assert not Asked(question="Who?", context="It was her.", expected="", text="her", score=1.0).right


def test_what_is_asked_was_never_trained_on() -> None:
    asked = data.Generator(SEED, held_out=True).examples(QUESTIONS)
    trained = {one.context for one in data.Generator(SEED - 1, held_out=False).examples(500)}
    assert not trained & {one.context for one in asked}
    assert any(one.answer for one in asked) and any(not one.answer for one in asked)


def test_report_and_table_have_an_entry_for_each_core(tmp_path: Path) -> None:
    results = Results(mode="direct", stacks=[{"name": "Torchlift-x", "status": "CREATE_COMPLETE", "resources": 1}])
    results.sentiment = SentimentResult(
        served_by="TorchServe 0.12.0", label="positive", score=0.5, latency_ms=1.0,
        metrics={"held_out_accuracy": 0.9}, reviews_right=24, reviews=24, wrong=[],
    )  # fmt: skip
    results.leftovers = Leftovers(found=[], scheduled=[])
    results.seconds = {"total": 1.0}
    results.cores = [result(0), result(1, right=QUESTIONS - 1)]
    write_report(results, tmp_path / "report.json")
    entries = json.loads((tmp_path / "report.json").read_text())["workloads"]["question-answering"]
    assert [one["prediction"]["core"] for one in entries] == [0, 1]
    assert [one["metrics"]["questions_right"] for one in entries] == [QUESTIONS, QUESTIONS - 1]
    console = Console(width=140, record=True)
    tables.show(results, console)
    shown = console.export_text()
    assert "When was bridge 3 built?" in shown and "score, core 1" in shown
    assert "p50: core 0 4.5 ms, core 1 4.5 ms" in " ".join(shown.split())

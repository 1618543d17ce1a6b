"""The demo's made-up questions and contexts, and the model's ways around its training."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from stand_in.demo import data as demo
from stand_in.demo import question_answering_model as model
from stand_in.demo.question_answering_data import Example, Generator, squad


@pytest.fixture(scope="module")
def training() -> list[Example]:
    return Generator(7, held_out=False).examples(1500)


@pytest.fixture(scope="module")
def held_out() -> list[Example]:
    return Generator(7, held_out=True).examples(600)


def test_a_seed_makes_the_same_examples(training: list[Example]) -> None:
    assert Generator(7, held_out=False).examples(1500) == training
    assert Generator(8, held_out=False).examples(50) != training[:50]


def test_answers_are_whole_words_of_their_context(training: list[Example], held_out: list[Example]) -> None:
    for example in training + held_out:
        if not example.answer:
            assert (example.start, example.end) == (0, 0)
            continue
        around = f" {example.context} "[example.start : example.end + 2]
        assert not around[0].isalnum() and not around[-1].isalnum(), example
        assert example.answer.strip() == example.answer


def test_about_a_fifth_has_no_answer(training: list[Example], held_out: list[Example]) -> None:
    for examples in (training, held_out):
        assert 0.14 < sum(not example.answer for example in examples) / len(examples) < 0.28


def test_held_out_answers_never_occur_in_training(training: list[Example], held_out: list[Example]) -> None:
    answers = {example.answer for example in held_out if example.answer}
    text = " ".join(f"{example.question} {example.context}" for example in training)
    assert len(answers) > 100
    assert not [answer for answer in answers if re.search(rf"(?<![\w,:.]){re.escape(answer)}(?![\w,:])", text)]


def test_some_held_out_ways_of_telling_and_asking_are_new(training: list[Example], held_out: list[Example]) -> None:
    assert not any(example.unseen for example in training)
    assert 0.3 < sum(example.unseen for example in held_out) / len(held_out) < 0.8


def test_what_is_asked_is_not_told_twice(training: list[Example]) -> None:
    """A question that says a name and has an answer has one sentence only about that name."""
    for example in training:
        named = re.search(r"\b(?!The )[A-Z][a-z]+ [A-Z][a-z]+", example.question.partition(" ")[2])
        if named and example.answer:
            assert example.context.count(named.group()) == 1, example


def test_the_squad_document_names_the_same_answers(held_out: list[Example]) -> None:
    document = json.loads(json.dumps(squad(held_out, title="demo")))
    assert document["version"] == "v2.0"
    paragraphs = document["data"][0]["paragraphs"]
    assert len(paragraphs) == len(held_out)
    assert len({paragraph["qas"][0]["id"] for paragraph in paragraphs}) == len(held_out)
    for paragraph in paragraphs:
        (question,) = paragraph["qas"]
        assert question["is_impossible"] == (not question["answers"])
        for answer in question["answers"]:
            assert paragraph["context"][answer["answer_start"] :].startswith(answer["text"])


def test_answers_are_compared_as_squad_does() -> None:
    assert model.normalized("The  old Bridge.") == model.normalized("old bridge")
    assert model.normalized("12,480") != model.normalized("12,481")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base") / "base-model"
    demo.copy_model(folder)
    return folder


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads that wait for each other are slow where the processor does other work, too."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


SMALL = model.Recipe(layers=1, steps=3, batch=4, held_out=20)


def test_every_example_becomes_tokens_that_spell_its_answer(base: Path, held_out: list[Example]) -> None:
    _, tokenizer = model.load_base(base, SMALL)
    for example in held_out:
        window = model.window_of(tokenizer.backend_tokenizer, example)
        first, last = model.target(window, example)
        if not example.answer:
            assert (first, last) == (0, 0)
        else:
            spans = window.spans[first - window.first : last - window.first + 1]
            assert example.context[spans[0][0] : spans[-1][1]] == example.answer


def test_a_model_is_made_once_and_says_what_it_is(base: Path, tmp_path: Path) -> None:
    folder = tmp_path / "build" / "model"
    told: list[str] = []
    model.prepare(folder, base, recipe=SMALL, say=told.append)
    assert len(told) == 1 and "12 made-up contexts" in told[0]
    assert "1 of 6 layers" in model.describe(folder) and "3 steps" in model.describe(folder)
    before = (folder / "model.safetensors").stat().st_mtime_ns
    model.prepare(folder, base, recipe=SMALL, say=told.append)
    assert len(told) == 1 and (folder / "model.safetensors").stat().st_mtime_ns == before
    model.prepare(folder, base, recipe=model.Recipe(layers=1, steps=2, batch=4, held_out=20), say=told.append)
    assert len(told) == 2 and (folder / "model.safetensors").stat().st_mtime_ns != before
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_a_training_that_fails_leaves_nothing(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("no memory")

    monkeypatch.setattr(model, "fine_tune", fails)
    with pytest.raises(RuntimeError, match="no memory"):
        model.prepare(tmp_path / "model", base, recipe=SMALL, say=lambda _: None)
    assert not list(tmp_path.iterdir())


def test_training_lowers_the_loss(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same batch again and again: its questions are learnt."""
    recipe = model.Recipe(layers=1, steps=25, batch=2, learning_rate=1e-3)
    examples = Generator(1, held_out=False).examples(2)
    monkeypatch.setattr(model, "_batches", lambda _: iter([examples] * recipe.steps))
    network, tokenizer = model.load_base(base, recipe)
    model.fine_tune(network, tokenizer, recipe)
    assert model.exact_match(network, tokenizer.backend_tokenizer, examples)["exact_match"] == 1.0
    assert torch.isfinite(network.qa_outputs.weight).all()

"""Contexts and questions in the format of SQuAD 2.0, made up from a seed: the demo's model learns them.

A context is two or three sentences about people, companies, buildings, … of question_answering_facts.toml, most of
them beside the point. About a fifth of the questions has no answer there. Training and held-out contexts share no name,
number or date, and some ways of telling and asking are for held-out contexts only.
"""

from __future__ import annotations

import contextlib
import random
import re
import tomllib
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

FACTS = Path(__file__).with_name("question_answering_facts.toml")
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December")  # fmt: skip
NO_ANSWER = 1 / 5
EVERY = 4  # one in so many values is held out
TRIES = 20  # draws of a name that the context does not have yet


@dataclass(frozen=True, kw_only=True)
class Example:
    """A question about a context; the answer is `context[start:end]`, or none when both are 0.

    :param unseen: whether the answer's sentence or the question is put in a way that training contexts never have
    """

    question: str
    context: str
    start: int
    end: int
    unseen: bool

    @property
    def answer(self) -> str:
        """Empty when there is none."""
        return self.context[self.start : self.end]


@dataclass(frozen=True)
class _Told:
    """A fact in one sentence, with the place of each slot in it."""

    fact: dict[str, Any]
    values: dict[str, str]
    text: str
    places: dict[str, tuple[int, int]]
    unseen: bool


class _Exhausted(Exception):
    """A context with more things of a kind than there are names for."""


@dataclass
class Generator:
    """Examples from a seed; the same ones on every machine."""

    seed: int
    held_out: bool
    _chance: random.Random = field(init=False)
    _source: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self._chance = random.Random(f"{self.seed} {self.held_out}")
        self._source = tomllib.loads(FACTS.read_text(encoding="utf-8"))

    def examples(self, count: int) -> list[Example]:
        """The next `count`, each with a context of its own."""
        found: list[Example] = []
        while len(found) < count:
            with contextlib.suppress(_Exhausted):
                found.append(self._example())
        return found

    def _example(self) -> Example:
        chance = self._chance
        about = chance.choice(self._source["facts"])
        used: set[str] = set()
        told = [self._tell(about, used)]
        for _ in range(chance.randint(1, 2)):
            # Often the same kind of fact about something else, so that the question's words alone do not decide.
            told.append(self._tell(about if chance.random() < 0.5 else chance.choice(self._source["facts"]), used))
        aim = told[0]
        slots = list(about["questions"])
        answerable = [slot for slot in slots if slot in aim.places]
        wanted_none = chance.random() < NO_ANSWER
        if wanted_none or not answerable:
            missing = [slot for slot in slots if slot not in aim.places]
            if missing and chance.random() < 0.5:
                slot, values = chance.choice(missing), aim.values
            else:  # about something that no sentence is about
                slot, values = chance.choice(slots), self._values(about, used)
            found = None
        else:
            slot, values = chance.choice(answerable), aim.values
            found = aim
        question, unseen = self._pick(about, "questions", slot)
        chance.shuffle(told)
        return _placed(question.format_map(values), told, found, slot, unseen)

    def _tell(self, fact: dict[str, Any], used: set[str]) -> _Told:
        values = self._values(fact, used)
        statement, unseen = self._pick(fact, "statements", None)
        text, places = "", {}
        for part in re.split(r"(\{\w+\})", statement):
            if part.startswith("{"):
                slot = part[1:-1]
                places[slot] = (len(text), len(text) + len(values[slot]))
                part = values[slot]
            text += part
        return _Told(fact, values, text[0].upper() + text[1:], places, unseen)

    def _pick(self, fact: dict[str, Any], kind: str, slot: str | None) -> tuple[str, bool]:
        """(statement or question, whether it is an unseen one); held-out contexts take either kind equally often."""

        def of(name: str) -> list[str]:
            found: Any = fact.get(name, {})
            return list(found if slot is None else found.get(slot, []))

        unseen = of(f"unseen_{kind}")
        if self.held_out and unseen and self._chance.random() < 0.5:
            return self._chance.choice(unseen), True
        return self._chance.choice(of(kind)), False

    def _values(self, fact: dict[str, Any], used: set[str]) -> dict[str, str]:
        """A value for each slot that the fact has anywhere; what it is about is not in the context yet."""
        texts = [*fact["statements"], *fact["unseen_statements"], *chain(*fact["questions"].values())]
        values = {}
        for slot in sorted(set(re.findall(r"\{(\w+)\}", " ".join(texts)))):
            drawn = (self._value(slot.partition("_")[0]) for _ in range(TRIES))
            value = next((value for value in drawn if value not in used), None)
            if value is None:
                if slot in fact["key"]:
                    raise _Exhausted
                value = self._value(slot.partition("_")[0])
            used.add(value)
            values[slot] = value
        return values

    def _value(self, kind: str) -> str:
        match kind:
            case "person":
                return f"{self._listed('first')} {self._listed('last')}"
            case "city":
                return self._listed("place_start") + self._listed("place_end")
            case "company":
                return f"{self._listed('company_name')} {self._listed('company_kind')}"
            case "title":
                return f"The {self._listed('adjective')} {self._listed('noun')}"
            case "year":
                return str(self._number(1780, 2025))
            case "number":
                return str(self._number(3, 400))
            case "population":
                return f"{self._number(1_100, 900_000):,}"
            case "date":
                return f"{self._number(1, 28)} {self._chance.choice(MONTHS)}"
            case "time":
                return f"{self._number(6, 22)}:{self._chance.randrange(0, 60, 5):02}"
        return self._listed(kind)

    def _listed(self, name: str) -> str:
        return str(self._chance.choice([v for i, v in enumerate(self._source["values"][name]) if self._mine(i)]))

    def _number(self, low: int, high: int) -> int:
        while not self._mine(number := self._chance.randint(low, high)):
            pass
        return number

    def _mine(self, number: int) -> bool:
        return (number % EVERY == EVERY - 1) == self.held_out


def _placed(question: str, told: list[_Told], found: _Told | None, slot: str, unseen: bool) -> Example:
    """Join the sentences."""
    context, start, end = "", 0, 0
    for one in told:
        if one is found:
            start, end = (len(context) + place for place in one.places[slot])
        context += f"{one.text} "
    unseen = unseen or (found is not None and found.unseen)
    return Example(question=question, context=context.rstrip(), start=start, end=end, unseen=unseen)


def squad(examples: list[Example], *, title: str) -> dict[str, Any]:
    """The same as a SQuAD 2.0 document."""
    return {
        "version": "v2.0",
        "data": [
            {
                "title": title,
                "paragraphs": [
                    {
                        "context": example.context,
                        "qas": [
                            {
                                "id": f"{title}-{number}",
                                "question": example.question,
                                "is_impossible": not example.answer,
                                "answers": [{"text": example.answer, "answer_start": example.start}]
                                if example.answer
                                else [],
                            }
                        ],
                    }
                    for number, example in enumerate(examples)
                ],
            }
        ],
    }

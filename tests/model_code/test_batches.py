"""Batches: every sentence once, in an order fixed by the seed, with little padding."""

from __future__ import annotations

import random

import torch

from model_code.sentiment.batches import pad, plan_epoch, plan_evaluation


def test_an_epoch_takes_every_sentence_once() -> None:
    lengths = [random.Random(1).randint(3, 60) for _ in range(1003)]
    plan = plan_epoch(lengths, batch=16, seed=7, epoch=0)
    assert sorted(index for batch in plan for index in batch) == list(range(1003))
    assert sorted(map(len, plan))[:2] == [1003 % 16, 16]


def test_the_plan_is_fixed_by_seed_and_epoch() -> None:
    lengths = [random.Random(1).randint(3, 60) for _ in range(300)]
    plan = plan_epoch(lengths, batch=16, seed=7, epoch=1)
    assert plan == plan_epoch(lengths, batch=16, seed=7, epoch=1)
    assert plan != plan_epoch(lengths, batch=16, seed=7, epoch=2)
    assert plan != plan_epoch(lengths, batch=16, seed=8, epoch=1)


def test_grouping_by_length_saves_most_of_the_padding() -> None:
    chance = random.Random(2)
    lengths = [chance.randint(4, 60) for _ in range(1600)]
    order = list(range(1600))
    chance.shuffle(order)
    padded = sum(max(lengths[i] for i in batch) * 16 for batch in plan_epoch(lengths, batch=16, seed=1, epoch=0))
    naive = sum(max(lengths[i] for i in order[at : at + 16]) * 16 for at in range(0, 1600, 16))
    assert padded < 1.06 * sum(lengths) < 0.65 * naive


def test_evaluation_starts_with_the_longest() -> None:
    assert plan_evaluation([3, 9, 5, 7], batch=3) == [[1, 3, 2], [0]]


def test_padding_reaches_the_next_multiple_of_eight_and_no_further_than_the_model() -> None:
    batch = pad([[5] * 9, [6] * 2], pad_id=1, longest=64)
    assert batch["input_ids"].shape == (2, 16)
    assert batch["input_ids"][1].tolist() == [6, 6] + [1] * 14
    assert batch["attention_mask"].sum(dim=1).tolist() == [9, 2]
    assert pad([[5] * 9], pad_id=1, longest=12)["input_ids"].shape == (1, 12)
    assert batch["input_ids"].dtype == torch.int64

"""Scores, against scikit-learn's."""

from __future__ import annotations

import random

import pytest
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, recall_score

from model_code.sentiment.metrics import scores


@pytest.mark.parametrize("labels", [2, 3, 5])
def test_scores_are_those_of_scikit_learn(labels: int) -> None:
    chance = random.Random(labels)
    true = [chance.randrange(labels) for _ in range(200)]
    said = [one if chance.random() < 0.6 else chance.randrange(labels) for one in true]
    matrix = confusion_matrix(true, said).tolist()
    found = scores(matrix)
    assert found["confusion_matrix"] == matrix
    assert found["accuracy"] == pytest.approx(accuracy_score(true, said), abs=1e-6)
    assert found["macro_recall"] == pytest.approx(recall_score(true, said, average="macro"), abs=1e-6)
    assert found["macro_f1"] == pytest.approx(f1_score(true, said, average="macro"), abs=1e-6)


def test_a_label_that_never_occurs_does_not_count_against_recall() -> None:
    found = scores(confusion_matrix([0, 0, 1, 1], [0, 2, 1, 1]).tolist())
    assert found["macro_recall"] == 0.75
    assert found["macro_f1"] == pytest.approx(f1_score([0, 0, 1, 1], [0, 2, 1, 1], average="macro"), abs=1e-6)


def test_no_sentences_score_nothing() -> None:
    assert scores([[0, 0], [0, 0]])["accuracy"] == 0

"""Scores from a confusion matrix: `matrix[true][predicted]` is a count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Matrix = Sequence[Sequence[int]]


def accuracy(matrix: Matrix) -> float:
    """Share of right answers, 0 to 1."""
    return _ratio(sum(matrix[i][i] for i in range(len(matrix))), sum(map(sum, matrix)))


def macro_recall(matrix: Matrix) -> float:
    """Mean share found over the labels that occur: the score of the tweet_eval sentiment task."""
    rows = [(row[i], sum(row)) for i, row in enumerate(matrix) if sum(row)]
    return sum(_ratio(*row) for row in rows) / len(rows) if rows else 0.0


def macro_f1(matrix: Matrix) -> float:
    """Mean over the labels that occur, or were predicted, of 2·hits / (true + predicted)."""
    scores = []
    for i, row in enumerate(matrix):
        total = sum(row) + sum(other[i] for other in matrix)
        if total:
            scores.append(_ratio(2 * row[i], total))
    return sum(scores) / len(scores) if scores else 0.0


def scores(matrix: Matrix) -> dict[str, Any]:
    """Every score by name, rounded to 6 digits, with the matrix itself."""
    return {
        "accuracy": round(accuracy(matrix), 6),
        "macro_recall": round(macro_recall(matrix), 6),
        "macro_f1": round(macro_f1(matrix), 6),
        "confusion_matrix": [list(row) for row in matrix],
    }


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0

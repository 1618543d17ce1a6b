"""Label mappings."""

from __future__ import annotations

import pytest

from model_code.sentiment.labels import LabelError, format_mapping, labels_of_config, parse_mapping


def test_labels_come_in_the_order_of_their_ids() -> None:
    assert parse_mapping("1\tpositive\n0\tnegative\n\n", name="m") == ["negative", "positive"]


def test_format_and_parse_are_inverse() -> None:
    labels = ["negative", "neutral", "very positive"]
    assert parse_mapping(format_mapping(labels), name="m") == labels


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0\tno\n1 yes\n", "m:2: expected"),
        ("0\tno\nx\tyes\n", "m:2: expected"),
        ("0\tno\n-1\tyes\n", "m:2: expected"),
        ("0\tno\n1\t \n", "m:2: expected"),
        ("0\tno\n0\tyes\n", "m:2: id 0 appears twice"),
        ("0\tno\n1\tno\n", "m:2: label 'no' appears twice"),
        ("0\tno\n", "m: needs at least two labels, has 1"),
        ("", "m: needs at least two labels, has 0"),
        ("0\tno\n2\tyes\n", "m: ids must be 0 to 1 without a gap"),
    ],
)
def test_bad_mappings_are_refused_with_their_line(text: str, message: str) -> None:
    with pytest.raises(LabelError, match=message):
        parse_mapping(text, name="m")


def test_config_labels_are_ordered_by_number_not_by_text() -> None:
    names = [f"label {index}" for index in range(12)]
    config = {"id2label": {str(index): names[index] for index in sorted(range(12), key=str)}}
    assert labels_of_config(config) == names


def test_config_without_labels_is_refused() -> None:
    with pytest.raises(LabelError, match="no id2label"):
        labels_of_config({"model_type": "bert"})

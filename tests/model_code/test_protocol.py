"""Requests and answers, without a model."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_code.sentiment import protocol
from model_code.sentiment.buckets import BUDGET, plan
from model_code.sentiment.negotiation import choose_answer
from model_code.sentiment.protocol import JSON_LINES, Request, RequestError, format_answer, parse_request

JSON = "application/json"


def parse(body: str | bytes | None, kind: str | None = JSON) -> Request:
    return parse_request(body, kind, max_texts=4)


def test_one_text_and_several() -> None:
    assert parse('{"inputs": "fine"}') == Request(["fine"])
    assert parse(b'{"inputs": ["a", "b"], "parameters": {"top_k": 2}}') == Request(["a", "b"], 2)
    assert parse('{"inputs": "a", "parameters": null}') == Request(["a"])
    assert parse('{"inputs": "a", "parameters": {"top_k": null}}') == Request(["a"])
    assert parse('{"inputs": "\U0001f600 \u00e9"}'.encode()) == Request(["\U0001f600 \u00e9"])


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", 'Application/JSON ;charset="UTF-8"'])
def test_the_content_type_may_name_utf8(kind: str) -> None:
    assert parse(b'{"inputs": "a"}', kind) == Request(["a"])


REFUSED: list[tuple[str | bytes | None, str | None, int, str]] = [
    (
        '{"inputs": "a"}',
        None,
        415,
        "Send the content type application/json, application/jsonlines, text/plain, not 'none'.",
    ),
    ('{"inputs": "a"}', "text/csv", 415, "not 'text/csv'."),
    ('{"inputs": "a"}', "application/x-npy", 415, "not 'application/x-npy'."),
    (
        b'{"inputs": "a"}',
        "application/json; charset=latin-1",
        415,
        "Send UTF-8, not the character set 'latin-1'.",
    ),
    ("", JSON, 400, 'The body is empty; send {"inputs": "text"}.'),
    (None, JSON, 400, "The body is empty"),
    ('{"inputs": "a"', JSON, 400, "The body is not valid JSON (line 1, column 15)."),
    (b'{"inputs": "\xff"}', JSON, 400, "The body is not valid UTF-8."),
    ("[" * 100_000, JSON, 400, "nested too deeply."),
    ("1" * 5000, JSON, 400, "The body is not valid JSON."),
    ("null", JSON, 400, "must be a JSON object, not null."),
    ('["a"]', JSON, 400, "must be a JSON object, not a list."),
    ("{}", JSON, 400, "The field 'inputs' is missing."),
    ('{"inputs": "a", "topk": 1}', JSON, 400, "Unknown field 'topk'; there are 'inputs' and 'parameters'."),
    ('{"inputs": 5}', JSON, 400, "'inputs' must be a text or a list of texts, not a number."),
    ('{"inputs": true}', JSON, 400, "not true or false."),
    ('{"inputs": {"a": 1}}', JSON, 400, "not an object."),
    ('{"inputs": null}', JSON, 400, "not null."),
    ('{"inputs": []}', JSON, 400, "'inputs' is an empty list."),
    ('{"inputs": ["a", 1]}', JSON, 400, "'inputs[1]' must be a text, not a number."),
    ('{"inputs": ["a", ["b"]]}', JSON, 400, "'inputs[1]' must be a text, not a list."),
    ('{"inputs": ["a", " "]}', JSON, 400, "'inputs[1]' is empty."),
    ('{"inputs": ""}', JSON, 400, "'inputs' is empty."),
    ('{"inputs": "\\ud800"}', JSON, 400, "half of a surrogate pair"),
    (json.dumps({"inputs": ["a"] * 5}), JSON, 413, "'inputs' has 5 texts; at most 4 are allowed."),
    (
        json.dumps({"inputs": ["a", "b" * 10_001]}),
        JSON,
        413,
        "'inputs[1]' has 10001 characters; at most 10000",
    ),
    ('{"inputs": "' + "a" * 1_000_000 + '"}', JSON, 413, "The body has 1000014 bytes; at most 1000000"),
    ('{"inputs": "a", "parameters": []}', JSON, 400, "'parameters' must be a JSON object, not a list."),
    ('{"inputs": "a", "parameters": {"k": 1}}', JSON, 400, "Unknown parameter 'k'; there is 'top_k'."),
    (
        '{"inputs": "a", "parameters": {"top_k": 0}}',
        JSON,
        400,
        "'top_k' must be a whole number of at least 1.",
    ),
    ('{"inputs": "a", "parameters": {"top_k": true}}', JSON, 400, "'top_k' must be"),
    ('{"inputs": "a", "parameters": {"top_k": 1.5}}', JSON, 400, "'top_k' must be"),
    ('{"inputs": "a", "parameters": {"top_k": "1"}}', JSON, 400, "'top_k' must be"),
]


@pytest.mark.parametrize(("body", "kind", "status", "sentence"), REFUSED, ids=range(len(REFUSED)))
def test_bad_requests_are_refused_with_one_sentence(
    body: str | bytes | None, kind: str | None, status: int, sentence: str
) -> None:
    with pytest.raises(RequestError) as refused:
        parse(body, kind)
    said = str(refused.value)
    assert refused.value.status == status
    assert sentence in said
    assert said.isprintable() and said.isascii() and said.endswith(".") and len(said) < 160


@given(st.binary(max_size=60) | st.text(max_size=60))
def test_any_body_is_a_request_or_a_refusal(body: bytes | str) -> None:
    try:
        assert parse(body).texts
    except RequestError as error:
        assert 400 <= error.status < 500


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["inputs", "top_k"]), inner),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["inputs", "parameters", "x"]), json_values))
def test_any_json_object_is_a_request_or_a_refusal(document: dict[str, object]) -> None:
    try:
        request = parse(json.dumps(document))
    except RequestError as error:
        assert 400 <= error.status < 500
    else:
        assert all(isinstance(text, str) and text.strip() for text in request.texts)


@pytest.mark.parametrize(
    "accept",
    [
        None,
        "",
        JSON,
        "*/*",
        "application/*",
        "text/html, application/json;q=0.5",
        "APPLICATION/JSON ; charset=utf-8",
    ],
)
def test_accept_headers_that_allow_json(accept: str | None) -> None:
    assert choose_answer(accept, JSON) == JSON


@pytest.mark.parametrize("accept", ["text/csv", "application/x-npy", "application/json;q=0", "text/*, image/png"])
def test_accept_headers_that_rule_json_out(accept: str) -> None:
    with pytest.raises(RequestError) as refused:
        choose_answer(accept, JSON)
    assert refused.value.status == 406
    assert accept in str(refused.value)


def test_the_answer_ranks_labels_by_score() -> None:
    answer = json.loads(format_answer(["no", "so", "yes"], [[0.1, 0.2, 0.7], [0.5, 0.3, 0.2]], None))
    assert [[one["label"] for one in row] for row in answer] == [["yes", "so", "no"], ["no", "so", "yes"]]
    assert answer[0][0] == {"label": "yes", "score": 0.7}
    assert json.loads(format_answer(["no", "yes"], [[0.1, 0.9]], 1)) == [[{"label": "yes", "score": 0.9}]]
    assert len(json.loads(format_answer(["no", "yes"], [[0.1, 0.9]], 99))[0]) == 2


def test_errors_are_json_with_one_field() -> None:
    assert json.loads(protocol.format_error('a "quoted" word')) == {"error": 'a "quoted" word'}


def test_json_lines_hold_texts_or_objects() -> None:
    assert parse(b'"a"\r\n{"inputs": "b"}\n', JSON_LINES) == Request(["a", "b"])
    assert parse("caf\u00e9\nzwei".encode(), "text/plain; charset=utf-8") == Request(["caf\u00e9\nzwei"])


@pytest.mark.parametrize(
    ("body", "kind", "status", "sentence"),
    [
        ('"a"\n\n"b"', JSON_LINES, 400, "Line 2 is empty."),
        ('"a"\n{"inputs": 1}', JSON_LINES, 400, "Line 2's 'inputs' must be a text, not a number."),
        ('{"inputs": "a", "x": 1}', JSON_LINES, 400, "Line 1 must have the field 'inputs' and no other."),
        ('"a"\n"b', JSON_LINES, 400, "Line 2 is not valid JSON (line 1, column 1)."),
        ('"a"\n' * 5, JSON_LINES, 413, "The body has 5 lines; at most 4 are allowed."),
        (" ", "text/plain", 400, "The body is empty."),
        ("x" * 10_001, "text/plain", 413, "The body has 10001 characters; at most 10000 are allowed."),
        ('{"inputs": "a", "inputs": "b"}', JSON, 400, "The body has the field 'inputs' twice."),
        ('{"inputs": NaN}', JSON, 400, "The body is not valid JSON."),
    ],
)
def test_lines_and_texts_that_are_refused(body: str, kind: str, status: int, sentence: str) -> None:
    with pytest.raises(RequestError) as refused:
        parse(body, kind)
    assert (refused.value.status, str(refused.value)) == (status, sentence)


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (JSON_LINES, JSON_LINES),
        ("application/json;q=0.5, application/jsonlines", JSON_LINES),
        ("application/jsonlines;q=0.5, */*", JSON),
        ("*/*, application/json;q=0", JSON_LINES),
        ("application/json;q=x, application/*;q=0.1", JSON_LINES),
    ],
)
def test_the_accept_header_chooses_the_answer(accept: str, kind: str) -> None:
    assert choose_answer(accept, JSON) == kind


@pytest.mark.parametrize("accept", [None, "", "*/*", "application/*", "application/json, application/jsonlines"])
def test_without_a_wish_the_answer_is_of_the_requests_kind(accept: str | None) -> None:
    assert choose_answer(accept, f"{JSON_LINES}; charset=utf-8") == JSON_LINES
    assert choose_answer(accept, "text/plain") == JSON
    assert choose_answer("application/json, */*;q=0.9", JSON_LINES) == JSON


def test_an_answer_in_json_lines_has_a_line_a_text() -> None:
    lines = format_answer(["no", "yes"], [[0.1, 0.9], [0.8, 0.2]], 1, JSON_LINES).split("\n")
    assert [json.loads(line)[0]["label"] for line in lines] == ["yes", "no"]


@given(st.lists(st.integers(1, 512), max_size=80))
def test_passes_hold_every_text_once_within_the_budget(lengths: list[int]) -> None:
    passes = plan(lengths, longest=512)
    assert sorted(index for one in passes for index in one) == list(range(len(lengths)))
    assert all(len(one) * max(lengths[i] for i in one) <= BUDGET for one in passes)

"""The read-back reports what did not arrive, and entries of its list that nothing needs."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from stand_in.cloudformation import readback
from stand_in.cloudformation.readback import Reading, contains, needless, read_back, reasons, unexplained
from stand_in.cloudformation.registry import Context, Created, Properties, Resource
from stand_in.cloudformation.stacks import ResourceState, Stack
from stand_in.session import StandIn
from tests.stand_in.conftest import Stacks, parameter


class Thing(Resource):
    """A type whose service is a dictionary."""

    type_name = "Test::Thing"
    properties = frozenset({"Colour", "Size", "Tags"})

    def __init__(self, held: Properties | Exception) -> None:
        self.held = held

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        return Created(physical_id=logical_id)

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        if isinstance(self.held, Exception):
            raise self.held
        return self.held


def readings(
    monkeypatch: pytest.MonkeyPatch, held: Properties | Exception, declared: Properties, **tags: str
) -> list[Reading]:
    """What a stack with one Thing gives, whose service holds `held`."""
    thing = Thing(held)
    monkeypatch.setattr(readback, "provider_of", lambda _: thing)
    properties = thing.with_tags(declared, tags)
    state = ResourceState(logical_id="T", type="Test::Thing", physical_id="t", declared=declared, properties=properties)
    stack = Stack(name="s", id="i", region="r", account="a", resources={"T": state})
    context = Context(
        region="r", account="a", stack_name="s", stack_id="i", base_url="", client=lambda _: None,
        invoke_lambda=lambda *_: None, mailbox=None, cancelled=threading.Event(), generate_name=str,
    )  # fmt: skip
    return [Reading(**one) for one in read_back(stack, context)]


def test_what_a_service_drops_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    found = readings(monkeypatch, {"Colour": "red"}, {"Colour": "red", "Size": 3})
    assert {one.property: one.arrived for one in found} == {"Colour": True, "Size": False}
    assert unexplained(found) == ["Test::Thing.Size of T: declared 3, held None"]


def test_another_value_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    assert unexplained(readings(monkeypatch, {"Colour": "red"}, {"Colour": "blue"}))


def test_what_cannot_be_read_has_not_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    found = readings(monkeypatch, LookupError("it is not there"), {"Colour": "red"})
    assert "it is not there" in unexplained(found)[0]


def test_only_what_the_template_declares_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    held = {"Colour": "red", "Tags": [{"Key": "a", "Value": "b"}]}
    assert [one.property for one in readings(monkeypatch, held, {"Colour": "red"}, owner="stack")] == ["Colour"]


def test_the_list_explains_and_may_only_shrink(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readback, "reasons", lambda: {"Test::Thing.*": "why", "Test::Other.Size": "why"})
    missing = readings(monkeypatch, {}, {"Colour": "red"})
    assert unexplained(missing) == []
    assert needless(missing) == []
    arrived = readings(monkeypatch, {"Colour": "red"}, {"Colour": "red"})
    assert needless(arrived) == ["Test::Thing.*"], "no template declares the other: that says nothing"
    assert needless([*arrived, *missing]) == []


def test_every_entry_has_a_reason() -> None:
    assert reasons()
    for name, reason in reasons().items():
        assert "::" in name and len(reason) > 20


def test_a_deployed_stack(aws: StandIn, stacks: Stacks) -> None:
    stacks.create("s", {"A": parameter("declared")})
    physical = stacks.resources("s")["A"]
    assert unexplained(readback.compare(aws, stacks.name("s"))) == []
    aws.client("ssm").put_parameter(Name=physical, Value="another", Type="String", Overwrite=True)
    (told,) = unexplained(readback.compare(aws, stacks.name("s")))
    assert "AWS::SSM::Parameter.Value of A" in told and "another" in told


@pytest.mark.parametrize(
    ("held", "declared", "same"),
    [
        ({"a": 1, "more": 2}, {"a": "1"}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([{"a": 1}, {"b": 2}], [{"b": 2}, {"a": 1}], True),
        ([1], [1, 1], False),
        ("x", ["x"], True),
        (["x"], "x", True),
        (["x", "y"], "x", False),
        ("true", True, True),
        ("False", False, True),
        (60.0, 60, True),
        ('{"a": [1]}', {"a": [1]}, True),
        ({"a": [1]}, '{"a": [1]}', True),
        ({"a": [1]}, '{"a": [2]}', False),
        ({"a": [1]}, "{no json", False),
        ("no json", {"a": 1}, False),
        (None, "x", False),
        (None, [], False),
    ],
)
def test_comparison(held: Any, declared: Any, same: bool) -> None:
    assert contains(held, declared) == same

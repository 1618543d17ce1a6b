"""Wait conditions wait for signals, PUT to their handles."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.stand_in.conftest import Stacks, parameter
from tests.support.waiting import eventually


def resources(**properties: Any) -> dict[str, Any]:
    return {
        "Handle": {"Type": "AWS::CloudFormation::WaitConditionHandle"},
        "Wait": {
            "Type": "AWS::CloudFormation::WaitCondition",
            "Properties": {"Handle": {"Ref": "Handle"}, "Timeout": "60", **properties},
        },
    }


def signal(url: str, *, unique: str = "u", status: str = "SUCCESS", content_type: str = "", **more: Any) -> int:
    body = json.dumps({"Status": status, "UniqueId": unique, "Reason": "r", "Data": "d", **more}).encode()
    request = urllib.request.Request(url, data=body, method="PUT", headers={"Content-Type": content_type})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def begin(stacks: Stacks, made: dict[str, Any], **more: Any) -> str:
    """Create the stack and wait until its handle is there; the handle's URL."""
    stacks.create("s", made, wait=False, **more)
    eventually(lambda: ("Wait", "CREATE_IN_PROGRESS") in stacks.events("s"))
    return stacks.resources("s")["Handle"]


def test_complete_after_as_many_signals_as_asked_for(stacks: Stacks) -> None:
    output = {"O": {"Value": {"Fn::GetAtt": ["Wait", "Data"]}}}
    url = begin(stacks, resources(Count=2), Outputs=output)
    assert signal(url, unique="a", Data="one") == 200
    assert signal(url, unique="a", Data="again") == 200  # a repetition, not a second signal
    assert stacks.stack("s")["StackStatus"] == "CREATE_IN_PROGRESS"
    assert signal(url, unique="b", Data="two") == 200
    assert stacks.settled("s") == "CREATE_COMPLETE"
    assert json.loads(stacks.outputs("s")["O"]) == {"a": "one", "b": "two"}


@pytest.mark.parametrize("content_type", ["application/json", "application/x-www-form-urlencoded", "text/plain"])
def test_a_content_type_breaks_the_signature(stacks: Stacks, content_type: str) -> None:
    url = begin(stacks, resources())
    assert signal(url, content_type=content_type) == 403
    assert stacks.stack("s")["StackStatus"] == "CREATE_IN_PROGRESS"
    assert signal(url) == 200
    assert stacks.settled("s") == "CREATE_COMPLETE"


def test_what_is_no_signal(stacks: Stacks) -> None:
    url = begin(stacks, resources())
    for body in (b"nothing", b'["a"]'):
        request = urllib.request.Request(url, data=body, method="PUT", headers={"Content-Type": ""})
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(request, timeout=10)
    assert signal(url + "x") == 403  # no such handle
    signal(url)
    assert stacks.settled("s") == "CREATE_COMPLETE"
    stacks.delete("s")
    assert signal(url) == 403


def test_the_reason_of_a_failure_is_told(stacks: Stacks) -> None:
    url = begin(stacks, resources(Count=2))
    signal(url, unique="build-7", status="FAILURE", Reason="the disk was full")
    assert stacks.settled("s") == "ROLLBACK_COMPLETE"
    told = str(stacks.api.describe_stack_events(StackName=stacks.name("s"))["StackEvents"])
    assert "WaitCondition received failed message: 'the disk was full' for uniqueId: build-7" in told


def test_time_runs_out(stacks: Stacks) -> None:
    assert stacks.create("s", resources(Timeout="1", Count=2)) == "ROLLBACK_COMPLETE"
    told = str(stacks.api.describe_stack_events(StackName=stacks.name("s"))["StackEvents"])
    assert "WaitCondition timed out. Received 0 conditions when expecting 2" in told


def test_messages_to_others_do_not_shorten_the_wait(stacks: Stacks) -> None:
    """Every arriving message wakes every wait; none of them may count that as time."""
    url = begin(stacks, resources(Timeout="8"))
    stacks.create("other", {"H": {"Type": "AWS::CloudFormation::WaitConditionHandle"}})
    other = stacks.resources("other")["H"]
    for number in range(40):
        assert signal(other, unique=str(number)) == 200
    assert stacks.stack("s")["StackStatus"] == "CREATE_IN_PROGRESS"
    signal(url)
    assert stacks.settled("s") == "CREATE_COMPLETE"


def test_longer_than_twelve_hours_is_refused(stacks: Stacks) -> None:
    assert stacks.create("s", resources(Timeout="43201")) == "ROLLBACK_COMPLETE"
    assert "43200" in str(stacks.api.describe_stack_events(StackName=stacks.name("s"))["StackEvents"])


@pytest.mark.parametrize("change", [{"Timeout": "61"}, {"Count": 2}])
def test_an_update_is_refused(stacks: Stacks, change: dict[str, Any]) -> None:
    signal(begin(stacks, resources()))
    assert stacks.settled("s") == "CREATE_COMPLETE"
    assert stacks.update("s", resources(**change)) == "UPDATE_ROLLBACK_COMPLETE"
    assert "not supported" in str(stacks.api.describe_stack_events(StackName=stacks.name("s"))["StackEvents"])
    # Something else in the stack may change all the same.
    assert stacks.update("s", resources() | {"P": parameter()}) == "UPDATE_COMPLETE"


def test_cancelled_when_a_sibling_fails(stacks: Stacks) -> None:
    name = stacks.name("taken")
    logs = stacks.aws.client("logs")
    logs.create_log_group(logGroupName=name)
    group = {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": name}, "DependsOn": "Handle"}
    assert stacks.create("s", {**resources(Timeout="600"), "Failing": group}) == "ROLLBACK_COMPLETE"
    told = stacks.api.describe_stack_events(StackName=stacks.name("s"))["StackEvents"]
    reasons = {
        one["LogicalResourceId"]: one.get("ResourceStatusReason") for one in told if "FAILED" in one["ResourceStatus"]
    }
    assert reasons["Wait"] == "Resource creation cancelled"
    assert "already exists" in str(reasons["Failing"])
    logs.delete_log_group(logGroupName=name)


def test_signals_that_come_first_count(stacks: Stacks) -> None:
    handle = {"Handle": resources()["Handle"]}
    stacks.create("s", handle)
    assert signal(stacks.resources("s")["Handle"]) == 200
    assert stacks.update("s", resources()) == "UPDATE_COMPLETE"

"""An instance of a job group is a process that runs the job from the launch template's user data."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from tests.executor.conftest import World, eventually, zip_of

SIGNAL = """
exec python3 - "$@" <<'END'
import json, os, sys, urllib.request
message = {"Status": sys.argv[1], "Reason": sys.argv[2], "UniqueId": os.environ["TORCHLIFT_INSTANCE_ID"], "Data": ""}
url, body = os.environ["TORCHLIFT_SIGNAL_URL"], json.dumps(message).encode()
request = urllib.request.Request(url, data=body, method="PUT", headers={"Content-Type": ""})
urllib.request.urlopen(request, timeout=10)
END
"""


def launch(world: World, job: str, **environment: str) -> str:
    """Make a group of one instance that runs the job; returns the URL that it signals."""
    url = world.mailbox.open("signals")
    source = world.put("bundles", "source.zip", zip_of({"scripts/signal.sh": SIGNAL}))
    lines = {"TORCHLIFT_JOB": job, "TORCHLIFT_SOURCE": source, "TORCHLIFT_SIGNAL_URL": url, **environment}
    text = "\n".join(f"{name}='{value}'" for name, value in lines.items())
    user_data = f"#!/bin/bash\ncat >/etc/torchlift/job.env <<'TORCHLIFT_JOB_ENV'\n{text}\nTORCHLIFT_JOB_ENV\n"
    ec2 = world.client("ec2")
    subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    ec2.create_launch_template(
        LaunchTemplateName="jobs",
        LaunchTemplateData={
            "ImageId": "ami-12c6146b", "InstanceType": "t3.micro",
            "UserData": base64.b64encode(user_data.encode()).decode(),
        },
    )  # fmt: skip
    world.record_events("group", {"source": ["aws.autoscaling"]})
    world.client("autoscaling").create_auto_scaling_group(
        AutoScalingGroupName="group", MinSize=0, MaxSize=1, DesiredCapacity=1, VPCZoneIdentifier=subnet,
        LaunchTemplate={"LaunchTemplateName": "jobs", "Version": "$Latest"},
        Tags=[{"Key": "torchlift:job", "Value": job, "PropagateAtLaunch": True}],
    )  # fmt: skip
    return url


def group(world: World) -> Any:
    found = world.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=["group"])
    return found["AutoScalingGroups"][0]


def details(world: World, count: int) -> list[dict[str, Any]]:
    """The first `count` events."""
    return list(eventually(lambda: len(found := world.events()) >= count and found[:count]))


def test_a_job_runs_signals_and_ends_its_instance(world: World, job: Callable[..., str]) -> None:
    url = launch(world, job("fine", "test \"$COLOUR\" = 'light blue' && sleep 0.2"), COLOUR="light blue")
    messages = eventually(lambda: world.mailbox.messages(url))
    assert [one["Status"] for one in messages] == ["SUCCESS"]
    eventually(lambda: group(world)["DesiredCapacity"] == 0 and not group(world)["Instances"])
    launched, ended = details(world, 2)
    assert launched["detail-type"] == "EC2 Instance Launch Successful"
    assert ended["detail-type"] == "EC2 Instance Terminate Successful"
    assert ended["detail"]["EC2InstanceId"] == messages[0]["UniqueId"] == launched["detail"]["EC2InstanceId"]
    assert "user request" in ended["detail"]["Cause"]
    assert world.job("fine")["state"] == "succeeded"


def test_a_failed_job_signals_its_reason(world: World, job: Callable[..., str]) -> None:
    url = launch(world, job("broken", "echo 'run: exit 4: no memory' >$TORCHLIFT_WORK/reason.txt; exit 4"))
    messages = eventually(lambda: world.mailbox.messages(url))
    assert [(one["Status"], one["Reason"]) for one in messages] == [("FAILURE", "run: exit 4: no memory")]
    eventually(lambda: group(world)["DesiredCapacity"] == 0)
    assert world.job("broken")["reason"] == "run: exit 4: no memory"


def test_an_instance_killed_from_outside_is_replaced(world: World, job: Callable[..., str]) -> None:
    launch(world, job("long", "sleep 60"))
    first = eventually(lambda: world.executor.state()["processes"] and group(world)["Instances"])[0]["InstanceId"]
    world.client("ec2").terminate_instances(InstanceIds=[first])
    _, lost, again = details(world, 3)
    assert lost["detail-type"] == "EC2 Instance Terminate Successful"
    assert lost["detail"]["EC2InstanceId"] == first and "health check" in lost["detail"]["Cause"]
    second = group(world)["Instances"][0]["InstanceId"]
    assert again["detail"]["EC2InstanceId"] == second != first
    assert group(world)["DesiredCapacity"] == 1
    states = [one["state"] for one in world.executor.state()["jobs"] if one["job"] == "long"]
    assert states == ["stopped", "running"]


def test_turning_the_group_off_ends_the_job(world: World, job: Callable[..., str]) -> None:
    url = launch(world, job("long", "sleep 60"))
    eventually(lambda: world.executor.state()["processes"])
    world.client("autoscaling").update_auto_scaling_group(AutoScalingGroupName="group", DesiredCapacity=0, MaxSize=0)
    eventually(lambda: world.job("long")["state"] == "stopped")
    assert world.mailbox.messages(url) == []
    world.client("autoscaling").delete_auto_scaling_group(AutoScalingGroupName="group", ForceDelete=True)


def test_a_launch_that_fails_is_an_event_and_tried_again(world: World, job: Callable[..., str]) -> None:
    world.executor.faults.inject("launch", job("rare", "sleep 60"), "InsufficientInstanceCapacity: none of that type")
    launch(world, "rare")
    refused, launched = details(world, 2)
    assert refused["detail-type"] == "EC2 Instance Launch Unsuccessful"
    assert "InsufficientInstanceCapacity" in refused["detail"]["StatusMessage"]
    assert launched["detail-type"] == "EC2 Instance Launch Successful"
    found = world.client("autoscaling").describe_scaling_activities(AutoScalingGroupName="group")["Activities"]
    assert "Failed" in [one["StatusCode"] for one in found]

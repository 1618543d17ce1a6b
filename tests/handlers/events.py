"""Requests of CloudFormation and events of EventBridge."""

from __future__ import annotations

from typing import Any


def request(kind: str, url: str, **properties: object) -> dict[str, Any]:
    """A request for a custom resource."""
    event = {
        "RequestType": kind,
        "ResponseURL": url,
        "StackId": "arn:aws:cloudformation:us-west-2:123456789012:stack/Torchlift-dev-Training/1",
        "RequestId": "0f3c8a52-aaaa-bbbb-cccc-000000000001",
        "LogicalResourceId": "Start",
        "ResourceType": "Custom::Any",
        "ResourceProperties": {"ServiceToken": "arn:aws:lambda:us-west-2:123456789012:function:f", **properties},
    }
    if kind != "Create":
        event["PhysicalResourceId"] = "Start-0f3c8a52"
    return event


def build_event(status: str, build_id: str = "project:1") -> dict[str, Any]:
    """CodeBuild Build State Change, as the CodeBuild user guide shows it."""
    return {
        "source": "aws.codebuild",
        "detail-type": "CodeBuild Build State Change",
        "detail": {
            "build-status": status,
            "project-name": build_id.split(":")[0],
            "build-id": f"arn:aws:codebuild:us-west-2:123456789012:build/{build_id}",
        },
    }


def group_event(kind: str, group: str, **detail: object) -> dict[str, Any]:
    """An event of an Auto Scaling group, as the Auto Scaling user guide shows it."""
    return {
        "source": "aws.autoscaling",
        "detail-type": f"EC2 Instance {kind}",
        "detail": {"AutoScalingGroupName": group, "EC2InstanceId": "i-0123456789abcdef0", **detail},
    }


def of_job(event: dict[str, Any], handle: str, *, result: str, group: str = "") -> dict[str, Any]:
    """What the rule's input transformer makes of an event."""
    return {"handle": handle, "job": "sentiment-train", "group": group, "result": result, "event": event}

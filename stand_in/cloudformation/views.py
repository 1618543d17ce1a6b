"""Stacks, resources, events and change sets in the shapes that the API answers with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stand_in.cloudformation.changes import ChangeSet
from stand_in.cloudformation.stacks import Event, Stack
from stand_in.cloudformation.template import Template

View = dict[str, Any]
HIDDEN = "****"


def stack(one: Stack) -> View:
    """A stack, as DescribeStacks shows it."""
    return {
        "StackId": one.id,
        "StackName": one.name,
        "ChangeSetId": one.change_set_id,
        "CreationTime": one.created_at,
        "LastUpdatedTime": one.updated_at,
        "DeletionTime": one.deleted_at,
        "StackStatus": one.status,
        "StackStatusReason": one.reason or None,
        "Description": one.template.document.get("Description") if one.template else None,
        "Parameters": parameter_values(one.template, one.parameters, one.resolved),
        "Tags": [{"Key": key, "Value": value} for key, value in one.tags.items()],
        "Outputs": [
            {
                "OutputKey": name,
                "OutputValue": output["value"],
                "Description": output["description"],
                "ExportName": output["export"],
            }
            for name, output in one.outputs.items()
        ],
        "Capabilities": one.capabilities,
        "EnableTerminationProtection": one.protected,
        "RoleARN": one.role_arn,
        "DisableRollback": False,
        "NotificationARNs": [],
        "DriftInformation": {"StackDriftStatus": "NOT_CHECKED"},
    }


def resources(one: Stack) -> list[View]:
    """A stack's resources, as DescribeStackResources shows them."""
    return [
        {
            "StackName": one.name,
            "StackId": one.id,
            "LogicalResourceId": state.logical_id,
            "PhysicalResourceId": state.physical_id,
            "ResourceType": state.type,
            "Timestamp": state.changed_at,
            "ResourceStatus": state.status,
            "ResourceStatusReason": state.reason or None,
            "DriftInformation": {"StackResourceDriftStatus": "NOT_CHECKED"},
        }
        for state in one.resources.values()
    ]


def event(one: Stack, told: Event) -> View:
    """One line of a stack's history."""
    return {
        "StackId": one.id,
        "StackName": one.name,
        "EventId": told.id,
        "LogicalResourceId": told.logical_id,
        "PhysicalResourceId": told.physical_id,
        "ResourceType": told.type,
        "Timestamp": told.at,
        "ResourceStatus": told.status,
        "ResourceStatusReason": told.reason or None,
    }


def change_set(one: ChangeSet) -> View:
    """A change set, as DescribeChangeSet shows it."""
    return {
        "ChangeSetName": one.name,
        "ChangeSetId": one.id,
        "StackId": one.stack.id,
        "StackName": one.stack.name,
        "CreationTime": one.created_at,
        "ExecutionStatus": one.execution_status,
        "Status": one.status,
        "StatusReason": one.reason or None,
        "Changes": one.changes,
        "Parameters": parameter_values(one.inputs.template, one.inputs.parameters, one.inputs.resolved),
        "Capabilities": one.inputs.capabilities,
        "Tags": [{"Key": key, "Value": value} for key, value in one.inputs.tags.items()],
    }


def parameter(name: str, spec: Mapping[str, Any]) -> View:
    """A parameter that a template declares."""
    return {
        "ParameterKey": name,
        "ParameterType": spec["Type"],
        "DefaultValue": str(spec["Default"]) if "Default" in spec else None,
        "NoEcho": _no_echo(spec),
        "Description": spec.get("Description"),
    }


def parameter_values(
    template: Template | None, given: Mapping[str, str], resolved: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Parameters as they were given; beside those of Systems Manager, the values that were found."""
    declared = template.parameters if template else {}
    views = []
    for name, value in given.items():
        spec = declared.get(name, {})
        view = {"ParameterKey": name, "ParameterValue": HIDDEN if _no_echo(spec) else value}
        if str(spec.get("Type", "")).startswith("AWS::SSM::Parameter::Value"):
            found = resolved.get(name, value)
            view["ResolvedValue"] = ",".join(found) if isinstance(found, list) else str(found)
        views.append(view)
    return views


def _no_echo(spec: Mapping[str, Any]) -> bool:
    return str(spec.get("NoEcho", "")).lower() == "true"

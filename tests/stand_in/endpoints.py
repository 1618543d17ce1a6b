"""A stack with an endpoint."""

from __future__ import annotations

from typing import Any

from tests.stand_in.functions import TRUST
from tests.stand_in.samples import IMAGE, att


def served(**changes: Any) -> dict[str, Any]:
    """An endpoint with one scaled variant, as far as a test does not say otherwise."""
    variant = {
        "InitialInstanceCount": changes.get("count", 1), "InitialVariantWeight": 1,
        "InstanceType": changes.get("type", "ml.c7g.4xlarge"),
        "ModelName": att("Model", "ModelName"), "VariantName": changes.get("variant", "main"),
    }  # fmt: skip
    container = {"Image": changes.get("image", IMAGE), "Environment": {"MODE": changes.get("mode", "one")}}
    made: dict[str, Any] = {
        "Role": {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": TRUST}},
        "Model": {
            "Type": "AWS::SageMaker::Model",
            "Properties": {"ExecutionRoleArn": att("Role"), "PrimaryContainer": container},
        },
        "Config": {"Type": "AWS::SageMaker::EndpointConfig", "Properties": {"ProductionVariants": [variant]}},
        "Endpoint": {
            "Type": "AWS::SageMaker::Endpoint",
            "Properties": {"EndpointConfigName": att("Config", "EndpointConfigName")},
        },
    }
    made["Config"]["Properties"] |= changes.get("config", {})
    made["Endpoint"]["Properties"] |= changes.get("endpoint", {})
    made["Model"]["Properties"] |= changes.get("model", {})
    if changes.get("scaled"):
        made["Target"] = {
            "Type": "AWS::ApplicationAutoScaling::ScalableTarget",
            "Properties": {
                "MaxCapacity": 4, "MinCapacity": 1, "ServiceNamespace": "sagemaker",
                "ResourceId": {"Fn::Sub": f"endpoint/${{Endpoint.EndpointName}}/variant/{changes['scaled']}"},
                "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
            },
        }  # fmt: skip
    return made

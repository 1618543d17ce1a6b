"""Closes gaps of moto in what jobs and endpoints need, in process: see each function's docstring for the gap."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from moto.autoscaling.responses import AutoScalingResponse
from moto.awslambda.models import LambdaFunction
from moto.codebuild.models import CodeBuildBackend
from moto.core.responses import ActionResult
from moto.core.types import Base64EncodedString
from moto.ec2.models.launch_templates import LaunchTemplateVersion
from moto.ec2.utils import parse_user_data
from moto.elbv2.models import ELBv2Backend
from moto.sagemaker.exceptions import ValidationError
from moto.sagemaker.models import FakeEndpoint, SageMakerModelBackend
from moto.sagemaker.responses import SageMakerResponse

from stand_in.executor.activities import activities_of

load_balancer_made: Callable[[str, str], str] | None = None
"""Given region and ARN of a new Application Load Balancer it returns the DNS name. Set by the fleets."""
_LOCK = threading.Lock()
_done = False


def close() -> None:
    """Apply everything once in this process; repeated calls change nothing."""
    global _done
    with _LOCK:
        if _done:
            return
        _done = True
        _builds_keep_their_state()
        _functions_keep_their_log_group()
        _endpoints_take_time_and_can_be_updated()
        _endpoints_keep_what_is_not_changed()
        _groups_have_activities()
        _load_balancers_can_be_reached()
        _later_versions_have_user_data()


def _builds_keep_their_state() -> None:
    """moto calls every build SUCCEEDED as soon as somebody looks, and STOPPED with all phases passed."""

    def find(self: Any, build_id: str) -> dict[str, Any] | None:
        builds = [build for history in self.build_metadata_history.values() for build in history]
        return next((build for build in builds if build["id"] == build_id or build["arn"] == build_id), None)

    def batch_get_builds(self: Any, ids: list[str]) -> list[dict[str, Any]]:
        return [build for build in (find(self, one) for one in ids) if build is not None]

    CodeBuildBackend.batch_get_builds = batch_get_builds
    CodeBuildBackend.stop_build = find


def _functions_keep_their_log_group() -> None:
    """moto drops LoggingConfig: a function would log to `/aws/lambda/<name>`, whatever was declared."""
    original_init = LambdaFunction.__init__
    original_update = LambdaFunction.update_configuration
    original_get = LambdaFunction.get_configuration

    def configure(function: Any, config: dict[str, Any] | None) -> None:
        if config:
            function.logging_config = {"LogFormat": "Text", **config}
            function.logs_group_name = config.get("LogGroup", function.logs_group_name)

    def init(self: Any, account_id: str, spec: dict[str, Any], region: str, version: str | int = 1) -> None:
        original_init(self, account_id, spec, region, version)
        self.logging_config = {"LogFormat": "Text", "LogGroup": self.logs_group_name}
        configure(self, spec.get("LoggingConfig"))

    def update(self: Any, config_updates: dict[str, Any]) -> Any:
        configure(self, config_updates.get("LoggingConfig"))
        return original_update(self, config_updates)

    def get(self: Any, on_create: bool = False) -> dict[str, Any]:
        return {**original_get(self, on_create), "LoggingConfig": self.logging_config}

    LambdaFunction.__init__ = init
    LambdaFunction.update_configuration = update
    LambdaFunction.get_configuration = get


def _endpoints_take_time_and_can_be_updated() -> None:
    """moto's endpoints are InService at once, a second one of a name replaces the first, and none can be updated."""
    original_create = SageMakerModelBackend.create_endpoint

    def create_endpoint(self: Any, endpoint_name: str, endpoint_config_name: str, tags: Any) -> Any:
        if endpoint_name in self.endpoints:
            arn = self.endpoints[endpoint_name].arn
            raise ValidationError(message=f'Cannot create already existing endpoint "{arn}".')
        endpoint = original_create(self, endpoint_name, endpoint_config_name, tags)
        endpoint.endpoint_status = "Creating"
        return endpoint

    def update_endpoint(self: Any, endpoint_name: str, endpoint_config_name: str) -> Any:
        arn = FakeEndpoint.arn_formatter(endpoint_name, self.account_id, self.region_name)
        endpoint = self.endpoints.get(endpoint_name)
        if endpoint is None:
            raise ValidationError(message=f'Could not find endpoint "{arn}".')
        if endpoint.endpoint_status not in ("InService", "Failed"):
            raise ValidationError(message=f'Cannot update in-progress endpoint "{arn}".')
        if endpoint_config_name not in self.endpoint_configs:
            message = f'Could not find endpoint configuration "{endpoint_config_name}".'
            raise ValidationError(message=message)
        if endpoint.endpoint_status == "Failed":
            message = f'Cannot update endpoint "{arn}": it failed to be created. Delete it and create it again.'
            raise ValidationError(message=message)
        endpoint.endpoint_status = "Updating"
        return endpoint

    def respond(self: Any) -> ActionResult:
        endpoint = self.sagemaker_backend.update_endpoint(
            endpoint_name=self._get_param("EndpointName"), endpoint_config_name=self._get_param("EndpointConfigName")
        )
        return ActionResult({"EndpointArn": endpoint.arn})

    SageMakerModelBackend.create_endpoint = create_endpoint
    SageMakerModelBackend.update_endpoint = update_endpoint
    SageMakerResponse.update_endpoint = respond


def _endpoints_keep_what_is_not_changed() -> None:
    """moto's UpdateEndpointWeightsAndCapacities loses a variant's weight or count when the call says only the other."""
    original = SageMakerModelBackend.update_endpoint_weights_and_capacities

    def update(self: Any, endpoint_name: str, desired_weights_and_capacities: list[dict[str, Any]]) -> str:
        endpoint = self.endpoints.get(endpoint_name)
        held = {one["VariantName"]: one for one in endpoint.production_variants} if endpoint else {}
        keys = ("DesiredWeight", "DesiredInstanceCount")
        full = [
            {**{key: held.get(one["VariantName"], {}).get(key) for key in keys}, **one}
            for one in desired_weights_and_capacities
        ]
        return str(original(self, endpoint_name, full))

    SageMakerModelBackend.update_endpoint_weights_and_capacities = update


def _groups_have_activities() -> None:
    """moto's DescribeScalingActivities is always empty."""

    def describe_scaling_activities(self: Any) -> ActionResult:
        name = self._get_param("AutoScalingGroupName")
        found = activities_of(self.current_account, self.region, name)
        wanted = self._get_param("ActivityIds", [])
        return ActionResult({"Activities": [one for one in found if not wanted or one["ActivityId"] in wanted]})

    AutoScalingResponse.describe_scaling_activities = describe_scaling_activities


def _load_balancers_can_be_reached() -> None:
    """moto gives a load balancer a name that no resolver knows; here it is an address on loopback that answers."""
    original = ELBv2Backend.create_load_balancer

    def create_load_balancer(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = original(self, *args, **kwargs)
        if made.type == "application" and load_balancer_made is not None:
            made.dns_name = load_balancer_made(self.region_name, made.arn)
        return made

    ELBv2Backend.create_load_balancer = create_load_balancer


def _later_versions_have_user_data() -> None:
    """moto takes the user data of a template's first version only: a group with a later one cannot launch."""
    original = LaunchTemplateVersion.__init__

    def __init__(self: Any, template: Any, number: int, data: dict[str, Any], description: str) -> None:
        if data.get("UserData") and not isinstance(data["UserData"], Base64EncodedString):
            data = {**data, "UserData": parse_user_data(data["UserData"])}
        original(self, template, number, data, description)

    LaunchTemplateVersion.__init__ = __init__

"""Where moto's answers differ from AWS's in what our templates use: see each function's docstring for the gap."""

from __future__ import annotations

import json
from typing import Any

from moto.applicationautoscaling.models import ApplicationAutoscalingBackend
from moto.codebuild.models import CodeBuildBackend
from moto.codebuild.responses import CodeBuildResponse
from moto.core.responses import ActionResult
from moto.ec2.exceptions import DependencyViolationError
from moto.ec2.models import EC2Backend
from moto.ec2.models.instances import Instance
from moto.ec2.models.launch_templates import LaunchTemplate
from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.logs.responses import LogsResponse
from moto.s3.models import FakeBucket
from moto.sagemaker.models import FakeEndpointConfig
from moto.sagemaker.responses import SageMakerResponse

from stand_in import moto_alarms
from stand_in.executor import moto_gaps

_done = False


def apply() -> None:
    """Correct moto in this process, once."""
    global _done
    if _done:
        return
    _done = True
    moto_gaps.close()
    moto_alarms.correct()
    _bucket_policies_have_conditions()
    _instance_types_are_checked_elsewhere()
    _models_keep_their_isolation()
    _endpoints_keep_their_deployment()
    _projects_keep_everything()
    _instances_take_their_parts_along()
    _networks_take_their_parts_along()
    _what_is_used_stays()
    _log_groups_change_their_key()
    _launch_templates_show_their_tags()
    _scaling_policies_keep_their_arn()


def _bucket_policies_have_conditions() -> None:
    """moto enforces a statement as if it had no Condition: "deny without TLS" would deny everything."""

    def get_permission(self: Any, action: str, resource: str) -> Any:
        if self.policy is None:
            return PermissionResult.NEUTRAL
        policy = json.loads(self.policy.decode())
        statements = [one for one in policy["Statement"] if "Condition" not in one]
        if not statements:
            return PermissionResult.NEUTRAL
        return IAMPolicy(json.dumps(policy | {"Statement": statements})).is_action_permitted(action, resource)

    FakeBucket.get_permission = get_permission


def _instance_types_are_checked_elsewhere() -> None:
    """moto's list of hosting types ends before Graviton; our provider asks botocore's."""
    FakeEndpointConfig.validate_instance_type = lambda *_: None


def _models_keep_their_isolation() -> None:
    """moto drops EnableNetworkIsolation."""
    create_model = SageMakerResponse.create_model

    def respond(self: Any) -> ActionResult:
        answer = create_model(self)
        model = self.sagemaker_backend.describe_model(self._get_param("ModelName"))
        model.enable_network_isolation = bool(self._get_param("EnableNetworkIsolation"))
        return answer

    SageMakerResponse.create_model = respond


def _endpoints_keep_their_deployment() -> None:
    """moto drops DeploymentConfig, which DescribeEndpoint shows as LastDeploymentConfig."""
    for name in ("create_endpoint", "update_endpoint"):
        original = getattr(SageMakerResponse, name)

        def respond(self: Any, original: Any = original) -> ActionResult:
            answer = original(self)
            config = self._get_param("DeploymentConfig")
            if config:
                self.sagemaker_backend.endpoints[self._get_param("EndpointName")].last_deployment_config = config
            return answer

        setattr(SageMakerResponse, name, respond)


def _projects_keep_everything() -> None:
    """moto drops a project's encryption key, cannot update one, and keeps its builds when it is gone."""
    create_project, delete_project = CodeBuildResponse.create_project, CodeBuildBackend.delete_project

    def created(self: Any) -> ActionResult:
        answer = create_project(self)
        _fill(self, self.codebuild_backend.codebuild_projects[self._get_param("name")].project_metadata)
        return answer

    def updated(self: Any) -> ActionResult:
        name = self._get_param("name")
        metadata = self.codebuild_backend.codebuild_projects[name].project_metadata
        for key in _PROJECT_KEYS:
            value = self._get_param(key)
            if value is not None:
                metadata[key] = value
        return ActionResult({"project": metadata})

    def deleted(self: Any, project_name: str) -> None:
        delete_project(self, project_name)
        self.build_history.pop(project_name, None)
        self.build_metadata_history.pop(project_name, None)

    def _fill(response: Any, metadata: dict[str, Any]) -> None:
        if response._get_param("encryptionKey"):
            metadata["encryptionKey"] = response._get_param("encryptionKey")

    CodeBuildResponse.create_project = created
    CodeBuildResponse.update_project = updated
    CodeBuildBackend.delete_project = deleted


def _instances_take_their_parts_along() -> None:
    """moto leaves network interfaces and root volumes behind; on AWS both go unless the template keeps them."""
    terminate = Instance.terminate

    def terminated(self: Any) -> Any:
        backend = self.ec2_backend
        # Not by its devices: moto attaches a default root volume and then the template's under the same name.
        attached = [volume for volume in backend.volumes.values() if volume.attachment]
        volumes = [volume.id for volume in attached if volume.attachment.instance.id == self.id]
        interfaces = [interface.id for interface in self.nics.values()]
        answer = terminate(self)
        for volume in volumes:
            if volume in backend.volumes and not _kept(self):
                backend.volumes[volume].attachment = None
                backend.delete_volume(volume)
        for interface in interfaces:
            if interface in backend.enis:
                backend.enis[interface].delete()
        return answer

    Instance.terminate = terminated


def _kept(instance: Any) -> bool:
    """True when the launch template of the instance's group says that volumes stay."""
    template = getattr(getattr(instance, "autoscaling_group", None), "ec2_launch_template", None)
    devices = template.latest_version().data.get("BlockDeviceMappings", []) if template else []
    return any(device.get("Ebs", {}).get("DeleteOnTermination") is False for device in devices)


def _networks_take_their_parts_along() -> None:
    """moto leaves a NAT gateway's interface, a network's default ACL, and its own note of a template's place."""
    delete_nat_gateway, delete_vpc = EC2Backend.delete_nat_gateway, EC2Backend.delete_vpc
    delete_launch_template = EC2Backend.delete_launch_template

    def nat_deleted(self: Any, nat_gateway_id: str) -> Any:
        gateway = delete_nat_gateway(self, nat_gateway_id)
        if gateway._eni.id in self.enis:
            gateway._eni.delete()
        return gateway

    def vpc_deleted(self: Any, vpc_id: str) -> Any:
        vpc = delete_vpc(self, vpc_id)
        for acl in [acl for acl in self.network_acls.values() if acl.vpc_id == vpc_id]:
            self.network_acls.pop(acl.id)
        return vpc

    def template_deleted(self: Any, *args: Any, **kwargs: Any) -> Any:
        answer = delete_launch_template(self, *args, **kwargs)
        self.launch_template_insert_order[:] = [
            one for one in self.launch_template_insert_order if one in self.launch_templates
        ]
        return answer

    EC2Backend.delete_nat_gateway = nat_deleted
    EC2Backend.delete_vpc = vpc_deleted
    EC2Backend.delete_launch_template = template_deleted


def _what_is_used_stays() -> None:
    """moto deletes groups and subnets under what uses them: interfaces, VPC endpoints.

    And of a subnet it keeps the association with the network's ACL.
    """
    delete_security_group, delete_subnet = EC2Backend._delete_security_group, EC2Backend.delete_subnet

    def group_deleted(self: Any, vpc_id: Any, group_id: str) -> None:
        endpoints = [one for one in self.vpc_end_points.values() if one.state not in ("deleting", "deleted")]
        used = any(group_id in one.security_group_ids for one in endpoints)
        used = used or any(group.id == group_id for eni in self.enis.values() for group in eni.group_set)
        if used:
            raise DependencyViolationError(f"resource {group_id} has a dependent object")
        delete_security_group(self, vpc_id, group_id)

    def subnet_deleted(self: Any, subnet_id: str) -> Any:
        if any(eni.subnet.id == subnet_id for eni in self.enis.values()):
            message = f"The subnet '{subnet_id}' has dependencies and cannot be deleted."
            raise DependencyViolationError(message)
        subnet = delete_subnet(self, subnet_id)
        for acl in self.network_acls.values():
            for key in [key for key, held in acl._associations.items() if held.subnet_id == subnet_id]:
                del acl._associations[key]
        return subnet

    EC2Backend._delete_security_group = group_deleted
    EC2Backend.delete_subnet = subnet_deleted


def _log_groups_change_their_key() -> None:
    """moto has neither AssociateKmsKey nor DisassociateKmsKey."""

    def associate(self: Any) -> str:
        self.logs_backend.groups[self._get_param("logGroupName")].kms_key_id = self._get_param("kmsKeyId")
        return "{}"

    LogsResponse.associate_kms_key = associate
    LogsResponse.disassociate_kms_key = associate


def _launch_templates_show_their_tags() -> None:
    """moto shows a launch template's tags as they were when it was made."""
    LaunchTemplate.tags = property(lambda self: self.get_tags(), lambda self, tags: None)


def _scaling_policies_keep_their_arn() -> None:
    """moto gives a scaling policy another ARN with every change."""
    put_scaling_policy = ApplicationAutoscalingBackend.put_scaling_policy

    def put(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(self.policies)
        policy = put_scaling_policy(self, *args, **kwargs)
        key = next(key for key, held in self.policies.items() if held is policy)
        if key in before:
            policy.policy_arn = before[key].policy_arn
        return policy

    ApplicationAutoscalingBackend.put_scaling_policy = put


_PROJECT_KEYS = (
    "description",
    "source",
    "artifacts",
    "cache",
    "environment",
    "serviceRole",
    "timeoutInMinutes",
    "queuedTimeoutInMinutes",
    "encryptionKey",
    "tags",
    "logsConfig",
)

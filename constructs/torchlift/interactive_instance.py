"""InteractiveInstance: a development box with the training machine's hardware; Session Manager, no open port."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from aws_cdk import Acknowledgment, Aws, Stack, Validations
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from settings.hardware import instance
from torchlift import permissions
from torchlift.content_hash import digest
from torchlift.idle_alarm import IdleAlarm
from torchlift.instance_access import InstanceAccess
from torchlift.job_data import TEMPORARY_PREFIX, JobInput
from torchlift.launch_template import Machine, check_user_data, launch_template_data
from torchlift.source_bundle import SourceBundle
from torchlift.staging import REPO_ROOT

USER_DATA = REPO_ROOT / "hosts" / "interactive" / "user_data.sh"
RESULTS_PREFIX = "boxes/"


class InteractiveInstance(Construct):
    """One EC2 instance that stays until the settings or the deployment go. Nothing runs on it by itself.

    Its command ``torchlift-train`` reads from an SSM parameter what the deployment trains at the time: new
    hyperparameters or code reach the box without touching it.

    Its launch template is named by a digest of the machine: only a change of the machine makes a new instance, never
    a tag or a new template version.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        deployment: str,
        workload: str,
        vpc: ec2.IVpc,
        subnet: ec2.ISubnet,
        machine: Machine,
        parameter_name: str,
        source: SourceBundle,
        image_uri: str,
        command: str,
        results: s3.IBucket,
        environment: Mapping[str, str] | None = None,
        log_group: logs.ILogGroup | None = None,
        inputs: Sequence[JobInput] = (),
        image_repository: ecr.IRepository | None = None,
        key: kms.IKey | None = None,
        idle_stop_minutes: int = 0,
        alarm_topic_arn: str,
    ) -> None:
        """Declare the instance.

        :param subnet: the private subnet (and so the zone) in which it lies
        :param parameter_name: SSM parameter that is made to say what ``torchlift-train`` runs
        :param source: must hold ``scripts/``, ``hosts/interactive/`` and the code of ``command``
        :param image_uri: the image, in ECR, in which ``command`` runs
        :param command: shell command, run in a folder with ``inputs/``, ``output/`` and ``checkpoints/``
        :param results: what was trained by hand goes to its ``boxes/<instance id>/<time>/``; ``key`` encrypts it
        :param log_group: where containers on it may log
        :param inputs: what a developer on it may read
        :param image_repository: images that may be pulled to it
        :param key: customer key of the inputs' bucket
        :param idle_stop_minutes: minutes without work after which it is stopped, 0 for never
        :param alarm_topic_arn: who is told that it is idle
        :raises ValueError: the machine asks for spot capacity, which would take the box away
        """
        super().__init__(scope, id)
        if machine.purchase == "spot":
            raise ValueError("an interactive instance cannot be a spot instance: its disk would go with it")
        stack = Stack.of(self)
        details = {"image": machine.image_id, **vars(machine), "subnet": stack.resolve(subnet.subnet_id)}
        inner = Construct(self, digest(details)[:8])
        access = InstanceAccess(inner, "Access", vpc=vpc)
        self.role: iam.Role = access.role
        if log_group is not None:
            permissions.write_logs(self.role, log_group=log_group)
        for item in inputs:
            item.grant_read(self.role)
        if key is not None:
            permissions.use_key(self.role, key=key, actions=["kms:Decrypt"])
        if image_repository is not None:
            permissions.pull_image(self.role, repository_arns=[image_repository.repository_arn])
        source.grant_read(self.role)
        for prefix in (RESULTS_PREFIX, f"{TEMPORARY_PREFIX}{RESULTS_PREFIX}"):
            permissions.write_prefix(self.role, bucket=results, prefix=prefix, key=key)
        variables = {
            "TORCHLIFT_HASH": source.content_hash,
            "TORCHLIFT_SOURCE": source.s3_url,
            "TORCHLIFT_IMAGE": image_uri,
            "TORCHLIFT_INPUTS": " ".join(item.entry for item in inputs),
            "TORCHLIFT_COMMAND": command,
            "TORCHLIFT_BOXES": f"s3://{results.bucket_name}/{RESULTS_PREFIX}",
            "AWS_REGION": Aws.REGION,
            "AWS_DEFAULT_REGION": Aws.REGION,
            **(environment or {}),
        }
        ssm.StringParameter(
            self,
            "Training",
            parameter_name=parameter_name,
            description="What torchlift-train runs on the development box",
            string_value=box_environment(variables),
        )
        permissions.allow(
            self.role,
            actions=["ssm:GetParameter"],
            # Not the parameter's own ARN: the box would have to wait for it, and it for what it names.
            resources=[f"arn:{Aws.PARTITION}:ssm:{Aws.REGION}:{Aws.ACCOUNT_ID}:parameter{parameter_name}"],
        )
        user_data = box_user_data(region=Aws.REGION, parameter_name=parameter_name)
        check_user_data(user_data)
        tags = {
            "Name": f"torchlift-{deployment}-{workload}-interactive",
            "torchlift:deployment": deployment,
            "torchlift:workload": workload,
        }
        template = ec2.CfnLaunchTemplate(
            inner,
            "Template",
            launch_template_data=launch_template_data(
                machine=machine,
                instance_profile_arn=access.profile.attr_arn,
                security_group_id=access.security_group.security_group_id,
                tags=tags,
                user_data=user_data,
                subnet_id=subnet.subnet_id,
            ),
        )
        # A new version would replace the instance, and with it the developer's disk.
        self.instance = ec2.CfnInstance(
            inner,
            "Instance",
            launch_template=ec2.CfnInstance.LaunchTemplateSpecificationProperty(
                launch_template_id=template.ref, version="1"
            ),
            monitoring=True,
        )
        Validations.of(self.instance).acknowledge(
            Acknowledgment(
                id="AwsSolutions::AwsSolutions-EC29",
                reason="The box goes when the settings say so: a protected instance would hold up the stack's update",
            )
        )
        self.instance.node.add_dependency(access)
        IdleAlarm(
            inner,
            "Idle",
            instance_id=self.instance.ref,
            vcpus=instance(machine.instance_type).vcpus,
            stop_minutes=idle_stop_minutes,
            topic_arn=alarm_topic_arn,
        )
        self.instance_id: str = self.instance.ref


def box_environment(variables: Mapping[str, str]) -> str:
    """Return lines that a shell reads back as the variables."""
    return "\n".join(f"{name}={shlex.quote(value)}" for name, value in sorted(variables.items()))


def box_user_data(*, region: str, parameter_name: str) -> str:
    """Return the boot script. Nothing in it changes with what is trained."""
    text = USER_DATA.read_text(encoding="utf-8")
    return text.replace("@REGION@", region).replace("@PARAMETER@", parameter_name)

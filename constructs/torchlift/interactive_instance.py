"""InteractiveInstance: a development box with the training machine's hardware; Session Manager, no open port."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Acknowledgment, Stack, Validations
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from torchlift import permissions
from torchlift.content_hash import digest
from torchlift.instance_access import InstanceAccess
from torchlift.job_data import JobInput
from torchlift.launch_template import Machine, launch_template_data


class InteractiveInstance(Construct):
    """One EC2 instance that stays until the settings or the deployment go. Nothing runs on it by itself.

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
        log_group: logs.ILogGroup | None = None,
        inputs: Sequence[JobInput] = (),
        image_repository: ecr.IRepository | None = None,
        key: kms.IKey | None = None,
    ) -> None:
        """Declare the instance.

        :param subnet: the private subnet (and so the zone) in which it lies
        :param log_group: where containers on it may log
        :param inputs: what a developer on it may read
        :param image_repository: images that may be pulled to it
        :param key: customer key of the inputs' bucket
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
        self.instance_id: str = self.instance.ref

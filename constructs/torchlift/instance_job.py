"""InstanceJob: work that one EC2 instance does once per content hash, then ends itself."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from aws_cdk import Acknowledgment, Aws, Duration, Validations
from aws_cdk import aws_autoscaling as autoscaling
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from constructs import Construct, IDependable

from torchlift import permissions
from torchlift.instance_access import InstanceAccess
from torchlift.job_data import TEMPORARY_PREFIX, JobInput, JobResult
from torchlift.job_scope import TAG_PREFIX, job_scope, suffix
from torchlift.job_services import JobServices
from torchlift.job_signal import JobSignal
from torchlift.launch_template import Machine, check_user_data, launch_template_data
from torchlift.source_bundle import SourceBundle
from torchlift.staging import REPO_ROOT

USER_DATA = REPO_ROOT / "hosts" / "instance_job" / "user_data.sh"
# One hour less than the wait condition lasts: finding capacity, booting and publishing take time too.
MAX_DEADLINE = Duration.hours(11)


class InstanceJob(Construct):
    """Launch template, Auto Scaling group 0..1 over all given zones, and the signal; done when the result exists.

    ``start_job`` raises the group's desired capacity from 0 to 1 unless the result is there. The group searches the
    zones for capacity and replaces a lost instance, which resumes from the last checkpoint in S3. The instance
    publishes, signals and terminates itself.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        services: JobServices,
        job: str,
        hash: str,
        result: JobResult,
        source: SourceBundle,
        image_uri: str,
        image_repository: ecr.IRepository | None = None,
        command: str,
        inputs: Sequence[JobInput],
        checkpoint_bucket: s3.IBucket,
        vpc: ec2.IVpc,
        subnets: Sequence[ec2.ISubnet],
        machine: Machine,
        deadline: Duration,
        log_group: logs.ILogGroup,
        key: kms.IKey | None = None,
        environment: Mapping[str, str] | None = None,
        after: Sequence[IDependable] = (),
    ) -> None:
        """Declare the job.

        :param job: tag value, such as ``sentiment-train``
        :param hash: 16 hexadecimal digits of :func:`torchlift.content_hash.job_hash`; part of ``result``
        :param source: must hold ``scripts/`` and ``hosts/instance_job/``
        :param image_uri: the image, in ECR, in which ``command`` runs
        :param image_repository: the image's repository, when ``image_uri`` is not literal
        :param command: shell command, run in the work folder (``inputs/``, ``output/``, ``checkpoints/``)
        :param checkpoint_bucket: checkpoints go to ``checkpoints/<job>/<hash>/``; ``key`` encrypts this bucket
        :param subnets: private subnets, one a zone: every zone in which capacity may be looked for
        :param deadline: at most 11 hours, counted from the first start, over all attempts
        :param after: jobs whose results are inputs (their ``done``)
        :raises ValueError: an argument is outside its bounds
        """
        super().__init__(scope, id)
        if not 5 <= deadline.to_minutes() <= MAX_DEADLINE.to_minutes():
            raise ValueError(f"{job}: a deadline is 5 minutes to 11 hours, not {deadline.to_minutes()} minutes")
        if not subnets:
            raise ValueError(f"{job}: no subnet to launch in")
        _require_files(source, job)
        checkpoints = f"checkpoints/{job}/{hash}/"
        variables = {
            "TORCHLIFT_JOB": job,
            "TORCHLIFT_HASH": hash,
            "TORCHLIFT_DEPLOYMENT": services.deployment,
            **result.variables,
            "TORCHLIFT_INPUTS": " ".join(item.entry for item in inputs),
            "TORCHLIFT_COMMAND": command,
            "TORCHLIFT_SOURCE": source.s3_url,
            "TORCHLIFT_IMAGE": image_uri,
            "TORCHLIFT_CHECKPOINTS": f"s3://{checkpoint_bucket.bucket_name}/{checkpoints}",
            "TORCHLIFT_DEADLINE_SECONDS": str(deadline.to_seconds()),
            "TORCHLIFT_INSTANCE_TYPE": machine.instance_type,
            "TORCHLIFT_ROOT_GIB": str(machine.root_volume_gib),
            "TORCHLIFT_LOG_GROUP": log_group.log_group_name,
            "AWS_REGION": Aws.REGION,
            "AWS_DEFAULT_REGION": Aws.REGION,
            **(environment or {}),
        }
        subnet_ids = [subnet.subnet_id for subnet in subnets]
        details = {
            "machine": {"image": machine.image_id, **vars(machine)},
            "subnets": subnet_ids,
            "vpc": vpc.vpc_id,
            "user_data": render_user_data(variables),
            "key": key.key_arn if key else "",
        }
        inner = job_scope(self, job=job, hash=hash, workload=services.workload, details=details)
        signal = JobSignal(inner, "Signal", services=services, job=job, result=result)

        self.result_uri: str = result.uri
        # A fixed name, unique by its hash: the instance must know the group that it ends itself in, and a reference
        # from the launch template to the group that uses it would be a cycle.
        self.group_name: str = f"torchlift-{services.deployment}-{job}-{suffix(inner)}"
        group_arn = (
            f"arn:{Aws.PARTITION}:autoscaling:{Aws.REGION}:{Aws.ACCOUNT_ID}"
            f":autoScalingGroup:*:autoScalingGroupName/{self.group_name}"
        )
        access = InstanceAccess(inner, "Access", vpc=vpc)
        self.role: iam.Role = access.role
        self.security_group = access.security_group
        permissions.write_logs(self.role, log_group=log_group)
        source.grant_read(self.role)
        result.grant_publish(self.role)
        for item in inputs:
            item.grant_read(self.role)
        for prefix in (checkpoints, f"{TEMPORARY_PREFIX}{checkpoints}"):
            permissions.write_prefix(self.role, bucket=checkpoint_bucket, prefix=prefix, key=key)
        permissions.pull_image(self.role, repository_arns=[permissions.repository_arn(image_uri, image_repository)])
        permissions.allow(
            self.role,
            actions=["autoscaling:TerminateInstanceInAutoScalingGroup"],
            resources=[group_arn],
            why=permissions.GROUP_ID,
        )

        user_data = render_user_data({**variables, "TORCHLIFT_GROUP": self.group_name, "TORCHLIFT_HANDLE": signal.url})
        check_user_data(user_data)
        tags = {
            "Name": self.group_name,
            f"{TAG_PREFIX}deployment": services.deployment,
            f"{TAG_PREFIX}job": job,
            f"{TAG_PREFIX}workload": services.workload,
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
            ),
        )
        # No DesiredCapacity: CloudFormation would set it back on every update. The first version for ever: a change
        # makes a new template, and a rolled-back version must not start anything.
        self.group = autoscaling.CfnAutoScalingGroup(
            inner,
            "Group",
            auto_scaling_group_name=self.group_name,
            min_size="0",
            max_size="1",
            vpc_zone_identifier=subnet_ids,
            launch_template=autoscaling.CfnAutoScalingGroup.LaunchTemplateSpecificationProperty(
                launch_template_id=template.ref, version="1"
            ),
            # No capacity rebalancing: a mere recommendation would end a healthy instance, and three of them the job.
            health_check_type="EC2",
            # Big machines boot slowly, and must not be replaced for that.
            health_check_grace_period=900,
            tags=[
                autoscaling.CfnAutoScalingGroup.TagPropertyProperty(
                    key=f"{TAG_PREFIX}deployment", value=services.deployment, propagate_at_launch=True
                )
            ],
        )
        # It goes with its instance, which sends its log until then: so before the role's permissions.
        self.group.node.add_dependency(access)
        Validations.of(self.group).acknowledge(
            Acknowledgment(
                id="AwsSolutions::AwsSolutions-AS3",
                reason="A rule of EventBridge hands every failed launch and every end of an instance to signal_job, "
                "which tells the stack, and people when the job failed",
            )
        )
        services.allow_group(group_arn=group_arn, result=result)
        self.done: IDependable = signal.run(
            event_pattern={
                "source": ["aws.autoscaling"],
                "detail-type": ["EC2 Instance Terminate Successful", "EC2 Instance Launch Unsuccessful"],
                "detail": {"AutoScalingGroupName": [self.group_name]},
            },
            group=self.group_name,
            properties={"Kind": "instance", "GroupName": self.group.ref},
            after=[access, template, self.group, *after],
        )


def render_user_data(variables: Mapping[str, str]) -> str:
    """Return the boot script with the job's environment in it, quoted for the shell."""
    lines = "\n".join(f"{name}={shlex.quote(value)}" for name, value in sorted(variables.items()))
    template = USER_DATA.read_text(encoding="utf-8")
    return template.replace("@JOB_ENVIRONMENT@", lines)


def _require_files(source: SourceBundle, job: str) -> None:
    needed = ["scripts/run_job.sh", "hosts/instance_job/run.sh", "hosts/instance_job/torchlift-job.service"]
    missing = [name for name in needed if name not in source.paths]
    if missing:
        raise ValueError(f"{job}: the source bundle lacks {', '.join(missing)}")

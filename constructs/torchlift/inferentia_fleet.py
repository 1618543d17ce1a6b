"""InferentiaFleet: Inf2 hosts behind a load balancer, replaced one by one when anything of them changes."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import (
    Acknowledgment,
    Aws,
    CfnAutoScalingRollingUpdate,
    CfnCreationPolicy,
    CfnResourceSignal,
    CfnUpdatePolicy,
    Duration,
    Stack,
    Validations,
)
from aws_cdk import aws_autoscaling as autoscaling
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from constructs import Construct, IDependable

from torchlift import permissions
from torchlift.content_hash import HASH_LENGTH, digest
from torchlift.fleet_alarms import FleetAlarms
from torchlift.fleet_load_balancer import CHECK_SECONDS, CHECKS_UP, FleetLoadBalancer
from torchlift.fleet_metrics import WatchedFleet
from torchlift.fleet_scaling import FleetScaling
from torchlift.instance_access import InstanceAccess
from torchlift.job_data import JobResult
from torchlift.job_scope import TAG_PREFIX
from torchlift.launch_template import Machine, check_user_data, launch_template_data
from torchlift.source_bundle import SourceBundle
from torchlift.staging import REPO_ROOT

USER_DATA = REPO_ROOT / "hosts" / "inferentia" / "user_data.sh"
HOST_DEADLINE = Duration.minutes(25)
"""A host gives up when it has not answered by then: pulling some 10 GB, loading every shape, and a second try."""
SIGNAL_WAIT = Duration.minutes(35)
"""How long the stack waits for each host: the deadline, finding capacity and booting. An hour at most."""
SETTLE_SECONDS = 2 * CHECKS_UP * CHECK_SECONDS
"""Between a host's first answer and its signal: the load balancer must know it before the next old host goes."""
NOT_DURING_UPDATES = ("AZRebalance", "AlarmNotification", "HealthCheck", "ReplaceUnhealthy", "ScheduledActions")
"""What would launch and end instances while CloudFormation counts them (AWS re:Post, "rolling update … fails")."""


@dataclass(frozen=True, kw_only=True)
class FleetSize:
    """How many hosts, and when there are more.

    :param maximum: more than `minimum`: an update starts a new host before it ends an old one
    :param requests_per_instance: per minute, the scaling target
    :param cpu_target_percent: of all vCPUs, the scaling target
    :param warm_up_seconds: until a new host counts
    """

    minimum: int
    maximum: int
    requests_per_instance: int
    cpu_target_percent: int
    warm_up_seconds: int

    def __post_init__(self) -> None:
        if not 1 <= self.minimum < self.maximum:
            raise ValueError(
                f"{self.minimum} to {self.maximum} hosts: an update needs one more than the fewest, which are 1 or more"
            )


@dataclass(frozen=True, kw_only=True)
class HostImages:
    """What a host runs, each an image in ECR."""

    serving: JobResult
    nginx: JobResult
    monitor: JobResult

    @property
    def all(self) -> tuple[JobResult, ...]:
        """The three."""
        return (self.serving, self.nginx, self.monitor)


class InferentiaFleet(Construct):
    """Launch template, Auto Scaling group, load balancer, scaling and alarms.

    A host signals after every core of it answered a question through its proxy. Creation and every update wait for
    that, so a bad image or model fails the deployment, and the old hosts go on.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        deployment: str,
        workload: str,
        job: str,
        size: FleetSize,
        machine: Machine,
        cores: int,
        cores_per_device: int,
        core_memory_mib: int,
        images: HostImages,
        source: SourceBundle,
        models: tuple[s3.IBucket, str],
        readable: Sequence[str],
        server: Mapping[str, str],
        token_secret_arn: str | None,
        vpc: ec2.IVpc,
        cidr: str,
        subnets: Sequence[ec2.ISubnet],
        balancer_subnets: Sequence[ec2.ISubnet],
        certificate_arn: str | None,
        latency_p99_ms: int,
        server_error_percent: int,
        log_group: logs.ILogGroup,
        alarm_topic_arn: str,
        key: kms.IKey,
        after: Sequence[IDependable] = (),
    ) -> None:
        """Declare the fleet.

        :param job: value of the tag `torchlift:job` of group and hosts
        :param cores: NeuronCores that each host serves on
        :param core_memory_mib: device memory of one core, MiB
        :param source: must hold `scripts/` and `hosts/inferentia/`
        :param models: bucket and key of the list of models that the servers follow; `key` encrypts the bucket
        :param readable: prefixes of that bucket from which models may come
        :param server: settings of the servers, `TORCHLIFT_<NAME>` (model_code/serving/settings.py)
        :param token_secret_arn: a secret with the token that requests must bring
        :param subnets: the hosts'; `balancer_subnets`: the load balancer's, in two zones or more
        :param latency_p99_ms: milliseconds from which on an alarm speaks
        :param server_error_percent: share of requests answered 5XX from which on an alarm speaks
        :param after: what must exist before the hosts: the jobs that make images and models
        :raises ValueError: the user data is too long, or the bundle lacks the hosts' files
        """
        super().__init__(scope, id)
        if "hosts/inferentia/fleet.sh" not in source.paths:
            raise ValueError(f"{job}: the source bundle lacks hosts/inferentia/")
        bucket, models_key = models
        # Fixed: alarms and people know it, and no property of a group needs another one in its place.
        self.group_name = f"torchlift-{deployment}-{workload}"
        # The hosts signal by it, and a reference from their user data to the group would be a cycle.
        self.resource = f"{id}Group"
        self.access = InstanceAccess(
            self, "Access", vpc=vpc, description="Hosts of question answering: HTTPS out, from the load balancer in"
        )
        self._grant(
            images=images,
            source=source,
            bucket=bucket,
            # Of every list: while an update replaces hosts, the old ones read the list of before.
            prefixes=[models_key.rpartition("/")[0].rpartition("/")[0] + "/", *readable],
            token_secret_arn=token_secret_arn,
            log_group=log_group,
            key=key,
        )
        self.balancer = FleetLoadBalancer(
            self,
            "LoadBalancer",
            vpc=vpc,
            cidr=cidr,
            subnets=balancer_subnets,
            hosts=self.access.security_group,
            certificate_arn=certificate_arn,
        )
        variables = {
            **server,
            "TORCHLIFT_DEPLOYMENT": deployment,
            "TORCHLIFT_SOURCE": source.s3_url,
            "TORCHLIFT_SERVING_IMAGE": images.serving.image_uri,
            "TORCHLIFT_NGINX_IMAGE": images.nginx.image_uri,
            "TORCHLIFT_MONITOR_IMAGE": images.monitor.image_uri,
            "TORCHLIFT_CORES": str(cores),
            "TORCHLIFT_CORES_PER_DEVICE": str(cores_per_device),
            "TORCHLIFT_MODELS": f"s3://{bucket.bucket_name}/{models_key}",
            "TORCHLIFT_LOG_GROUP": log_group.log_group_name,
            "TORCHLIFT_STACK": Stack.of(self).stack_name,
            "TORCHLIFT_RESOURCE": self.resource,
            "TORCHLIFT_ROOT_GIB": str(machine.root_volume_gib),
            "TORCHLIFT_DEADLINE_SECONDS": str(HOST_DEADLINE.to_seconds()),
            "TORCHLIFT_SETTLE_SECONDS": str(SETTLE_SECONDS),
            "AWS_REGION": Aws.REGION,
            **({"TORCHLIFT_TOKEN_SECRET": token_secret_arn} if token_secret_arn else {}),
        }
        tags = {
            "Name": self.group_name,
            f"{TAG_PREFIX}deployment": deployment,
            f"{TAG_PREFIX}job": job,
            f"{TAG_PREFIX}workload": workload,
        }
        template = self._build_template(machine, render_user_data(variables), tags)
        self.group = self._build_group(size, template, tags, subnets, spot=machine.purchase == "spot")
        # Hosts send logs until their end, and the load balancer must see them before they signal.
        self.group.node.add_dependency(self.access, self.balancer, *after)
        self.watched = WatchedFleet(
            deployment=deployment,
            prefix=self.group_name,
            group_name=self.group_name,
            balancer=self.balancer.balancer.attr_load_balancer_full_name,
            targets=self.balancer.targets.attr_target_group_full_name,
            cores=cores,
            core_memory_mib=core_memory_mib,
            minimum=size.minimum,
            maximum=size.maximum,
            requests_per_instance=size.requests_per_instance,
            cpu_target_percent=size.cpu_target_percent,
            latency_p99_ms=latency_p99_ms,
            server_error_percent=server_error_percent,
        )
        alarms = FleetAlarms(self, "Alarms", fleet=self.watched, topic_arn=alarm_topic_arn)
        self.alarms = alarms.alarms
        scaling = FleetScaling(self, "Scaling", fleet=self.watched, warm_up_seconds=size.warm_up_seconds)
        # Silence is an alarm, and before the first host there is nothing to hear.
        for later in (alarms, scaling):
            later.node.add_dependency(self.group)

    @property
    def role(self) -> iam.Role:
        """The hosts' role."""
        return self.access.role

    def _grant(
        self,
        *,
        images: HostImages,
        source: SourceBundle,
        bucket: s3.IBucket,
        prefixes: Sequence[str],
        token_secret_arn: str | None,
        log_group: logs.ILogGroup,
        key: kms.IKey,
    ) -> None:
        role = self.access.role
        source.grant_read(role)
        permissions.pull_image(
            role, repository_arns=[one.repository.repository_arn for one in images.all if one.repository]
        )
        for prefix in prefixes:
            permissions.read_prefix(role, bucket=bucket, prefix=prefix, key=key)
        # Metrics are lines of the log (the embedded metric format), so nothing else is needed for them.
        permissions.write_logs(role, log_group=log_group)
        permissions.allow(role, actions=["cloudformation:SignalResource"], resources=[Stack.of(self).stack_id])
        if token_secret_arn:
            permissions.allow(role, actions=["secretsmanager:GetSecretValue"], resources=[token_secret_arn])

    def _build_template(self, machine: Machine, user_data: str, tags: Mapping[str, str]) -> ec2.CfnLaunchTemplate:
        """A template for each content, never a version: a rollback finds the old template as it was, while a version
        that was made stays the latest, and would start the rolled-back hosts anew with some later update."""
        check_user_data(user_data)
        details = {
            "machine": {"image": machine.image_id, **vars(machine)},
            "user_data": user_data,
            "tags": dict(tags),
            "profile": self.access.profile.ref,
            "group": self.access.security_group.security_group_id,
        }
        hash = digest(Stack.of(self).resolve(details))[:HASH_LENGTH]
        return ec2.CfnLaunchTemplate(
            self,
            f"Template{hash}",
            launch_template_data=launch_template_data(
                machine=machine,
                instance_profile_arn=self.access.profile.attr_arn,
                security_group_id=self.access.security_group.security_group_id,
                tags=tags,
                user_data=user_data,
            ),
        )

    def _build_group(
        self,
        size: FleetSize,
        template: ec2.CfnLaunchTemplate,
        tags: Mapping[str, str],
        subnets: Sequence[ec2.ISubnet],
        *,
        spot: bool,
    ) -> autoscaling.CfnAutoScalingGroup:
        kind = autoscaling.CfnAutoScalingGroup
        group = kind(
            self,
            "Group",
            auto_scaling_group_name=self.group_name,
            # No DesiredCapacity: CloudFormation would set a group that scaled out back to it with every update.
            min_size=str(size.minimum),
            max_size=str(size.maximum),
            vpc_zone_identifier=[subnet.subnet_id for subnet in subnets],
            launch_template=kind.LaunchTemplateSpecificationProperty(launch_template_id=template.ref, version="1"),
            target_group_arns=[self.balancer.targets.ref],
            health_check_type="ELB",
            # A host that starts must not be replaced for not answering yet.
            health_check_grace_period=HOST_DEADLINE.to_seconds(),
            default_instance_warmup=size.warm_up_seconds,
            # A Spot host whose end is likely gets its successor before it goes.
            capacity_rebalance=True if spot else None,
            metrics_collection=[kind.MetricsCollectionProperty(granularity="1Minute")],
            tags=[
                kind.TagPropertyProperty(key=name, value=value, propagate_at_launch=False)
                for name, value in sorted(tags.items())
            ],
        )
        group.override_logical_id(self.resource)
        wait = SIGNAL_WAIT.to_iso_string()
        group.cfn_options.creation_policy = CfnCreationPolicy(
            resource_signal=CfnResourceSignal(count=size.minimum, timeout=wait)
        )
        group.cfn_options.update_policy = CfnUpdatePolicy(
            auto_scaling_rolling_update=CfnAutoScalingRollingUpdate(
                max_batch_size=1,
                # CloudFormation's own default is 0: the only host would end before the new one starts.
                min_instances_in_service=size.minimum,
                wait_on_resource_signals=True,
                pause_time=wait,
                suspend_processes=list(NOT_DURING_UPDATES),
            )
        )
        Validations.of(group).acknowledge(
            Acknowledgment(
                id="AwsSolutions::AwsSolutions-AS3",
                reason="Alarms tell of too few hosts, of hosts that do not answer and of hosts that failed to start; "
                "a mail for every instance that scaling starts or ends would hide them",
            )
        )
        return group


def render_user_data(variables: Mapping[str, str]) -> str:
    """Return the boot script with the fleet's environment in it, quoted for the shell."""
    lines = "\n".join(f"{name}={shlex.quote(value)}" for name, value in sorted(variables.items()))
    return USER_DATA.read_text(encoding="utf-8").replace("@FLEET_ENVIRONMENT@", lines)

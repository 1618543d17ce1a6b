"""InferentiaFleet: Inf2 hosts behind a load balancer, replaced one by one when anything of them changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import Aws, Duration, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from constructs import Construct, IDependable

from torchlift import permissions
from torchlift.fleet_alarms import FleetAlarms
from torchlift.fleet_group import FleetSize, fleet_group
from torchlift.fleet_load_balancer import CHECK_SECONDS, CHECKS_UP, FleetLoadBalancer
from torchlift.fleet_metrics import WatchedFleet
from torchlift.fleet_scaling import FleetScaling
from torchlift.fleet_template import fleet_template
from torchlift.instance_access import InstanceAccess
from torchlift.job_data import JobResult
from torchlift.job_scope import TAG_PREFIX
from torchlift.launch_template import Machine
from torchlift.source_bundle import SourceBundle

HOST_DEADLINE = Duration.minutes(25)
"""A host gives up when it has not answered by then: pulling some 10 GB, loading every shape, and a second try."""
SETTLE_SECONDS = 2 * CHECKS_UP * CHECK_SECONDS
"""Between a host's first answer and its signal: the load balancer must know it before the next old host goes."""


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
        self.group = fleet_group(
            self,
            name=self.group_name,
            resource=self.resource,
            size=size,
            template=fleet_template(self, machine=machine, variables=variables, tags=tags, access=self.access),
            tags=tags,
            subnets=subnets,
            target_group_arn=self.balancer.targets.ref,
            grace=HOST_DEADLINE,
            spot=machine.purchase == "spot",
        )
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

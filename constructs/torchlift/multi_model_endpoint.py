"""MultiModelEndpoint: any number of models behind one endpoint of Triton on GPUs, or one that is always loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, Unpack

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct, IDependable

from torchlift.endpoint_update import UpdatePolicy
from torchlift.endpoint_variants import Fleet, ManyModels, ServingImage, Variant
from torchlift.sagemaker_endpoint import SageMakerEndpoint

MIB = 2**20


class Placement(TypedDict):
    """What :class:`SageMakerEndpoint` takes besides; it says what each is."""

    endpoint_name: str
    image: ServingImage
    update: UpdatePolicy
    vpc_subnets: Sequence[ec2.ISubnet]
    security_group: ec2.ISecurityGroup
    key: kms.IKey
    log_group: logs.LogGroup
    log_groups: str
    latency_p99_ms: int
    client_error_percent: int
    alarm_topic_arn: str
    lasting: Construct
    log_retention: logs.RetentionDays
    after: Sequence[IDependable]


class MultiModelEndpoint(SageMakerEndpoint):
    """One variant of Triton. SageMaker loads an archive below the prefix when a request names it (TargetModel), and
    unloads the least recently used one when memory runs out: a model comes and goes by an upload, not by a deployment.

    Types with GPUs have local disks that encrypt in hardware: SageMaker refuses a key for them. Requests cannot be
    captured: SageMaker refuses that for many models.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        variant: str,
        models: str,
        fleet: Fleet,
        many: ManyModels | None,
        log_verbose: bool,
        shared_memory_mib: int,
        **placement: Unpack[Placement],
    ) -> None:
        """Declare everything that a SageMakerEndpoint has.

        :param variant: its name
        :param models: in the image's bucket: with `many` the archives' prefix, else the one archive `<name>.tar.gz`
        :param many: None for a single model
        :param log_verbose: Triton logs every request
        :param shared_memory_mib: with which Triton's Python backend starts; engines use none of it
        """
        environment = triton_environment(log_verbose=log_verbose, shared_memory_mib=shared_memory_mib)
        if many is None:
            name = models.rpartition("/")[2].removesuffix(".tar.gz")
            environment["SAGEMAKER_TRITON_DEFAULT_MODEL_NAME"] = name
        super().__init__(
            scope,
            id,
            variants=[Variant(name=variant, path=models, environment=environment, fleet=fleet, many=many)],
            volume_key=None,
            **placement,
        )


def triton_environment(*, log_verbose: bool, shared_memory_mib: int) -> dict[str, str]:
    """Variables that the Triton container's own `serve` turns into flags of tritonserver.

    `SAGEMAKER_MULTI_MODEL` is SageMaker's to set. The container's default is to log every request.
    """
    return {
        "SAGEMAKER_TRITON_LOG_INFO": "true",
        "SAGEMAKER_TRITON_LOG_VERBOSE": str(log_verbose).lower(),
        "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": str(shared_memory_mib * MIB),
    }

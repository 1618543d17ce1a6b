"""A small app with one job of each kind, to test the constructs without the product's stacks."""

from __future__ import annotations

from dataclasses import dataclass, field

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3

from torchlift.build_job import BuildJob
from torchlift.content_hash import job_hash
from torchlift.image_job import ImageJob
from torchlift.instance_job import InstanceJob
from torchlift.interactive_instance import InteractiveInstance
from torchlift.job_data import JobInput, JobResult
from torchlift.job_services import JobServices
from torchlift.launch_template import Machine
from torchlift.source_bundle import SourceBundle

BASE_IMAGE = "763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.9.0-gpu"
ZONES = ("us-west-2a", "us-west-2b", "us-west-2c")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the tests vary."""

    owner: str = "team"
    retention: logs.RetentionDays = logs.RetentionDays.ONE_WEEK
    learning_rate: float = 1e-5
    base_model: str = "hf://roberta-base@e2da8e2f811d1448a5b465c236feacd80ffbac7b"
    compute_type: str = "BUILD_GENERAL1_SMALL"
    alarm: bool = False
    key: bool = True
    machine: Machine = field(
        default_factory=lambda: Machine(
            instance_type="p4d.24xlarge",
            root_volume_gib=200,
            ami_parameter="/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-al2023/latest/ami-id",
        )
    )
    deadline_minutes: int = 600
    zones: tuple[str, ...] = ZONES
    interactive: bool = False
    paths: tuple[str, ...] = ("scripts", "hosts/instance_job")


def build(options: Options | None = None) -> cdk.Stack:
    """Return a stack with a mirror (build), an image (build) and a training (instance) job."""
    options = options or Options()
    app = cdk.App(context={"@aws-cdk/core:enablePartitionLiterals": True})
    stack = cdk.Stack(app, "Fixture", env=cdk.Environment(region="us-west-2"))
    cdk.Tags.of(app).add("owner", options.owner)
    cdk.Tags.of(stack).add("torchlift:deployment", "test")
    key = kms.Key(stack, "Key") if options.key else None
    bucket = s3.Bucket(stack, "Bucket", encryption_key=key)
    repository = ecr.Repository(stack, "Repository")
    vpc = ec2.Vpc.from_vpc_attributes(
        stack, "Vpc", vpc_id="vpc-1", availability_zones=list(options.zones), vpc_cidr_block="10.0.0.0/16"
    )
    subnets = [
        ec2.Subnet.from_subnet_attributes(stack, f"Subnet{i}", subnet_id=f"subnet-{i}", availability_zone=zone)
        for i, zone in enumerate(options.zones)
    ]
    log_group = logs.LogGroup(stack, "JobLogs", retention=options.retention)
    services = JobServices(
        stack,
        "Jobs",
        deployment="test",
        workload="sentiment",
        log_retention=options.retention,
        alarm_topic_arn="arn:aws:sns:us-west-2:123456789012:alarms",
        key=key,
    )
    source = SourceBundle(stack, "Source", paths=options.paths)

    mirror_hash = job_hash(
        job="hub-mirror", bundle_hash=source.content_hash, parameters={"base_model": options.base_model}
    )
    mirrored = JobResult.in_s3(bucket=bucket, prefix=f"inputs/{mirror_hash}/", key=key)
    mirror = BuildJob(
        stack,
        "HubMirror",
        services=services,
        job="hub-mirror",
        hash=mirror_hash,
        result=mirrored,
        source=source,
        command="python3 -m model_code.hub_mirror --output output",
        install=["python3 -m pip install huggingface_hub==1.0.0"],
        compute_type=options.compute_type,
        log_group=log_group,
        key=key,
    )
    image_hash = job_hash(job="sentiment-image", bundle_hash=source.content_hash, parameters={}, image=BASE_IMAGE)
    image = JobResult.in_ecr(repository=repository, tag=image_hash)
    image_job = ImageJob(
        stack,
        "SentimentImage",
        services=services,
        job="sentiment-image",
        hash=image_hash,
        result=image,
        source=source,
        base_image=BASE_IMAGE,
        image_dir="containers/sentiment-training",
        architecture="x86_64",
        log_group=log_group,
        key=key,
    )
    train_hash = job_hash(
        job="sentiment-train",
        bundle_hash=source.content_hash,
        image=image_hash,
        parameters={"inputs": mirror_hash, "learning_rate": options.learning_rate},
    )
    train = InstanceJob(
        stack,
        "SentimentTrain",
        services=services,
        job="sentiment-train",
        hash=train_hash,
        result=JobResult.in_s3(bucket=bucket, prefix=f"weights/sentiment/{train_hash}/", key=key),
        source=source,
        image_uri=image.image_uri,
        image_repository=repository,
        command=f"python -m model_code.sentiment.train --learning-rate {options.learning_rate}",
        inputs=[JobInput.from_result(name="mirror", result=mirrored)],
        checkpoint_bucket=bucket,
        vpc=vpc,
        subnets=subnets,
        machine=options.machine,
        deadline=cdk.Duration.minutes(options.deadline_minutes),
        log_group=log_group,
        key=key,
        after=[mirror.done, image_job.done],
    )
    if options.interactive:
        InteractiveInstance(
            stack,
            "Box",
            deployment="test",
            workload="sentiment",
            vpc=vpc,
            subnet=subnets[0],
            machine=options.machine,
            parameter_name="/torchlift/test/sentiment/box",
            source=SourceBundle(stack, "BoxSource", paths=["scripts", "hosts/interactive"]),
            image_uri=BASE_IMAGE,
            command="python -m model_code.sentiment.train",
            results=bucket,
            alarm_topic_arn="arn:aws:sns:us-west-2:123456789012:alarms",
        )
    if options.alarm:
        cdk.aws_cloudwatch.Alarm(
            stack,
            "Alarm",
            metric=cdk.aws_cloudwatch.Metric(namespace="N", metric_name="M"),
            threshold=1,
            evaluation_periods=1,
        )
    cdk.CfnOutput(stack, "Weights", value=train.result_uri)
    return stack

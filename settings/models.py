"""The settings of one deployment, frozen. Each field's description says what is right; errors and docs quote it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from settings.endpoint_models import MOST_CHALLENGERS, Challenger, DataCapture, EndpointUpdate
from settings.question_answering_models import QuestionAnswering
from settings.section import AwsId, Fraction, PositiveInt, Section, Version
from settings.sources import Source, parse_source
from settings.text_encoding_models import TextEncoding

SCHEMA_VERSION = 1
MAX_DEADLINE_MINUTES = 660
"""11 hours: a wait condition ends after 12 at most (43,200 s), and the signal must come before that."""
GPU_AMI_GIB = 200
"""The GPU Deep Learning AMIs plus a training container need at least this much root volume."""


class Deployment(Section):
    """Who and where."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,19}$", description="lower-case letters, digits and hyphens, 1 to 20")
    region: str = Field(description="a region of settings/regions.py, such as us-west-2")
    account: str | None = Field(
        default=None, pattern=r"^[0-9]{12}$", description="the 12 digits of an account id, quoted"
    )
    ephemeral: bool = Field(description="true: destroy deletes data too; false: data stays")
    owner: str = Field(
        min_length=1, max_length=128, pattern=r"^[\w .:/=+@-]+$", description="a team or mail address, as a tag"
    )


class ExistingVpc(Section):
    """A network of yours, by ids: Torchlift looks nothing up."""

    vpc_id: AwsId = Field(description="such as vpc-0123456789abcdef0")
    cidr: str = Field(pattern=r"^[0-9.]+/[0-9]{1,2}$", description="the VPC's address range, such as 10.0.0.0/16")
    private_subnet_ids: tuple[AwsId, ...] = Field(
        min_length=2, description="one private subnet per zone, in the order of `zones`"
    )


class Network(Section):
    """Where instances and endpoints live."""

    egress: Literal["nat", "endpoints"] = Field(
        description='"nat" (one NAT gateway) or "endpoints" (interface endpoints, no way out)'
    )
    zones: tuple[str, ...] = Field(min_length=2, description="two or more zones of the region, such as us-west-2a")
    cidr: str = Field(
        default="10.42.0.0/16",
        pattern=r"^[0-9.]+/[0-9]{1,2}$",
        description="address range of the VPC that Torchlift makes",
    )
    existing_vpc: ExistingVpc | None = Field(
        default=None, description="a [network.existing_vpc] section instead of a new VPC"
    )


class Logs(Section):
    """How long logs are kept."""

    retention_days: int = Field(description="a retention that CloudWatch Logs knows: 1, 3, 5, 7, 14, 30, 60, 90, ...")


class Budget(Section):
    """A budget over the whole account; per-tag budgets show nothing until the tag is activated for billing."""

    monthly_usd: PositiveInt | None = Field(default=None, description="whole US dollars a month, 1 or more")
    email: str | None = Field(default=None, pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$", description="a mail address")


class Alarms(Section):
    """Where alarms go."""

    email: str | None = Field(
        default=None,
        pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$",
        description="a mail address; it must confirm the subscription",
    )


class Training(Section):
    """Fine-tuning the sentiment model."""

    mode: Literal["job", "interactive", "skip"] = Field(
        description='"job" (train and end), "interactive" (a development box besides) or "skip" (bring weights)'
    )
    instance_type: str = Field(default="p4d.24xlarge", description="an EC2 type with NVIDIA GPUs, such as p4d.24xlarge")
    zones: tuple[str, ...] | None = Field(
        default=None, min_length=1, description="some of network.zones; default: all of them; one with a reservation"
    )
    purchase: Literal["on-demand", "spot", "capacity-block"] = Field(
        default="on-demand", description='"on-demand", "spot" or "capacity-block"'
    )
    capacity_reservation_id: str | None = Field(
        default=None, pattern=r"^cr-[0-9a-f]{8,17}$", description="such as cr-0123456789abcdef0"
    )
    ami_id: str | None = Field(
        default=None, pattern=r"^ami-[0-9a-f]{8,17}$", description="a pinned image, such as ami-0123456789abcdef0"
    )
    ami_parameter: str | None = Field(
        default=None, pattern=r"^/aws/service/[\w./-]+$", description="a public SSM parameter that names an AMI"
    )
    root_volume_gib: int = Field(
        default=GPU_AMI_GIB, ge=8, le=16384, description="GiB of the encrypted gp3 root volume"
    )
    deadline_minutes: int = Field(
        default=600, ge=5, description=f"minutes until the job gives up, 5 to {MAX_DEADLINE_MINUTES}"
    )
    idle_stop_minutes: int = Field(
        default=120,
        ge=0,
        le=1440,
        multiple_of=5,
        description="minutes without work after which the development box is stopped, "
        "0 (never) or a multiple of 5 up to 1440",
    )
    base_model: str | None = Field(
        default=None, description="hf://owner/name@revision, s3://bucket/prefix/ or a local folder"
    )
    data: str | None = Field(
        default=None, description="hf://owner/name/config@revision, s3://bucket/prefix/ or a local folder"
    )
    weights_uri: str | None = Field(
        default=None,
        pattern=r"^s3://[a-z0-9.-]{3,63}/.+/$",
        description="s3://bucket/prefix/ (with the last slash) of the weights, in mode skip",
    )
    epochs: PositiveInt = Field(default=10, description="whole number of passes over the data, 1 or more")
    learning_rate: float = Field(default=1e-5, gt=0, le=1, description="greater than 0, such as 1e-5")
    batch_size: PositiveInt = Field(default=16, description="texts per step and GPU, 1 or more")
    max_length: int = Field(default=128, ge=8, le=512, description="tokens kept of a text, 8 to 512")
    weight_decay: Fraction = Field(default=0.01, description="0 to 1")
    warmup_ratio: Fraction = Field(default=0.06, description="share of the steps, 0 to 1")
    seed: int = Field(default=42, ge=0, le=2**31 - 1, description="a whole number, 0 or more")
    torch_compile: bool = Field(default=True, description="true or false")
    bf16: bool = Field(default=True, description="true or false")
    fused_adamw: bool = Field(default=True, description="true or false")

    @property
    def base_model_source(self) -> Source:
        """Where the base model comes from."""
        assert self.base_model is not None
        return parse_source(self.base_model)

    @property
    def data_source(self) -> Source:
        """Where the labelled texts come from."""
        assert self.data is not None
        return parse_source(self.data)


MOST_BATCHED = 64
MOST_TEXTS = 1024
"""That a worker judges at once, of one request or of several."""


class SentimentEndpoint(Section):
    """The SageMaker endpoint."""

    instance_type: str = Field(default="ml.c7g.4xlarge", description="an ml. type on Graviton, such as ml.c7g.4xlarge")
    min_instances: PositiveInt = Field(description="1 or more (a real-time variant cannot scale to zero)")
    initial_instances: PositiveInt = Field(description="between min_instances and max_instances")
    max_instances: PositiveInt = Field(description="min_instances or more")
    invocations_per_instance: float = Field(
        default=1000, gt=0, description="target invocations per instance and minute"
    )
    cpu_utilization_target_percent: int = Field(
        default=70, ge=10, le=90, description="target CPU utilisation, per cent of all vCPUs, 10 to 90"
    )
    scale_in_cooldown_seconds: int = Field(default=600, ge=0, le=3600, description="seconds, 0 to 3600")
    scale_out_cooldown_seconds: int = Field(default=120, ge=0, le=3600, description="seconds, 0 to 3600")
    workers: PositiveInt = Field(default=4, description="TorchServe workers, at most the type's vCPUs")
    max_batch_texts: int = Field(default=64, ge=1, le=MOST_TEXTS, description=f"texts per request, 1 to {MOST_TEXTS}")
    batch_size: int = Field(
        default=1,
        ge=1,
        le=MOST_BATCHED,
        description=f"requests that a worker judges together, 1 to {MOST_BATCHED}; 1: none waits for others",
    )
    max_batch_delay_ms: int = Field(
        default=20,
        ge=1,
        le=1000,
        description="milliseconds that a request waits for others, 1 to 1000; only with a batch_size above 1",
    )
    response_timeout_seconds: int = Field(
        default=60, ge=1, le=60, description="seconds until TorchServe restarts a worker that is still busy, 1 to 60"
    )
    bf16: bool = Field(default=True, description="true: weights in bfloat16 where the processor computes in it")
    latency_p99_ms_alarm: PositiveInt = Field(default=1000, description="milliseconds of model latency")
    client_error_percent_alarm: int = Field(
        default=10, ge=1, le=100, description="per cent of invocations answered 4XX, 1 to 100"
    )
    kms: bool = Field(default=True, description="true: encrypt the storage volume with the deployment's key")
    weight: float = Field(default=1, gt=0, description="the main variant's share, next to the challengers'; above 0")
    health_check_timeout_seconds: int = Field(default=300, ge=60, le=3600, description="seconds, 60 to 3600")
    model_download_timeout_seconds: int = Field(default=600, ge=60, le=3600, description="seconds, 60 to 3600")
    update: EndpointUpdate = Field(default=EndpointUpdate(), description="a [sentiment.endpoint.update] section")
    data_capture: DataCapture | None = Field(default=None, description="a [sentiment.endpoint.data_capture] section")
    challengers: tuple[Challenger, ...] = Field(
        default=(),
        max_length=MOST_CHALLENGERS,
        description=f"[[sentiment.endpoint.challengers]] sections, {MOST_CHALLENGERS} at most",
    )

    @property
    def challenger_types(self) -> dict[str, str]:
        """{challenger: its instance type}; the main variant has the endpoint's."""
        return {one.name: one.instance_type or self.instance_type for one in self.challengers}


class Sentiment(Section):
    """The sentiment workload's serving side."""

    version: Version | None = Field(
        default=None,
        description="a published version: the 16 digits in weights/sentiment/<version>/; none: what [training] makes",
    )
    endpoint: SentimentEndpoint = Field(description="a [sentiment.endpoint] section")


class Settings(Section):
    """Everything that one deployment is made of. A missing workload section: that stack is not built."""

    schema_version: Literal[1] = Field(description=f"{SCHEMA_VERSION}")
    deployment: Deployment = Field(description="a [deployment] section")
    network: Network = Field(description="a [network] section")
    logs: Logs = Field(default=Logs(retention_days=30), description="a [logs] section")
    budget: Budget = Field(default=Budget(), description="a [budget] section")
    alarms: Alarms = Field(default=Alarms(), description="an [alarms] section")
    training: Training | None = Field(default=None, description="a [training] section")
    sentiment: Sentiment | None = Field(default=None, description="a [sentiment.endpoint] section")
    text_encoding: TextEncoding | None = Field(default=None, description="a [text_encoding] section")
    question_answering: QuestionAnswering | None = Field(default=None, description="a [question_answering] section")

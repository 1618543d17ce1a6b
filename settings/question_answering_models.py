"""The question-answering workload: an extractive model compiled for NeuronCores, and its fleet of Inf2 instances."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from settings.section import PositiveInt, Section
from settings.sources import Source, parse_source

MOST_SHAPES = 16
"""Pairs of batch size and length. The compiler takes minutes for each, and each file has the model's weights in it."""
MOST_ROWS = 64
MOST_TOKENS = 512
"""Positions of BERT and its like; the trace refuses more than its model has."""
LEAST_TOKENS = 32
"""Of the largest length: it must hold a question and a part of the context that is worth reading."""
MOST_WAIT_MS = 60_000
"""As the server has it (`max_timeout_ms`), which is also what the load balancer waits."""
FLEET_DISK_GIB = 100
"""The Neuron AMI, the serving image (a Neuron container with the compiled model in it), and models from S3."""
BERT_BASE_MIB = 420
"""110 million weights in float32."""

Size = Annotated[int, Field(ge=1)]


class QuestionAnswering(Section):
    """Extractive question answering on Inferentia2: a server for each NeuronCore, behind an internal load balancer."""

    model: str = Field(description="hf://owner/name@revision, s3://bucket/prefix/ or a local folder")
    weights_mib: int = Field(
        default=BERT_BASE_MIB,
        ge=1,
        le=16384,
        description="MiB of the model's weights in float32 (BERT base: 420), to check that the models fit",
    )
    instance_type: str = Field(default="inf2.xlarge", description="an Inf2 type, such as inf2.xlarge")
    min_instances: PositiveInt = Field(default=1, description="1 or more; as many start, scaling adds more")
    max_instances: PositiveInt = Field(default=2, description="min_instances + 1 or more: an update needs one more")
    num_cores: Annotated[int, Field(ge=1)] | Literal["all"] = Field(
        default="all", description='"all", or how many NeuronCores of an instance to serve on, 1 or more'
    )
    num_models_per_server: int = Field(default=1, ge=1, le=64, description="models on each NeuronCore, 1 to 64")
    batch_sizes: tuple[Size, ...] = Field(
        default=(1, 4, 8), min_length=1, description=f"compiled batch sizes, rising, 1 to {MOST_ROWS}"
    )
    lengths: tuple[Size, ...] = Field(
        default=(64, 128, 384), min_length=1, description=f"compiled lengths in tokens, rising, {MOST_TOKENS} at most"
    )
    dtype: Literal["float32", "bfloat16"] = Field(default="float32", description='"float32" or "bfloat16"')
    compiler_args: str = Field(default="", max_length=1000, description="more arguments for neuronx-cc, or none")
    stride: int = Field(default=128, ge=0, description="tokens that neighbouring windows of a long context share")
    max_answer_tokens: PositiveInt = Field(default=30, description="tokens of the longest answer, 1 or more")
    null_threshold: float | Literal["none"] = Field(
        default=0.0,
        description="no answer when its score is above the best answer's by more than this; "
        '"none" for a model that was trained on SQuAD 1.1, without questions that have no answer',
    )
    deadline_minutes: int = Field(default=240, ge=5, description="minutes until compiling gives up, 5 to 660")
    zones: tuple[str, ...] | None = Field(
        default=None, min_length=1, description="some of network.zones; default: all of them; those that offer the type"
    )
    purchase: Literal["on-demand", "spot"] = Field(default="on-demand", description='"on-demand" or "spot"')
    ami_id: str | None = Field(
        default=None, pattern=r"^ami-[0-9a-f]{8,17}$", description="a pinned image, such as ami-0123456789abcdef0"
    )
    ami_parameter: str | None = Field(
        default=None, pattern=r"^/aws/service/[\w./-]+$", description="a public SSM parameter that names an AMI"
    )
    root_volume_gib: int = Field(
        default=FLEET_DISK_GIB, ge=8, le=16384, description="GiB of the encrypted gp3 root volume"
    )
    requests_per_instance: int = Field(
        default=1000, ge=1, le=10_000_000, description="target requests per instance and minute"
    )
    cpu_utilization_target_percent: int = Field(
        default=70, ge=10, le=90, description="target CPU utilisation, per cent of all vCPUs, 10 to 90"
    )
    warm_up_seconds: int = Field(
        default=600,
        ge=0,
        le=3600,
        description="seconds from its launch until a new instance counts for scaling, 0 to 3600; as long as one takes "
        "to boot, pull its image and load the model, or scaling adds another meanwhile",
    )
    queue_rows: int = Field(
        default=256, ge=1, le=100_000, description="rows that wait or run on a NeuronCore; more are answered with 503"
    )
    batch_wait_ms: float = Field(
        default=2.0, ge=0, le=1000, description="milliseconds that a batch waits for requests on their way, 0 to 1000"
    )
    timeout_ms: int = Field(
        default=10_000,
        ge=1,
        le=MOST_WAIT_MS,
        description=f"milliseconds for a request that asks no other, 1 to {MOST_WAIT_MS}",
    )
    max_body_bytes: int = Field(
        default=1_000_000, ge=1000, le=10_000_000, description="bytes of a request, 1000 to 10000000"
    )
    certificate_arn: str | None = Field(
        default=None,
        pattern=r"^arn:aws:acm:[a-z0-9-]+:[0-9]{12}:certificate/[0-9a-f-]{36}$",
        description="an ACM certificate, arn:aws:acm:<region>:<account>:certificate/<id>, for HTTPS",
    )
    token_secret_arn: str | None = Field(
        default=None,
        pattern=r"^arn:aws:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]+-[A-Za-z0-9]{6}$",
        description="a secret with the token that requests must bring, encrypted by aws/secretsmanager, "
        "arn:aws:secretsmanager:<region>:<account>:secret:<name>-<6 characters>",
    )
    latency_p99_ms_alarm: PositiveInt = Field(default=1000, description="milliseconds at the load balancer")
    server_error_percent_alarm: int = Field(
        default=5, ge=1, le=100, description="per cent of requests answered 5XX, 1 to 100"
    )

    @property
    def model_source(self) -> Source:
        """Where the model comes from."""
        return parse_source(self.model)

    @property
    def shapes(self) -> int:
        """How many shapes are compiled."""
        return len(self.batch_sizes) * len(self.lengths)

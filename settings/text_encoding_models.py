"""The text encoding workload: an encoder as a TensorRT engine, many models of it behind one GPU endpoint."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from settings.endpoint_models import EndpointUpdate
from settings.section import PositiveInt, Section
from settings.sources import Source, parse_source

MODEL_PREFIX = "encoder"
"""`models = 3` makes encoder-0, encoder-1, encoder-2."""
MOST_MODELS = 1000
MOST_TOKENS = 8192
ENGINE_DISK_GIB = 100
"""The GPU Deep Learning AMI (some 60 GiB), the builder image (some 25 GiB), and the engines."""


class TextEncodingEndpoint(Section):
    """The SageMaker endpoint: Triton on GPUs."""

    instance_type: str = Field(default="ml.g5.xlarge", description="an ml. type with GPUs, such as ml.g5.xlarge")
    min_instances: PositiveInt = Field(description="1 or more (a real-time variant cannot scale to zero)")
    initial_instances: PositiveInt = Field(description="between min_instances and max_instances")
    max_instances: PositiveInt = Field(description="min_instances or more")
    invocations_per_instance: float = Field(
        default=6000, gt=0, description="target invocations per instance and minute, over all models"
    )
    gpu_utilization_target_percent: int = Field(
        default=60, ge=10, le=90, description="target GPU utilisation, per cent of all GPUs, 10 to 90"
    )
    cpu_utilization_target_percent: int = Field(
        default=70, ge=10, le=90, description="target CPU utilisation, per cent of all vCPUs, 10 to 90"
    )
    high_resolution_concurrency: float | None = Field(
        default=None, gt=0, description="target concurrent requests per instance, counted every 10 s; single-model only"
    )
    scale_in_cooldown_seconds: int = Field(default=600, ge=0, le=3600, description="seconds, 0 to 3600")
    scale_out_cooldown_seconds: int = Field(default=120, ge=0, le=3600, description="seconds, 0 to 3600")
    model_caching: bool = Field(
        default=True, description="true: models stay in GPU memory until others need it; false: loaded for each request"
    )
    log_verbose: bool = Field(default=False, description="true: Triton logs every request")
    shared_memory_mib: int = Field(
        default=16, ge=1, le=1024, description="MiB that Triton's Python backend starts with, for models that use it"
    )
    latency_p99_ms_alarm: PositiveInt = Field(default=500, description="milliseconds of model latency")
    client_error_percent_alarm: int = Field(
        default=10, ge=1, le=100, description="per cent of invocations answered 4XX, 1 to 100"
    )
    loading_wait_ms_alarm: PositiveInt = Field(
        default=30_000, description="milliseconds that requests wait for models to be downloaded and loaded"
    )
    cache_hit_percent_alarm: int = Field(
        default=80, ge=1, le=99, description="per cent of requests that find their model loaded, 1 to 99"
    )
    health_check_timeout_seconds: int = Field(default=600, ge=60, le=3600, description="seconds, 60 to 3600")
    model_download_timeout_seconds: int = Field(default=600, ge=60, le=3600, description="seconds, 60 to 3600")
    update: EndpointUpdate = Field(default=EndpointUpdate(), description="a [text_encoding.endpoint.update] section")


class TextEncoding(Section):
    """Text encoding by a TensorRT engine that Triton serves."""

    mode: Literal["multi-model", "single-model"] = Field(
        default="multi-model",
        description='"multi-model" (any number behind one endpoint) or "single-model" (one, always loaded)',
    )
    base_model: str = Field(description="hf://owner/name@revision, s3://bucket/prefix/ or a local folder")
    models: int | tuple[str, ...] = Field(
        default=1, description=f"how many copies, 1 to {MOST_MODELS}, or a list of their names"
    )
    precision: Literal["fp32", "fp16", "int8"] = Field(default="fp16", description='"fp32", "fp16" or "int8"')
    calibration_texts: str | None = Field(
        default=None,
        description="for int8 and the sweep: s3://bucket/prefix/ or a local folder with texts.txt, a text a line",
    )
    sweep: bool = Field(default=False, description="true: build and compare all precisions; the report lies beside it")
    opt_batch: PositiveInt = Field(default=16, description="texts at once that the engine is tuned for, 1 or more")
    max_batch: PositiveInt = Field(default=64, description="texts at once that the engine takes at most")
    min_length: PositiveInt = Field(default=16, description="tokens that the engine takes at least, 1 or more")
    opt_length: PositiveInt = Field(default=128, description="tokens that the engine is tuned for")
    max_length: int = Field(
        default=512, ge=1, le=MOST_TOKENS, description="tokens that the engine takes at most, as many as the model"
    )
    workspace_mib: int = Field(
        default=4096, ge=256, le=20480, description="MiB of GPU memory that the build may use as scratch, 256 to 20480"
    )
    preferred_batch_sizes: tuple[int, ...] = Field(
        default=(), description="batch sizes that Triton aims at, 1 to max_batch; none: opt_batch"
    )
    max_queue_delay_ms: float = Field(
        default=2.0, ge=0, le=1000, description="milliseconds that a request may wait for others, 0 to 1000"
    )
    instance_count: int = Field(default=1, ge=1, le=16, description="executions at a time of a model on a GPU, 1 to 16")
    triton_release: str = Field(default="25.09", description="YY.MM of the Triton container, such as 25.09")
    build_instance_type: str = Field(
        default="g5.xlarge", description="an EC2 type with the endpoint's GPU, on which the engine is built"
    )
    zones: tuple[str, ...] | None = Field(
        default=None, min_length=1, description="some of network.zones; default: all of them"
    )
    purchase: Literal["on-demand", "spot"] = Field(default="on-demand", description='"on-demand" or "spot"')
    ami_id: str | None = Field(
        default=None, pattern=r"^ami-[0-9a-f]{8,17}$", description="a pinned image, such as ami-0123456789abcdef0"
    )
    ami_parameter: str | None = Field(
        default=None, pattern=r"^/aws/service/[\w./-]+$", description="a public SSM parameter that names an AMI"
    )
    root_volume_gib: int = Field(
        default=ENGINE_DISK_GIB, ge=8, le=16384, description="GiB of the encrypted gp3 root volume"
    )
    deadline_minutes: int = Field(default=120, ge=5, description="minutes until the engine's build gives up, 5 to 660")
    endpoint: TextEncodingEndpoint = Field(description="a [text_encoding.endpoint] section")

    @property
    def base_model_source(self) -> Source:
        """Where the base model comes from."""
        return parse_source(self.base_model)

    @property
    def texts_source(self) -> Source | None:
        """Where the texts come from."""
        return parse_source(self.calibration_texts) if self.calibration_texts is not None else None

    @property
    def model_names(self) -> tuple[str, ...]:
        """Names of the models; their archives are `<name>.tar.gz`."""
        if isinstance(self.models, int):
            return tuple(f"{MODEL_PREFIX}-{number}" for number in range(self.models))
        return self.models

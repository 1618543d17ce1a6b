"""Variables of the sentiment serving container."""

from __future__ import annotations

from settings.models import SentimentEndpoint


def container_environment(settings: SentimentEndpoint, *, vcpus: int) -> dict[str, str]:
    """Variables of the serving container: workers times threads make the instance's vCPUs, never more.

    :param vcpus: of the instance type
    """
    workers = str(settings.workers)
    return {
        "OMP_NUM_THREADS": str(max(1, vcpus // settings.workers)),
        "SAGEMAKER_CONTAINER_LOG_LEVEL": "20",
        "SAGEMAKER_MODEL_SERVER_WORKERS": workers,
        "SAGEMAKER_PROGRAM": "inference.py",
        "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model/code",
        "SAGEMAKER_TS_BATCH_SIZE": str(settings.batch_size),
        "SAGEMAKER_TS_MAX_BATCH_DELAY": str(settings.max_batch_delay_ms),
        # With any of these the toolkit takes the workers from here, and would start a single one.
        "SAGEMAKER_TS_MAX_WORKERS": workers,
        "SAGEMAKER_TS_MIN_WORKERS": workers,
        "SAGEMAKER_TS_RESPONSE_TIMEOUT": str(settings.response_timeout_seconds),
        # The tokenizer would start a thread per core in every worker.
        "TOKENIZERS_PARALLELISM": "false",
        "TORCHLIFT_BF16": str(settings.bf16).lower(),
        "TORCHLIFT_MAX_TEXTS": str(settings.max_batch_texts),
    }

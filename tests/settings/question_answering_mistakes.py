"""Mistakes in a [question_answering] section, at least one for each rule."""

from __future__ import annotations

from typing import Any

SECTION = "question_answering"
VALID: dict[str, Any] = {
    "model": "hf://owner/name@" + "0" * 40,
    "ami_parameter": "/aws/service/neuron/dlami/base/ubuntu-24.04/latest/image_id",
}
CERTIFICATE = "arn:aws:acm:{region}:{account}:certificate/01234567-89ab-cdef-0123-456789abcdef"
SECRET = "arn:aws:secretsmanager:us-west-2:123456789012:secret:qa/token-AbCdEf"
ACCOUNT = "123456789012"


def asked(**changes: Any) -> dict[str, object]:
    """Settings with this workload; None: without the key."""
    return {SECTION: {key: value for key, value in {**VALID, **changes}.items() if value is not None}}


def _mistake(changes: dict[str, object], key: str, reason: str, right: str) -> tuple[dict[str, object], str, str, str]:
    return changes, f"{SECTION}.{key}", reason, right


# {mistake: (changes of dev.toml, key, words of the reason, words of what would be right)}
QUESTION_ANSWERING: dict[str, tuple[dict[str, object], str, str, str]] = {
    "answers without a model": _mistake(asked(model=None), "model", "missing", "hf://"),
    "unpinned answers": _mistake(asked(model="hf://a/b"), "model", "", "<commit id>"),
    "fleet on Inf1": _mistake(asked(instance_type="inf1.xlarge"), "instance_type", "no longer supports", "inf2.xlarge"),
    "fleet on Trainium": _mistake(asked(instance_type="trn1.2xlarge"), "instance_type", "for Inf2", "inf2.xlarge"),
    "fleet on GPUs": _mistake(asked(instance_type="g5.xlarge"), "instance_type", "no NeuronCores", "inf2.xlarge"),
    "fleet on SageMaker": _mistake(
        asked(instance_type="ml.inf2.xlarge"), "instance_type", "runs on EC2", "inf2.xlarge"
    ),
    "fleet of an unknown size": _mistake(
        asked(instance_type="inf2.4xlarge"), "instance_type", "catalogue", "inf2."
    ),
    "fleet without room for an update": _mistake(
        asked(min_instances=2, max_instances=2), "max_instances", "a new instance", "3 or more",
    ),
    "fleet of none": _mistake(asked(min_instances=0), "min_instances", "equal to 1", "1 or more"),
    "too many cores": _mistake(asked(num_cores=3), "num_cores", "has 2 NeuronCores", '1 to 2, or "all"'),
    "no core": _mistake(asked(num_cores=0), "num_cores", "", '"all"'),
    "batch sizes that fall": _mistake(asked(batch_sizes=[8, 4, 4]), "batch_sizes", "rise", "[4, 8]"),
    "large batch": _mistake(asked(batch_sizes=[1, 65]), "batch_sizes", "more than 64", "64 at most"),
    "batch of no rows": _mistake(asked(batch_sizes=[0, 1]), "batch_sizes", "equal to 1", "rising"),
    "no batch size": _mistake(asked(batch_sizes=[]), "batch_sizes", "at least 1", "rising"),
    "lengths that fall": _mistake(asked(lengths=[384, 64]), "lengths", "rise", "[64, 384]"),
    "long rows": _mistake(asked(lengths=[128, 513]), "lengths", "more than 512", "512 at most"),
    "short rows": _mistake(asked(lengths=[16]), "lengths", "need more", "32 to 512"),
    "many shapes": _mistake(
        asked(batch_sizes=[1, 2, 4, 8, 16, 32], weights_mib=1), "batch_sizes", "18 shapes", "so 5 batch sizes"
    ),
    "stride": _mistake(asked(stride=200), "stride", "half", "0 to 192"),
    "long answers": _mistake(asked(max_answer_tokens=200), "max_answer_tokens", "384 tokens", "1 to 192"),
    "threshold": _mistake(asked(null_threshold="low"), "null_threshold", "", '"none"'),
    "compiler arguments": _mistake(asked(compiler_args="--a 'b"), "compiler_args", "No closing quotation", "shell"),
    "another target": _mistake(asked(compiler_args="-O2 --target=trn1"), "compiler_args", "inf2", "no --target"),
    "dtype": _mistake(asked(dtype="float16"), "dtype", "'float32'", '"bfloat16"'),
    "small queue": _mistake(asked(queue_rows=4), "queue_rows", "8 rows", "8 or more"),
    "alarm beyond the timeout": _mistake(asked(timeout_ms=500), "latency_p99_ms_alarm", "never ring", "below 500"),
    "wait beyond the alarm": _mistake(
        asked(batch_wait_ms=50.0, latency_p99_ms_alarm=50), "batch_wait_ms", "rings at 50 ms", "below 50"
    ),
    "long timeout": _mistake(asked(timeout_ms=60_001), "timeout_ms", "equal to 60000", "1 to 60000"),
    "certificate of another region": _mistake(
        asked(certificate_arn=CERTIFICATE.format(region="us-east-1", account=ACCOUNT)), "certificate_arn", "us-east-1",
        "one in us-west-2",
    ),
    "certificate of another account": _mistake(
        {
            **asked(certificate_arn=CERTIFICATE.format(region="us-west-2", account="0" * 12)),
            "deployment.account": ACCOUNT,
        },
        "certificate_arn", "of its own", ACCOUNT,
    ),
    "no certificate": _mistake(asked(certificate_arn="example.com"), "certificate_arn", "another form", "arn:aws:acm"),
    "secret of another region": _mistake(
        asked(token_secret_arn=SECRET.replace("us-west-2", "eu-west-1")), "token_secret_arn", "eu-west-1", "us-west-2"
    ),
    "secret's name": _mistake(asked(token_secret_arn="token"), "token_secret_arn", "another form", "secretsmanager"),
    "models beyond the memory": _mistake(
        asked(num_models_per_server=2), "num_models_per_server", "A server needs", '1 at most, or instance_type = "inf2'
    ),
    "models beyond the device": _mistake(
        asked(num_models_per_server=3, instance_type="inf2.8xlarge"), "num_models_per_server", "device memory",
        "2 at most, or fewer",
    ),
    "a model beyond any device": _mistake(
        asked(weights_mib=16_000), "num_models_per_server", "device memory", "fewer batch_sizes"
    ),
    "fleet's zone": _mistake(asked(zones=["us-west-2d"]), "zones", "no subnet", "us-west-2a"),
    "compiling's deadline": _mistake(asked(deadline_minutes=700), "deadline_minutes", "12 hours", "660"),
    "fleet's image": _mistake(asked(ami_parameter=None), "ami_id", "exactly one", "either"),
    "fleet's disk": _mistake(asked(root_volume_gib=30), "root_volume_gib", "do not fit", "100 or more"),
}  # fmt: skip

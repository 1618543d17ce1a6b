"""Mistakes in dev.toml about text encoding, at least one for each rule."""

from __future__ import annotations

ENCODER = "text_encoding.endpoint"

# {mistake: (changes of dev.toml, key, words of the reason, words of what would be right)}
TEXT_ENCODING: dict[str, tuple[dict[str, object], str, str, str]] = {
    "Triton that no hosted driver runs": (
        {"text_encoding.triton_release": "26.05"}, "text_encoding.triton_release", "driver branch 595", "25.09",
    ),
    "unknown Triton": ({"text_encoding.triton_release": "23.02"}, "text_encoding.triton_release", "catalogue", "25.09"),
    "encoder on a type without GPU": (
        {f"{ENCODER}.instance_type": "ml.c7g.xlarge"}, f"{ENCODER}.instance_type", "has none", "ml.g5.xlarge",
    ),
    "encoder on an EC2 type": (
        {f"{ENCODER}.instance_type": "g5.2xlarge"}, f"{ENCODER}.instance_type", "begin with ml.", "ml.g5.2xlarge",
    ),
    "encoder on an unknown type": (
        {f"{ENCODER}.instance_type": "ml.g9.xlarge"}, f"{ENCODER}.instance_type", "catalogue", "ml.g5.xlarge",
    ),
    "engine for another GPU": (
        {"text_encoding.build_instance_type": "g6.xlarge"}, "text_encoding.build_instance_type", "NVIDIA L4",
        "g5.xlarge",
    ),
    "engine without a GPU": (
        {"text_encoding.build_instance_type": "inf2.xlarge"}, "text_encoding.build_instance_type", "no GPU",
        "g5.xlarge",
    ),
    "engine on an unknown type": (
        {"text_encoding.build_instance_type": "g5.huge"}, "text_encoding.build_instance_type", "catalogue", "g5.xlarge",
    ),
    "no models": ({"text_encoding.models": 0}, "text_encoding.models", "0 models", "1 to 1000"),
    "model's name": ({"text_encoding.models": ["a", "b c"]}, "text_encoding.models", "'b c'", "letters"),
    "model's name twice": ({"text_encoding.models": ["a", "a"]}, "text_encoding.models", "twice", "once"),
    "several models on a single-model endpoint": (
        {"text_encoding.mode": "single-model"}, "text_encoding.models", "serves one", '"multi-model"',
    ),
    "optimum batch": ({"text_encoding.opt_batch": 65}, "text_encoding.opt_batch", "max_batch is 64", "1 to 64"),
    "no batch": ({"text_encoding.max_batch": 0}, "text_encoding.max_batch", "equal to 1", "at most"),
    "optimum length": ({"text_encoding.opt_length": 8}, "text_encoding.opt_length", "tuned", "16 to 512"),
    "least length": ({"text_encoding.min_length": 600}, "text_encoding.max_length", "min_length is 600", "600 or more"),
    "preferred batch": (
        {"text_encoding.preferred_batch_sizes": [8, 65]}, "text_encoding.preferred_batch_sizes", "max_batch", "1 to 64",
    ),
    "precision": ({"text_encoding.precision": "fp8"}, "text_encoding.precision", "'fp32'", '"int8"'),
    "int8 without texts": (
        {"text_encoding.precision": "int8"}, "text_encoding.calibration_texts", "calibrated", "texts.txt",
    ),
    "sweep without texts": (
        {"text_encoding.sweep": True}, "text_encoding.calibration_texts", "compares", "texts.txt",
    ),
    "long names": (
        {"text_encoding.models": [f"{'x' * 50}{number}" for number in range(90)]}, "text_encoding.models",
        "boot script", "shorter",
    ),
    "texts without int8": (
        {"text_encoding.calibration_texts": "s3://bucket/texts/"}, "text_encoding.calibration_texts", "not calibrated",
        '"int8"',
    ),
    "texts on the hub": (
        {"text_encoding.precision": "int8", "text_encoding.calibration_texts": "hf://a/b/c@" + "0" * 40},
        "text_encoding.calibration_texts", "not mirrored", "s3://",
    ),
    "unpinned encoder": ({"text_encoding.base_model": "hf://a/b"}, "text_encoding.base_model", "", "<commit id>"),
    "concurrency of many models": (
        {f"{ENCODER}.high_resolution_concurrency": 4.0}, f"{ENCODER}.high_resolution_concurrency", "once a minute",
        '"single-model"',
    ),
    "single model without cache": (
        {"text_encoding.mode": "single-model", "text_encoding.models": 1, f"{ENCODER}.model_caching": False},
        f"{ENCODER}.model_caching", "always loaded", '"multi-model"',
    ),
    "long queue": (
        {"text_encoding.max_queue_delay_ms": 500.0}, "text_encoding.max_queue_delay_ms", "alarm", "below 500",
    ),
    "encoder's counts": (
        {f"{ENCODER}.min_instances": 3}, f"{ENCODER}.max_instances", "min_instances is 3", "3 or more",
    ),
    "encoder's first count": (
        {f"{ENCODER}.initial_instances": 9}, f"{ENCODER}.initial_instances", "limits", "1 to 2",
    ),
    "engine's zone": ({"text_encoding.zones": ["us-west-2d"]}, "text_encoding.zones", "no subnet", "us-west-2a"),
    "engine's deadline": ({"text_encoding.deadline_minutes": 700}, "text_encoding.deadline_minutes", "12 hours", "660"),
    "engine's image": ({"text_encoding.ami_parameter": None}, "text_encoding.ami_id", "exactly one", "either"),
    "engine's disk": ({"text_encoding.root_volume_gib": 30}, "text_encoding.root_volume_gib", "do not fit", "100"),
    "canary of one encoder": (
        {f"{ENCODER}.update.traffic": "canary", f"{ENCODER}.update.step_percent": 50}, f"{ENCODER}.min_instances",
        "half", "2 or more",
    ),
    "captures of many models": (
        {f"{ENCODER}.data_capture": {"sampling_percent": 1}}, f"{ENCODER}.data_capture", "no such setting", "",
    ),
}  # fmt: skip

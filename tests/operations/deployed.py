"""Make what a deployment leaves in an account: bucket, versions, packages, endpoint."""

from __future__ import annotations

import hashlib
import json
import struct
import tempfile
from pathlib import Path
from typing import Any

import boto3

from model_code.text_encoding.engine import Engine
from settings import names

REGION = "us-west-2"
ROLE = "arn:aws:iam::123456789012:role/endpoint"


def client(service: str) -> Any:
    """A boto3 client in the deployments' region."""
    return boto3.client(service, region_name=REGION)  # type: ignore[call-overload]


def foundation(deployment: str) -> str:
    """The Foundation stack with its bucket; returns the bucket's name."""
    bucket = f"artifacts-{deployment}"
    template = {
        "Resources": {"Bucket": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": bucket}}},
        "Outputs": {names.OUTPUT_BUCKET: {"Value": {"Ref": "Bucket"}}},
    }
    client("cloudformation").create_stack(
        StackName=names.stack_name(deployment, "Foundation"), TemplateBody=json.dumps(template)
    )
    return bucket


def model_folder(folder: Path, *, value: int = 0, labels: int = 2) -> Path:
    """A model that packaging accepts, a few bytes long; `value` makes it another one."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(
        json.dumps(
            {
                "architectures": ["RobertaForSequenceClassification"],
                "id2label": {str(index): f"label {index}" for index in range(labels)},
                "label2id": {f"label {index}": index for index in range(labels)},
            }
        )
    )
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_text("{}")
    (folder / "metrics.json").write_text(json.dumps({"held_out": {"macro_recall": 0.5 + value / 100}}))
    data = struct.pack(f"<{2 * 4}f", *([float(value)] * 8))
    header = json.dumps(
        {"classifier.weight": {"dtype": "F32", "shape": [2, 4], "data_offsets": [0, len(data)]}}
    ).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + data)
    return folder


def version(bucket: str, name: str, *, files: dict[str, bytes] | None = None, complete: bool = True) -> str:
    """A version as a training job publishes it; without its manifest unless `complete`."""
    s3, held = client("s3"), files or {"model.safetensors": name.encode(), "metrics.json": b'{"held_out": {"f1": 0.7}}'}
    for file, body in held.items():
        s3.put_object(Bucket=bucket, Key=f"weights/sentiment/{name}/{file}", Body=body)
    if complete:
        document = {
            "schema": 1,
            "hash": name,
            "job": "sentiment-train",
            "created_by": "i-0123456789abcdef0",
            "inputs": {"base_model": "inputs/aaaa/", "data": "inputs/bbbb/"},
            "files": [
                {"path": file, "size": len(body), "sha256": hashlib.sha256(body).hexdigest()}
                for file, body in held.items()
            ],
            "versions": {},
        }
        s3.put_object(Bucket=bucket, Key=f"weights/sentiment/{name}/manifest.json", Body=json.dumps(document).encode())
    return name


def endpoint(deployment: str, bucket: str, variants: dict[str, str], *, inputs: bool = True) -> str:
    """An endpoint with a variant for each version; without `inputs` the packages do not say what they hold."""
    sagemaker, name = client("sagemaker"), names.endpoint_name(deployment, "sentiment", "ml.c7g.4xlarge")
    for variant, held in variants.items():
        prefix = f"packages/sentiment/{hashlib.sha256(held.encode()).hexdigest()[:16]}"
        document = {"inputs": {"weights": f"weights/sentiment/{held}/"}} if inputs else {}
        client("s3").put_object(Bucket=bucket, Key=f"{prefix}/manifest.json", Body=json.dumps(document).encode())
        sagemaker.create_model(
            ModelName=f"{name}-{variant}",
            ExecutionRoleArn=ROLE,
            PrimaryContainer={"Image": "image", "ModelDataUrl": f"s3://{bucket}/{prefix}/model.tar.gz"},
        )
    sagemaker.create_endpoint_config(
        EndpointConfigName=f"{name}-config",
        ProductionVariants=[
            {
                "VariantName": variant,
                "ModelName": f"{name}-{variant}",
                "InstanceType": "ml.c5.xlarge",  # moto knows no Graviton types
                "InitialInstanceCount": 1,
                "InitialVariantWeight": 1.0,
            }
            for variant in variants
        ],
    )
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=f"{name}-config")
    client("ssm").put_parameter(
        Name=names.parameter_name(deployment, "sentiment", "endpoint"), Value=name, Type="String"
    )
    return name


BUILD = "0123456789abcdef"
MODELS = f"models/text-encoding/{BUILD}/"


def multi_model(deployment: str, engine: Engine) -> str:
    """A bucket with the engine that a deployment built, and the parameters of its endpoint; returns the bucket."""
    bucket, s3 = foundation(deployment), client("s3")
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    with tempfile.TemporaryDirectory() as folder:
        engine.write(Path(folder) / "engine.json")
        s3.upload_file(f"{folder}/engine.json", bucket, f"engines/text-encoding/{BUILD}/engine.json")
    for kind, value in (("models", f"s3://{bucket}/{MODELS}"), ("endpoint", f"torchlift-{deployment}-text-encoding")):
        client("ssm").put_parameter(
            Name=names.parameter_name(deployment, "text-encoding", kind), Value=value, Type="String"
        )
    return bucket


TRACE = "fedcba9876543210"


def trace(bucket: str, hash: str, **about: Any) -> str:
    """A compiled model as the trace job publishes it, a few bytes long; returns its prefix."""
    files = {"tokenizer.json": b"{}", "reference.npz": b"r", "model-1x64.pt": b"weights", "model-4x64.pt": b"weights"}
    shapes = [{"batch": batch, "length": 64, "file": f"model-{batch}x64.pt"} for batch in (1, 4)]
    document = {
        "schema": 1, "task": "question-answering", "source": f"hf://owner/name@{hash}", "backend": "neuronx",
        "neuron_sdk": "2.31.1", "tokenizer_files": ["tokenizer.json"], "shapes": shapes, **about,
    }  # fmt: skip
    files["model.json"] = json.dumps(document).encode()
    listed = [{"path": name, "size": len(body), "sha256": ""} for name, body in files.items()]
    files["manifest.json"] = json.dumps({"files": listed}).encode()
    for name, body in files.items():
        client("s3").put_object(Bucket=bucket, Key=f"neuron/question-answering/{hash}/{name}", Body=body)
    return f"s3://{bucket}/neuron/question-answering/{hash}/"


def fleet(deployment: str, models: list[dict[str, Any]] | None = None) -> str:
    """A bucket with models.json and the model that the fleet was deployed with; returns the bucket."""
    bucket, key = foundation(deployment), names.fleet_models_key("question-answering", BUILD)
    trace(bucket, TRACE)
    listed = models or [{"name": "model_0", "source": f"/opt/torchlift/models/{TRACE}", "weight": 1}]
    client("s3").put_object(Bucket=bucket, Key=key, Body=json.dumps({"schema": 1, "models": listed}).encode())
    client("ssm").put_parameter(
        Name=names.parameter_name(deployment, "question-answering", "models"),
        Value=f"s3://{bucket}/{key}",
        Type="String",
    )
    return bucket

"""The operator's commands on a multi-model endpoint of the real Triton: add, encode, list, remove, without a deploy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_code.text_encoding import model_config, repository
from operations.cli import main
from settings import names
from stand_in.executor import triton
from tests.executor.conftest import REGION, ROLE, ROOT, World, eventually, running
from tests.serving.triton import models

BUILD = "0123456789abcdef"
PREFIX = f"models/text-encoding/{BUILD}/"
pytestmark = pytest.mark.skipif(
    not (triton.environment_folder(ROOT) / "bin" / "python").exists(), reason="`make` has not built .venvs/triton"
)


def settings(folder: Path) -> str:
    """`trial`, in the stand-in's region."""
    text = (ROOT / "deployments" / "trial.toml").read_text()
    path = folder / "trial.toml"
    path.write_text(text.replace("us-west-2", REGION))
    return str(path)


def tokenizer(folder: Path) -> Path:
    """Every word is token 7."""
    from tokenizers import Tokenizer, pre_tokenizers
    from tokenizers.models import WordLevel

    words = Tokenizer(WordLevel({"<pad>": 0, "?": 7}, unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


def deploy(world: World, folder: Path) -> None:
    """What a deploy leaves: engine.json and tokenizer of the build, an endpoint, and two parameters."""
    engine = models.engine(tensorrt="none", compute_capability="none", gpu="CPU, by ONNX Runtime", precision="fp32")
    engine.write(folder / "engine.json")
    for path in (folder / "engine.json", tokenizer(folder)):
        world.put("artifacts", f"engines/text-encoding/{BUILD}/{path.name}", path.read_bytes())
    sagemaker, ssm = world.client("sagemaker"), world.client("ssm")
    container = {
        "Image": f"007439368137.dkr.ecr.{REGION}.amazonaws.com/sagemaker-tritonserver:25.09-py3",
        "Mode": "MultiModel",
        "ModelDataUrl": f"s3://artifacts/{PREFIX}",
        "Environment": {"SAGEMAKER_TRITON_LOG_VERBOSE": "false"},
    }
    sagemaker.create_model(ModelName="m", PrimaryContainer=container, ExecutionRoleArn=ROLE)
    variant = {
        "VariantName": names.MAIN_VARIANT, "ModelName": "m", "InstanceType": "ml.g4dn.xlarge", "InitialInstanceCount": 1
    }  # fmt: skip
    sagemaker.create_endpoint_config(EndpointConfigName="c", ProductionVariants=[variant])
    sagemaker.create_endpoint(EndpointName="encoders", EndpointConfigName="c")
    for kind, value in (("models", f"s3://artifacts/{PREFIX}"), ("endpoint", "encoders")):
        ssm.put_parameter(Name=names.parameter_name("trial", "text-encoding", kind), Value=value, Type="String")
    eventually(lambda: sagemaker.describe_endpoint(EndpointName="encoders")["EndpointStatus"] == "InService", 90)


def test_a_model_comes_answers_and_goes_without_a_deploy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(tmp_path / "world") as world:
        monkeypatch.setenv("AWS_ENDPOINT_URL", world.base_url)
        deploy(world, tmp_path)
        trial = settings(tmp_path)

        def said(*words: str, status: int = 0) -> str:
            capsys.readouterr()
            assert main(list(words)) == status, capsys.readouterr().err
            printed = capsys.readouterr()
            return printed.err if status else printed.out

        def vectors(model: str, *options: str) -> list[Any]:
            return [one["vector"] for one in json.loads(said("encode", trial, model, "a b c", "a", "--json", *options))]

        assert "It has: none." in said("encode", trial, "news", "a", status=1)
        for seed, name in ((3, "news"), (4, "chat")):
            config = model_config.make(name, models.engine())
            onnx_file = models.encoder(tmp_path / f"{seed}.onnx", seed)
            archive, _ = repository.write_for_cpu(tmp_path / "archives", onnx_file, config)
            said("models", "add", trial, name, "--archive", str(archive))
        for seed, name in ((3, "news"), (4, "chat")):
            row = models.weights(seed)[7]
            for wire in ("binary", "json"):
                np.testing.assert_allclose(vectors(name, "--wire", wire), [3 * row, row], rtol=1e-5)
        listed = json.loads(said("models", "list", trial, "--json"))
        assert [one["name"] for one in listed] == ["chat", "news"]
        # CloudWatch is asked up to the whole second, which the last load may still be in.
        eventually(lambda: "up to 2 models on one instance" in said("models", "list", trial))
        removed = said("models", "remove", trial, "chat", "--yes")
        assert "go on answering for it" in removed
        assert "It has: news." in said("encode", trial, "chat", "a", status=1)
        # Not so the endpoint: what it has loaded it goes on serving, as the command says.
        answer = world.client("sagemaker-runtime").invoke_endpoint(
            EndpointName="encoders", TargetModel="chat.tar.gz", ContentType="application/json", Body=request()
        )
        assert json.loads(answer["Body"].read())["outputs"][0]["data"][0] == 4.0


def request() -> bytes:
    """One text of one token, in Triton's JSON."""
    inputs = [
        {"name": name, "shape": [1, 1], "datatype": "INT32", "data": [1]} for name in ("input_ids", "attention_mask")
    ]
    return json.dumps({"inputs": inputs, "outputs": [{"name": "pooler_output"}]}).encode()

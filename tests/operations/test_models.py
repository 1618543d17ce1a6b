"""Models of a multi-model endpoint: what is refused before anything is sent, and that one comes whole or not at all."""

from __future__ import annotations

import contextlib
import inspect
import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError

from model_code import archive
from model_code.text_encoding import model_config, repository
from operations.cli import main
from operations.encoding import encode
from operations.models.archives import gpu_memory
from operations.models.commands import add_model, list_models, remove_model
from operations.models.store import WAITING
from settings import REPO_ROOT
from tests.operations import deployed
from tests.operations.deployed import BUILD, client
from tests.operations.deployed import MODELS as PREFIX
from tests.serving.triton import models as made

pytestmark = pytest.mark.usefixtures("account")


@pytest.fixture
def bucket(account: None) -> str:
    """A deployment with a multi-model endpoint and the engine that it built; returns the bucket."""
    return deployed.multi_model("dev", made.engine())


@pytest.fixture
def enc(tmp_path: Path) -> Path:
    """enc-0.tar.gz, as the engine job makes it."""
    engine = made.write_engine(tmp_path / "built")
    assert repository.main(["--engine", str(engine), "--output", str(tmp_path / "out"), "--prefix", "enc"]) == 0
    return tmp_path / "out" / "enc-0.tar.gz"


def add(name: str, path: Path, *extra: str) -> int:
    option = "--repository" if path.is_dir() else "--archive"
    return main(["models", "add", "dev", name, option, str(path), *extra])


def keys(bucket: str) -> set[str]:
    return {
        item["Key"]
        for item in client("s3").list_objects_v2(Bucket=bucket).get("Contents", [])
        if not item["Key"].startswith("engines/")
    }


def rows(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["models", "list", "dev", "--json"]) == 0
    return list(json.loads(capsys.readouterr().out))


def test_an_added_model_is_listed_with_its_engine(bucket: str, enc: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert add("enc-0", enc) == 0
    printed = capsys.readouterr().out
    assert f"s3://{bucket}/{PREFIX}enc-0.tar.gz is there" in printed and "torchlift encode dev enc-0" in printed
    assert keys(bucket) == {f"{PREFIX}enc-0.tar.gz"}, "and nothing waits any more"
    (row,) = rows(capsys)
    assert row.pop("modified").endswith("+00:00")
    assert row == {
        "name": "enc-0", "bytes": enc.stat().st_size, "tensorrt": "10.13.3", "precision": "fp16", "gpu": "NVIDIA A10G",
        "compute_capability": "8.6", "shapes": "1x1 4x32 8x64", "inputs": "input_ids attention_mask",
        "outputs": "last_hidden_state pooler_output",
    }  # fmt: skip
    assert main(["models", "list", "dev"]) == 0
    printed = capsys.readouterr().out
    assert "enc-0" in printed and "fp16, TensorRT 10.13.3" in printed and "told nothing" in printed


def test_a_folder_is_packed_under_the_new_name(bucket: str, enc: Path, tmp_path: Path) -> None:
    archive.unpack(enc, tmp_path / "unpacked")
    assert add("other", tmp_path / "unpacked") == 0, "a repository of one model"
    assert add("another", tmp_path / "unpacked" / "enc-0") == 0, "the model's folder itself"
    for name in ("other", "another"):
        target = tmp_path / f"{name}.tar.gz"
        client("s3").download_file(bucket, f"{PREFIX}{name}.tar.gz", str(target))
        assert repository.check(target) == made.engine(), "named alike in archive, folder and config.pbtxt"


def test_what_the_build_published_is_known_and_what_came_by_hand_is_not(
    bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    s3 = client("s3")
    for name in ("bert-0", "by-hand"):
        s3.put_object(Bucket=bucket, Key=f"{PREFIX}{name}.tar.gz", Body=b"archive")
    manifest = {"files": [{"path": "archives/bert-0.tar.gz"}, {"path": "engine.json"}]}
    s3.put_object(Bucket=bucket, Key=f"engines/text-encoding/{BUILD}/manifest.json", Body=json.dumps(manifest).encode())
    found = {row["name"]: row.get("precision") for row in rows(capsys)}
    assert found == {"bert-0": "fp16", "by-hand": None}
    assert main(["models", "list", "dev"]) == 0
    assert "not written down" in capsys.readouterr().out


def test_models_that_a_new_build_left_behind_are_named(bucket: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A new build has a prefix of its own; only what people added to the old one is theirs to bring along."""
    s3, earlier = client("s3"), "0" * 16
    above = PREFIX.rstrip("/").rpartition("/")[0]
    for key in ("bert-0", "added", "brought"):
        s3.put_object(Bucket=bucket, Key=f"{above}/{earlier}/{key}.tar.gz", Body=b"archive")
    s3.put_object(Bucket=bucket, Key=f"{PREFIX}brought.tar.gz", Body=b"archive")
    manifest = {"files": [{"path": "archives/bert-0.tar.gz"}]}
    s3.put_object(
        Bucket=bucket, Key=f"engines/text-encoding/{earlier}/manifest.json", Body=json.dumps(manifest).encode()
    )
    assert main(["models", "list", "dev"]) == 0
    assert f"Not served any more: added, added to an earlier build, in s3://{bucket}/{above}/{earlier}/" in (
        capsys.readouterr().out
    )


def unpacked(enc: Path, folder: Path) -> Path:
    archive.unpack(enc, folder)
    return folder / "enc-0"


def misspelt(folder: Path) -> None:
    path = folder / "config.pbtxt"
    path.write_text(path.read_text().replace("max_batch_size", "max_batch_sise"))


def on_the_cpu(folder: Path) -> None:
    path = folder / "config.pbtxt"
    path.write_text(path.read_text().replace("KIND_GPU", "KIND_CPU"))


def of_another_gpu(folder: Path) -> None:
    made.engine(compute_capability="8.9", gpu="NVIDIA L4").write(folder / "engine.json")


def of_another_tensorrt(folder: Path) -> None:
    made.write_engine(folder / "1", content=made.plan((10, 9, 0)), tensorrt="10.9.0")
    (folder / "1" / "engine.json").replace(folder / "engine.json")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (misspelt, "max_batch_sise"),
        (on_the_cpu, "TensorRT runs on KIND_GPU only"),
        (of_another_gpu, "(NVIDIA L4): the endpoint's has 8.6"),
        (of_another_tensorrt, "built by TensorRT 10.9.0: the serving image has 10.13.3"),
        (lambda folder: (folder / "1/model.plan").unlink(), "1/model.plan is missing"),
        (lambda folder: (folder / "config.pbtxt").unlink(), "neither a model's folder"),
    ],
)
def test_what_would_not_serve_is_refused_before_anything_is_sent(
    bucket: str, enc: Path, tmp_path: Path, spoil: Any, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = unpacked(enc, tmp_path / "unpacked")
    spoil(folder)
    capsys.readouterr()
    assert add("enc-1", folder) == 1
    printed = capsys.readouterr().err
    assert "nothing was uploaded" in printed and told in printed and printed.count("\n") == 1
    assert keys(bucket) == set()


@pytest.mark.parametrize("name", ["enc/1", "enc.tar.gz", "-enc", "e" * 64, ""])
def test_names_that_a_model_cannot_have(bucket: str, enc: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) if name.startswith("-") else contextlib.nullcontext():
        assert add(name, enc) == 1
        assert "a model's name has letters" in capsys.readouterr().err
    assert keys(bucket) == set()


def test_an_archive_of_another_model_or_none(
    bucket: str, enc: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert add("enc-1", enc) == 1
    assert "its folder is 'enc-0': it must have the model's name, 'enc-1'" in capsys.readouterr().err
    torn = tmp_path / "torn.tar.gz"
    torn.write_bytes(enc.read_bytes()[:-20])
    for path in (torn, tmp_path / "nowhere.tar.gz"):
        assert add("enc-0", path) == 1
        assert path.name in capsys.readouterr().err
    assert keys(bucket) == set()


def test_a_plan_larger_than_the_gpu(enc: Path) -> None:
    with pytest.raises(repository.RepositoryError, match="the plan has 728 bytes: the endpoint's GPU has 700"):
        repository.check(enc, gpu_memory=700)
    assert gpu_memory("NVIDIA A10G") == 24 * 2**30 and gpu_memory("NVIDIA Unheard-of") == 0


def test_a_name_is_never_used_for_other_content(
    bucket: str, enc: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert add("enc-0", enc) == 0
    assert add("enc-0", enc) == 1
    assert "already" in capsys.readouterr().err
    assert main(["models", "remove", "dev", "enc-0", "--yes"]) == 0
    other = unpacked(enc, tmp_path / "unpacked")
    (other / "README").write_text("another content")
    assert add("enc-0", other) == 1
    printed = capsys.readouterr().err
    assert "was another model" in printed and "under a new name" in printed
    assert add("enc-0", enc) == 0, "the same bytes again: no instance can be wrong about them"


def test_a_name_that_others_begin_with_is_free(bucket: str, enc: Path, tmp_path: Path) -> None:
    client("s3").put_object(Bucket=bucket, Key=f"{PREFIX}enc-00.tar.gz", Body=b"archive")
    assert add("enc-0", enc) == 0


def test_somebody_faster_keeps_the_name(
    bucket: str, enc: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = BaseClient._make_api_call  # type: ignore[attr-defined]

    def call(self: BaseClient, operation: str, kwargs: dict[str, Any]) -> Any:
        if operation == "CopyObject":
            assert kwargs["IfNoneMatch"] == "*"
            raise ClientError({"Error": {"Code": "PreconditionFailed", "Message": "there"}}, operation)
        return real(self, operation, kwargs)

    monkeypatch.setattr(BaseClient, "_make_api_call", call)
    assert add("enc-0", enc) == 1
    assert "somebody else added 'enc-0'" in capsys.readouterr().err
    assert keys(bucket) == set(), "what waited is gone"


def test_ctrl_c_and_a_lost_half_leave_nothing_that_the_endpoint_could_load(
    bucket: str, enc: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = BaseClient._make_api_call  # type: ignore[attr-defined]
    main_thread = threading.current_thread()

    def call(self: BaseClient, operation: str, kwargs: dict[str, Any]) -> Any:
        if operation == "HeadObject" and kwargs["Key"].startswith(WAITING):
            assert threading.current_thread() is main_thread
            if interrupt:
                raise KeyboardInterrupt
            return real(self, operation, kwargs) | {"ContentLength": 7}
        return real(self, operation, kwargs)

    monkeypatch.setattr(BaseClient, "_make_api_call", call)
    interrupt = True
    assert add("enc-0", enc) == 130
    assert keys(bucket) == set()
    interrupt = False
    assert add("enc-0", enc) == 1
    assert "7 bytes of" in capsys.readouterr().err and keys(bucket) == set()


def test_a_dry_run_sends_and_removes_nothing(bucket: str, enc: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert add("enc-0", enc, "--dry-run") == 0
    assert "Nothing was uploaded" in capsys.readouterr().out and keys(bucket) == set()
    assert add("enc-0", enc) == 0
    assert main(["models", "remove", "dev", "enc-0", "--dry-run"]) == 0
    assert "Nothing was removed" in capsys.readouterr().out and len(keys(bucket)) == 1


def test_removing_asks_and_promises_no_unloading(
    bucket: str, enc: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert add("enc-0", enc) == 0
    monkeypatch.setattr("builtins.input", lambda *_: "n")
    assert main(["models", "remove", "dev", "enc-0"]) == 1 and len(keys(bucket)) == 1
    assert main(["models", "remove", "dev", "enc-9"]) == 1
    assert "no model 'enc-9'. It has: enc-0" in capsys.readouterr().err
    assert main(["models", "remove", "dev", "enc-0", "--yes"]) == 0
    assert "go on answering for it" in capsys.readouterr().out and keys(bucket) == set()


def test_the_model_that_deploys_ask_stays(bucket: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("encoder-0", "encoder-1"):
        client("s3").put_object(Bucket=bucket, Key=f"{PREFIX}{name}.tar.gz", Body=b"archive")
    assert main(["models", "remove", "dev", "encoder-0", "--yes"]) == 1
    assert "'encoder-0' stays" in capsys.readouterr().err
    assert main(["models", "remove", "dev", "encoder-1", "--yes"]) == 0
    assert keys(bucket) == {f"{PREFIX}encoder-0.tar.gz"}


def test_without_an_endpoint_or_an_engine_it_is_said(
    bucket: str, enc: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models", "list", "prod"]) == 1
    assert "/torchlift/prod/text-encoding/models" in capsys.readouterr().err
    engine = f"engines/text-encoding/{BUILD}/engine.json"
    client("s3").put_object(Bucket=bucket, Key=engine, Body=b"{}")
    assert add("enc-0", enc) == 1
    assert f"s3://{bucket}/{engine}: not an engine.json" in capsys.readouterr().err
    client("s3").delete_object(Bucket=bucket, Key=engine)
    assert add("enc-0", enc) == 1
    assert "Deploy first" in capsys.readouterr().err and keys(bucket) == set()


def test_where_no_gpu_serves_models_are_for_the_cpu(
    account: None, enc: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    without = made.engine(tensorrt="none", gpu="CPU, by ONNX Runtime", compute_capability="none", precision="fp32")
    bucket = deployed.multi_model("dev", without)
    assert add("enc-0", enc) == 1, "an engine"
    printed = capsys.readouterr().err
    assert "backend is 'tensorrt_plan': without a GPU it is 'python'" in printed
    assert "enc-0/1/model.onnx is missing" in printed and keys(bucket) == set()
    config = model_config.make("enc-7", made.engine())
    path, _ = repository.write_for_cpu(tmp_path / "cpu", made.encoder(tmp_path / "7.onnx", 7), config)
    assert add("enc-8", path) == 1
    assert "its folder is 'enc-7'" in capsys.readouterr().err
    assert add("enc-7", path) == 0 and keys(bucket) == {f"{PREFIX}enc-7.tar.gz"}
    assert rows(capsys)[0]["gpu"] == "CPU, by ONNX Runtime"


def test_how_many_are_loaded_is_told_and_what_may_not_be_seen(
    bucket: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = BaseClient._make_api_call  # type: ignore[attr-defined]
    asked: list[dict[str, Any]] = []

    def call(self: BaseClient, operation: str, kwargs: dict[str, Any]) -> Any:
        if operation != "GetMetricData":
            return real(self, operation, kwargs)
        asked.append(kwargs)
        if denied:
            said = "User: x is not authorized to perform: cloudwatch:GetMetricData"
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": said}}, operation)
        minutes = {"loaded": [2.0, 3.0, 1.0], "hits": [7.0, 0.0], "requests": [7.0, 1.0]}
        return {"MetricDataResults": [{"Id": id, "Values": values} for id, values in minutes.items()]}

    monkeypatch.setattr(BaseClient, "_make_api_call", call)
    denied = False
    assert main(["models", "list", "dev"]) == 0
    printed = capsys.readouterr().out
    assert "up to 3 models on one instance" in printed and "88% of the requests" in printed
    metrics = [one["MetricStat"]["Metric"] for one in asked[0]["MetricDataQueries"]]
    assert [(one["Namespace"], one["MetricName"]) for one in metrics] == [
        ("/aws/sagemaker/Endpoints", "LoadedModelCount"),
        ("AWS/SageMaker", "ModelCacheHit"),
        ("AWS/SageMaker", "ModelCacheHit"),
    ]
    denied = True
    assert main(["models", "list", "dev"]) == 0
    assert "not allowed: cloudwatch:GetMetricData" in capsys.readouterr().out


def test_the_documented_policy_is_what_the_commands_ask_for() -> None:
    document = (REPO_ROOT / "docs/text-encoding.md").read_text()
    policy = json.loads(document.partition("```json")[2].partition("```")[0])
    granted: set[str] = set()
    for statement in policy["Statement"]:
        actions = statement["Action"]
        granted |= {actions} if isinstance(actions, str) else set(actions)
    helps = [inspect.getdoc(command) or "" for command in (list_models, add_model, remove_model, encode)]
    needed = {action for text in helps for action in re.findall(r"\b[a-z0-9]+:[A-Z]\w+", text)}
    assert needed - granted == {f"sagemaker:Describe{kind}" for kind in ("Endpoint", "EndpointConfig", "Model")}
    assert granted <= needed

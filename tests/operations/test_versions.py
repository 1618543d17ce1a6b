"""Model versions: what counts as one, which one serves, and that one comes, goes and moves whole or not at all."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from operations.cli import main
from operations.versions.store import Store, make_manifest
from operations.versions.transfer import model_files
from tests.operations import deployed
from tests.operations.deployed import client

A, B, C = "a" * 16, "b" * 16, "c" * 16

pytestmark = pytest.mark.usefixtures("account")


def rows(capsys: pytest.CaptureFixture[str], deployment: str = "dev") -> dict[str, dict[str, Any]]:
    capsys.readouterr()
    assert main(["versions", "list", deployment, "--json"]) == 0
    return {row["version"]: row for row in json.loads(capsys.readouterr().out)}


def keys(bucket: str) -> set[str]:
    return {item["Key"] for item in client("s3").list_objects_v2(Bucket=bucket).get("Contents", [])}


def test_only_complete_versions_count_and_the_serving_one_is_traced(capsys: pytest.CaptureFixture[str]) -> None:
    bucket = deployed.foundation("dev")
    for name in (A, B):
        deployed.version(bucket, name)
    deployed.version(bucket, C, complete=False)
    deployed.endpoint("dev", bucket, {"live": B, "challenger": A})
    client("ssm").put_parameter(
        Name="/torchlift/dev/sentiment/model", Value=f"s3://{bucket}/weights/sentiment/{B}/", Type="String"
    )
    found = rows(capsys)
    assert set(found) == {A, B}
    assert found[B]["in_service"] == ["live"] and found[A]["in_service"] == ["challenger"]
    assert found[B]["wanted_by"] == ["last deploy"] and found[A]["wanted_by"] == []
    assert found[A]["held_out"] == {"f1": 0.7} and found[A]["made_by"] == "sentiment-train"
    assert found[A]["base_model"] == "inputs/aaaa/" and found[A]["bytes"] == 16 + 25
    assert main(["versions", "list", "dev"]) == 0
    printed = capsys.readouterr().out
    assert A in printed and "f1 0.7" in printed and "variant live" in printed and "cdk deploy" in printed


def test_show_has_metrics_and_files(capsys: pytest.CaptureFixture[str]) -> None:
    deployed.version(deployed.foundation("dev"), A)
    assert main(["versions", "show", "dev", A]) == 0
    printed = capsys.readouterr().out
    assert "held_out.f1" in printed and "model.safetensors" in printed and "16 bytes" in printed


@pytest.mark.parametrize("name", [C, "latest"])
def test_an_unknown_version_is_one_sentence(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    deployed.version(deployed.foundation("dev"), A)
    assert main(["versions", "show", "dev", name]) == 1
    printed = capsys.readouterr().err
    assert name in printed and (A in printed or "16 digits" in printed) and len(printed.splitlines()) == 1


def test_a_deployment_without_bucket_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["versions", "list", "dev"]) == 1
    assert "Torchlift-dev-Foundation" in capsys.readouterr().err


def test_publishing_twice_makes_one_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bucket = deployed.foundation("dev")
    folder = deployed.model_folder(tmp_path / "model", value=3)
    (folder / "optimizer.pt").write_bytes(b"state")
    assert main(["versions", "publish", "dev", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "optimizer.pt" in printed and "is published" in printed and "[sentiment]" in printed
    (name, row), = rows(capsys).items()  # fmt: skip
    assert f'version = "{name}"' in printed and row["held_out"] == {"macro_recall": 0.53}
    assert f"weights/sentiment/{name}/optimizer.pt" not in keys(bucket)
    assert main(["versions", "publish", "dev", str(folder)]) == 0
    assert "is there already" in capsys.readouterr().out
    assert set(rows(capsys)) == {name}


def test_another_content_is_another_version(tmp_path: Path) -> None:
    made = set()
    for value in (1, 2):
        folder = deployed.model_folder(tmp_path / str(value), value=value)
        made.add(make_manifest(folder, model_files(folder), created_by="test")[0])
    assert len(made) == 2


def test_jobs_accept_what_was_published(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("job_manifest", Path("scripts/manifest.py"))
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    folder = deployed.model_folder(tmp_path / "model")
    raw = make_manifest(folder, model_files(folder), created_by="test")[1]
    (tmp_path / "manifest.json").write_bytes(raw)
    assert script.verify(folder, tmp_path / "manifest.json", exact=True, prune=False) == []
    assert script.make(folder, tmp_path / "job.json") == []
    assert json.loads(raw).keys() == json.loads((tmp_path / "job.json").read_text()).keys()


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda folder: (folder / "tokenizer.json").unlink(), "tokenizer.json"),
        (lambda folder: (folder / "config.json").write_text("{}"), "config.json"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"half"), "safetensors"),
        (lambda folder: (folder / "probe.json").write_text("{}"), "probe.json"),
    ],
)
def test_a_folder_that_would_not_serve_is_refused_before_anything_is_sent(
    spoil: Any, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket = deployed.foundation("dev")
    folder = deployed.model_folder(tmp_path / "model")
    spoil(folder)
    assert main(["versions", "publish", "dev", str(folder)]) == 1
    assert told in capsys.readouterr().err
    assert keys(bucket) == set()


def test_ctrl_c_leaves_nothing_half_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket = deployed.foundation("dev")
    folder = deployed.model_folder(tmp_path / "model")
    real = Store.upload
    sent: list[str] = []

    def upload(store: Store, name: str, file: str, source: Path, progress: Any) -> None:
        if len(sent) == 2:
            assert len(keys(bucket)) == 2
            raise KeyboardInterrupt
        sent.append(file)
        real(store, name, file, source, progress)

    monkeypatch.setattr(Store, "upload", upload)
    assert main(["versions", "publish", "dev", str(folder)]) == 130
    assert "interrupted" in capsys.readouterr().err
    assert keys(bucket) == set()


def test_an_upload_that_was_lost_makes_no_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket = deployed.foundation("dev")
    real = Store.upload

    def upload(store: Store, name: str, file: str, source: Path, progress: Any) -> None:
        if file != "config.json":
            real(store, name, file, source, progress)

    monkeypatch.setattr(Store, "upload", upload)
    assert main(["versions", "publish", "dev", str(deployed.model_folder(tmp_path / "model"))]) == 1
    assert "config.json" in capsys.readouterr().err
    assert keys(bucket) == set()


def test_promotion_copies_everything_once_and_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    source, target = deployed.foundation("dev"), deployed.foundation("prod")
    deployed.version(source, A)
    assert main(["versions", "promote", "dev", "prod", A]) == 0
    printed = capsys.readouterr().out
    assert (
        "deployments/prod.toml" in printed
        and f'version = "{A}"' in printed
        and "cdk deploy -c deployment=prod" in printed
    )
    assert keys(source) == keys(target)
    s3 = client("s3")
    manifest = f"weights/sentiment/{A}/manifest.json"
    assert len({s3.get_object(Bucket=bucket, Key=manifest)["Body"].read() for bucket in (source, target)}) == 1
    assert rows(capsys, "prod")[A]["made_by"] == "sentiment-train, from dev"
    assert main(["versions", "promote", "dev", "prod", A]) == 0
    assert "already" in capsys.readouterr().out


def test_promotion_stops_at_content_that_differs_from_the_manifest(capsys: pytest.CaptureFixture[str]) -> None:
    source, target = deployed.foundation("dev"), deployed.foundation("prod")
    deployed.version(source, A)
    client("s3").put_object(Bucket=source, Key=f"weights/sentiment/{A}/model.safetensors", Body=b"x" * 16)
    assert main(["versions", "promote", "dev", "prod", A]) == 1
    assert "SHA-256" in capsys.readouterr().err
    assert keys(target) == set()


def test_promotion_refuses_another_version_of_the_same_name(capsys: pytest.CaptureFixture[str]) -> None:
    deployed.version(deployed.foundation("dev"), A)
    target = deployed.foundation("prod")
    deployed.version(target, A, files={"model.safetensors": b"other"})
    before = keys(target)
    assert main(["versions", "promote", "dev", "prod", A]) == 1
    assert "another manifest" in capsys.readouterr().err
    assert keys(target) == before


def test_profiles_that_do_not_exist_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["versions", "promote", "dev", "prod", A, "--from-profile", "nobody"]) == 1
    assert "nobody" in capsys.readouterr().err


@pytest.mark.parametrize("user", ["endpoint", "last deploy"])
def test_a_version_in_use_is_not_deleted(user: str, capsys: pytest.CaptureFixture[str]) -> None:
    bucket = deployed.foundation("dev")
    deployed.version(bucket, A)
    if user == "endpoint":
        deployed.endpoint("dev", bucket, {"live": A})
    else:
        uri = f"s3://{bucket}/weights/sentiment/{A}/"
        client("ssm").put_parameter(Name="/torchlift/dev/sentiment/model", Value=uri, Type="String")
    assert main(["versions", "delete", "dev", A, "--yes"]) == 1
    assert "in use" in capsys.readouterr().err
    assert A in rows(capsys)


def test_nothing_is_deleted_while_it_is_unknown_what_serves(capsys: pytest.CaptureFixture[str]) -> None:
    bucket = deployed.foundation("dev")
    deployed.version(bucket, A)
    deployed.endpoint("dev", bucket, {"live": A}, inputs=False)
    assert main(["versions", "delete", "dev", A, "--yes"]) == 1
    assert "does not say" in capsys.readouterr().err
    assert A in rows(capsys)


def test_deleting_asks_first_and_takes_the_manifest_before_the_rest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket = deployed.foundation("dev")
    deployed.version(bucket, A)
    deployed.version(bucket, B)
    monkeypatch.setattr("builtins.input", lambda *_: "n")
    assert main(["versions", "delete", "dev", A]) == 1
    assert set(rows(capsys)) == {A, B}

    def clear(store: Store, name: str) -> None:
        raise ClientError({"Error": {"Code": "SlowDown", "Message": "later"}}, "DeleteObjects")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "clear", clear)
        assert main(["versions", "delete", "dev", A, "--yes"]) == 1
    assert set(rows(capsys)) == {B}, "half deleted is no version"
    deployed.version(bucket, A)
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    assert main(["versions", "delete", "dev", A]) == 0
    assert not [key for key in keys(bucket) if A in key]


def test_a_refusal_of_aws_names_the_action(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    deployed.foundation("dev")

    def refuse(self: Any, operation: str, kwargs: Any) -> Any:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, operation)

    monkeypatch.setattr("botocore.client.BaseClient._make_api_call", refuse)
    assert main(["versions", "list", "dev"]) == 1
    printed = capsys.readouterr().err
    assert "not allowed: DescribeStacks" in printed and "Traceback" not in printed

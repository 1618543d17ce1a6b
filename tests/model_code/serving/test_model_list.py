"""models.json from a file and from S3, and models from S3."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from model_code.serving import model_list, sources
from model_code.serving.model_list import Entry, ModelListError, ModelListFile
from model_code.serving.settings import Settings
from model_code.serving.sources import SourceError
from tests.support.aws import REGION, aws_environment, moto_server

ONE = {"name": "a", "source": "/models/a"}


def listing(*models: Any) -> str:
    return json.dumps({"schema": 1, "models": list(models)})


def test_entries() -> None:
    entries = model_list.parse(listing({**ONE, "weight": 9}, {"name": "b", "source": "s3://x/y/"}))
    assert entries == [
        Entry(name="a", source="/models/a", weight=9.0), Entry(name="b", source="s3://x/y/", weight=1.0)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not valid JSON"),
        ("[]", "expected"),
        ('{"schema": 2, "models": []}', "expected"),
        (listing(), "at least one"),
        (listing(ONE, ONE), "a name is there twice"),
        (listing({**ONE, "weight": 0}), "every weight is 0"),
        (listing({**ONE, "weight": -1}), r"models\[0\].weight: -1"),
        (listing({**ONE, "weight": True}), r"models\[0\].weight: True"),
        (listing({**ONE, "name": "../a"}), r"models\[0\].name"),
        (listing({"name": "a"}), r"models\[0\].source"),
        (listing({**ONE, "wieght": 1}), "expected an object with name, source and weight"),
        (listing(7), "expected an object"),
    ],
)
def test_mistakes(text: str, said: str) -> None:
    with pytest.raises(ModelListError, match=said):
        model_list.parse(text)


def test_a_file_is_given_once_for_each_change(tmp_path: Path) -> None:
    path = tmp_path / "models.json"
    file = ModelListFile(Settings(models=str(path)))
    with pytest.raises(ModelListError, match="No such file"):
        file.changed()
    path.write_text(listing(ONE))
    assert [entry.name for entry in file.changed() or []] == ["a"]
    assert file.changed() is None
    path.write_text("broken")
    with pytest.raises(ModelListError):
        file.changed()
    path.write_text(listing({**ONE, "name": "b"}))
    assert [entry.name for entry in file.changed() or []] == ["b"]
    file.forget()
    assert file.changed() is not None


def test_one_model_several_times() -> None:
    file = ModelListFile(Settings(model_source="/m", num_models_per_server=3))
    assert [entry.name for entry in file.changed() or []] == ["model_0", "model_1", "model_2"]
    assert file.changed() is None


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with moto_server() as endpoint:
        for name, value in aws_environment(endpoint).items():
            monkeypatch.setenv(name, value)
        client = boto3.client("s3")
        client.create_bucket(Bucket="models", CreateBucketConfiguration={"LocationConstraint": REGION})
        yield client
        for entry in client.list_objects_v2(Bucket="models").get("Contents", []):  # moto keeps its state
            client.delete_object(Bucket="models", Key=entry["Key"])
        client.delete_bucket(Bucket="models")


def test_a_list_in_s3_is_read_again_when_its_etag_changes(bucket: Any) -> None:
    file = ModelListFile(Settings(models="s3://models/models.json"))
    with pytest.raises(ModelListError, match=r"s3://models/models\.json: .*NoSuchKey"):
        file.changed()
    bucket.put_object(Bucket="models", Key="models.json", Body=listing(ONE))
    assert [entry.name for entry in file.changed() or []] == ["a"]
    assert file.changed() is None
    bucket.put_object(Bucket="models", Key="models.json", Body=listing({**ONE, "name": "b"}))
    assert [entry.name for entry in file.changed() or []] == ["b"]


def publish(bucket: Any, **files: bytes) -> None:
    entries = [
        {"path": path, "size": len(body), "sha256": hashlib.sha256(body).hexdigest()} for path, body in files.items()
    ]
    for path, body in files.items():
        bucket.put_object(Bucket="models", Key=f"qa/{path}", Body=body)
    bucket.put_object(Bucket="models", Key="qa/manifest.json", Body=json.dumps({"schema": 1, "files": entries}))


def test_a_model_from_s3_is_whole_or_absent(bucket: Any, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="NoSuchKey"):
        sources.folder_of("s3://models/qa/", cache=tmp_path)
    publish(bucket, model=b"weights", tokenizer=b"words")
    bucket.put_object(Bucket="models", Key="qa/model", Body=b"other..")
    with pytest.raises(SourceError, match=r"'model' is not the file of manifest\.json"):
        sources.folder_of("s3://models/qa/", cache=tmp_path)
    assert list(tmp_path.iterdir()) == []
    publish(bucket, model=b"weights", tokenizer=b"words")
    folder = sources.folder_of("s3://models/qa/", cache=tmp_path)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == {"model": b"weights", "tokenizer": b"words"}
    bucket.delete_object(Bucket="models", Key="qa/manifest.json")
    assert sources.folder_of("s3://models/qa/", cache=tmp_path) == folder  # once is enough


def test_names_cannot_leave_the_folder(bucket: Any, tmp_path: Path) -> None:
    publish(bucket, **{"../evil": b"x"})
    with pytest.raises(SourceError, match="unsafe name"):
        sources.folder_of("s3://models/qa", cache=tmp_path / "cache")
    assert not (tmp_path / "evil").exists()


def test_addresses() -> None:
    assert sources.split_s3("s3://b/k/l") == ("b", "k/l")
    for wrong in ("s3://", "s3://b", "s3:///k", "https://b/k"):
        with pytest.raises(SourceError):
            sources.split_s3(wrong)

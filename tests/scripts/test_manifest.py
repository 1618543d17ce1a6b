"""scripts/manifest.py by itself: names, sizes and content."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "manifest.py"


@pytest.fixture(scope="module")
def manifest() -> ModuleType:
    spec = importlib.util.spec_from_file_location("job_manifest", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "output" / "sub").mkdir(parents=True)
    (tmp_path / "output" / "model.bin").write_text("weights")
    (tmp_path / "output" / "sub" / "ä name.json").write_text("{}")
    return tmp_path / "output"


@pytest.fixture
def written(manifest: ModuleType, folder: Path, tmp_path: Path) -> Path:
    path = tmp_path / "manifest.json"
    assert manifest.make(folder, path) == []
    return path


def test_a_folder_agrees_with_its_own_manifest(manifest: ModuleType, folder: Path, written: Path) -> None:
    assert manifest.verify(folder, written, exact=True, prune=False) == []


def test_a_manifest_says_what_its_result_was_made_from_and_not_in_whose_bucket(
    manifest: ModuleType, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHLIFT_INPUTS", "weights=s3://bucket/weights/ab/ data=plain+s3://theirs/folder/")
    assert manifest.make(folder, tmp_path / "manifest.json") == []
    text = (tmp_path / "manifest.json").read_text()
    assert json.loads(text)["inputs"] == {"weights": "weights/ab/", "data": "folder/"}
    assert "bucket" not in text and "theirs" not in text


@pytest.mark.parametrize(
    ("content", "said"), [("wEights", "SHA-256 differs"), ("w", "has 1 bytes, not 7"), (None, "is missing")]
)
def test_every_difference_is_named(
    manifest: ModuleType, folder: Path, written: Path, content: str | None, said: str
) -> None:
    if content is None:
        (folder / "model.bin").unlink()
    else:
        (folder / "model.bin").write_text(content)
    problems = manifest.verify(folder, written, exact=False, prune=False)
    assert len(problems) == 1
    assert "model.bin" in problems[0]
    assert said in problems[0]


def test_further_files_are_an_error_or_removed(manifest: ModuleType, folder: Path, written: Path) -> None:
    (folder / "stray").write_text("x")
    assert manifest.verify(folder, written, exact=True, prune=False) == ["'stray' is not in the manifest"]
    assert manifest.verify(folder, written, exact=False, prune=True) == []
    assert not (folder / "stray").exists()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"schema": 1}', '{"schema": 1, "files": [{}]}', '{"schema": 2, "files": []}']
)
def test_a_manifest_that_cannot_be_understood_is_a_problem(
    manifest: ModuleType, folder: Path, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    assert manifest.verify(folder, path, exact=False, prune=False)


@pytest.mark.parametrize(
    "name",
    ["../outside", "/etc/passwd", "a/../../b", "a//b", ".", "-rf", "a/-rf", "~root", "a\nb", "a\\b", "\x07", ""],
)
def test_unsafe_names_are_refused(manifest: ModuleType, folder: Path, tmp_path: Path, name: str) -> None:
    assert manifest.unsafe(name)
    path = tmp_path / "bad.json"
    path.write_text(json.dumps({"schema": 1, "files": [{"path": name, "size": 1, "sha256": "0" * 64}]}))
    problems = manifest.verify(folder, path, exact=False, prune=True)
    assert "unsafe name" in problems[0]
    assert (folder / "model.bin").exists(), "nothing is removed on the word of such a manifest"


@pytest.mark.parametrize("name", ["model.bin", "sub/a b.json", ".hidden", "größe.txt", "a-b_c=1+2,3"])
def test_ordinary_names_are_accepted(manifest: ModuleType, name: str) -> None:
    assert not manifest.unsafe(name)


def test_what_may_not_be_published(manifest: ModuleType, folder: Path, tmp_path: Path) -> None:
    (folder / "passwd").symlink_to("/etc/passwd")
    (folder / "manifest.json").write_text("{}")
    problems = manifest.make(folder, tmp_path / "m.json")
    assert problems == ["'passwd' is a symbolic link", "'manifest.json' is the name of the manifest itself"]
    (tmp_path / "empty").mkdir()
    assert manifest.make(tmp_path / "empty", tmp_path / "m.json") == ["nothing to publish: the folder is empty"]
    assert not (tmp_path / "m.json").exists()


def test_a_listing_is_compared_with_a_manifest(manifest: ModuleType, written: Path, tmp_path: Path) -> None:
    listing = tmp_path / "listing.json"
    contents = [
        {"Key": "weights/h/model.bin", "Size": 7},
        {"Key": "weights/h/sub/", "Size": 0},
        {"Key": "weights/h/sub/ä name.json", "Size": 2},
    ]
    listing.write_text(json.dumps({"Contents": contents}))
    assert manifest.listed(listing, "weights/h/", written) == []
    contents[0]["Size"] = 6
    listing.write_text(json.dumps({"Contents": contents}))
    assert manifest.listed(listing, "weights/h/", written) == ["'model.bin' differs"]
    listing.write_text("")
    assert len(manifest.listed(listing, "weights/h/", written)) == 2


def test_a_copy_is_compared_with_its_listing(manifest: ModuleType, folder: Path, tmp_path: Path) -> None:
    listing = tmp_path / "listing.json"
    listing.write_text(json.dumps({"Contents": [{"Key": "mine/model.bin", "Size": 7}]}))
    assert manifest.copied(listing, "mine/", folder) == []
    listing.write_text(json.dumps({"Contents": [{"Key": "mine/other.bin", "Size": 7}]}))
    assert manifest.copied(listing, "mine/", folder) == ["'other.bin' is missing or has another size"]
    listing.write_text("{}")
    assert manifest.copied(listing, "mine/", folder) == ["there is nothing under 'mine/'"]

"""Publication is atomic, and nothing half-uploaded or altered is ever taken for a result."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import pytest

from tests.scripts.conftest import Workbench

PREFIX = "weights/test/0123456789abcdef/"


def folder_with(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return folder_with(tmp_path / "output", {"model.bin": "weights", "sub/config file.json": "{}"})


def uri(bench: Workbench) -> str:
    return bench.environment["TORCHLIFT_RESULT"]


def test_publish_writes_files_and_a_manifest_and_leaves_nothing_temporary(bench: Workbench, output: Path) -> None:
    done = bench.run("scripts/publish.sh", str(output), uri(bench), CODEBUILD_BUILD_ID="project:1")
    assert done.returncode == 0, done.stderr
    assert bench.keys() == [f"{PREFIX}manifest.json", f"{PREFIX}model.bin", f"{PREFIX}sub/config file.json"]
    manifest = bench.manifest(PREFIX)
    assert manifest["schema"] == 1
    assert manifest["hash"] == "0123456789abcdef"
    assert manifest["job"] == "test-job"
    assert manifest["created_by"] == "project:1"
    digest = hashlib.sha256(b"weights").hexdigest()
    assert manifest["files"][0] == {"path": "model.bin", "size": 7, "sha256": digest}
    assert [entry["path"] for entry in manifest["files"]] == ["model.bin", "sub/config file.json"]
    assert set(manifest["versions"]) == {"python", "source"}
    # Deterministic key order.
    text = bench.read(f"{PREFIX}manifest.json").decode()
    assert text == json.dumps(manifest, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def test_what_was_published_is_fetched_and_nothing_else_and_not_published_again(bench: Workbench, output: Path) -> None:
    bench.run("scripts/publish.sh", str(output), uri(bench))
    bench.put(f"{PREFIX}stray.py", "print()")
    target = bench.folder / "fetched"
    done = bench.run("scripts/fetch.sh", uri(bench), str(target))
    assert done.returncode == 0, done.stderr
    assert f"torchlift: fetched {uri(bench)}" in done.stdout
    assert (target / "model.bin").read_text() == "weights"
    assert (target / "sub/config file.json").read_text() == "{}"
    assert sorted(path.name for path in target.iterdir()) == ["model.bin", "sub"]
    assert [path.name for path in bench.folder.glob(".fetch-*")] == []

    (output / "model.bin").write_text("others")
    done = bench.run("scripts/publish.sh", str(output), uri(bench))
    assert done.returncode == 0
    assert "there already" in done.stdout
    assert bench.read(f"{PREFIX}model.bin") == b"weights"


def test_an_upload_that_arrives_damaged_is_refused(bench: Workbench, output: Path) -> None:
    # Same size, other content: only the comparison of content can tell.
    bench.program(
        "aws",
        """
case "$*" in
  "s3 cp "*--recursive*output*/tmp/*)
    source="${@: -2:1}"; cp -r "$source" "$source.damaged"; printf WEIGHTS >"$source.damaged/model.bin"
    set -- "${@:1:$#-2}" "$source.damaged" "${@: -1:1}" ;;
esac
exec "$REAL" "$@"
""",
    )
    done = bench.run("scripts/publish.sh", str(output), uri(bench))
    assert done.returncode != 0
    assert "'model.bin' has other content" in done.stderr
    assert bench.keys() == []


@pytest.mark.parametrize(
    ("fails_at", "calls"),
    [
        ("upload", "*--recursive*output*/tmp/*"),
        ("copy", "*--recursive*s3://*/tmp/*s3://*/weights/*"),
        ("manifest", "*/manifest.json*s3://*manifest.json"),
    ],
)
def test_a_publication_that_breaks_off_leaves_no_result(
    bench: Workbench, output: Path, fails_at: str, calls: str
) -> None:
    bench.program("aws", f'case "$*" in {calls}) echo "connection lost" >&2; exit 1 ;; esac\nexec "$REAL" "$@"')
    done = bench.run("scripts/publish.sh", str(output), uri(bench))
    assert done.returncode != 0
    assert "connection lost" in done.stderr
    left = bench.keys()
    assert f"{PREFIX}manifest.json" not in left
    assert bool(left) == (fails_at == "manifest"), "only the last step leaves files in place"
    assert bench.keys("tmp/") == []
    if fails_at == "manifest":
        (bench.bin / "aws").unlink()
        bench.put(f"{PREFIX}old-shard.bin", "from an attempt that died")
        again = bench.run("scripts/publish.sh", str(output), uri(bench))
        assert again.returncode == 0, again.stderr
        placed = bench.keys(PREFIX)
        assert f"{PREFIX}manifest.json" in placed
        assert f"{PREFIX}old-shard.bin" not in placed


def test_a_prefix_without_its_manifest_is_no_result(bench: Workbench) -> None:
    bench.put(f"{PREFIX}model.bin", "weights")
    done = bench.run("scripts/fetch.sh", uri(bench), str(bench.folder / "fetched"))
    assert done.returncode != 0
    assert "has no manifest.json" in done.stderr
    assert not (bench.folder / "fetched").exists()


def test_fetch_refuses_what_was_altered_since(bench: Workbench, output: Path) -> None:
    bench.run("scripts/publish.sh", str(output), uri(bench))
    bench.put(f"{PREFIX}model.bin", "wEights")
    target = folder_with(bench.folder / "fetched", {"earlier": "content"})
    done = bench.run("scripts/fetch.sh", uri(bench), str(target))
    assert done.returncode != 0
    assert "'model.bin' has other content" in done.stderr
    assert (target / "earlier").read_text() == "content", "a failed fetch changes nothing"


def test_fetch_refuses_a_manifest_that_names_a_file_outside(bench: Workbench) -> None:
    entry = {"path": "../outside", "size": 1, "sha256": hashlib.sha256(b"x").hexdigest()}
    bench.put(f"{PREFIX}manifest.json", json.dumps({"schema": 1, "files": [entry]}))
    done = bench.run("scripts/fetch.sh", uri(bench), str(bench.folder / "in" / "fetched"))
    assert done.returncode != 0
    assert "unsafe name" in done.stderr
    assert not (bench.folder / "outside").exists()


def test_publish_refuses_a_folder_with_an_unsafe_name(bench: Workbench, output: Path) -> None:
    (output / "line\nbreak").write_text("x")
    done = bench.run("scripts/publish.sh", str(output), uri(bench))
    assert done.returncode != 0
    assert "unsafe name" in done.stderr
    assert bench.keys() == []


def test_an_archive_is_unpacked(bench: Workbench, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "asset.zip", "w") as archive:
        archive.writestr("data/train_text.txt", "a line\n")
    bench.put("assets/asset.zip", (tmp_path / "asset.zip").read_bytes())
    target = tmp_path / "fetched"
    done = bench.run("scripts/fetch.sh", f"s3://{bench.bucket}/assets/asset.zip", str(target))
    assert done.returncode == 0, done.stderr
    assert (target / "data/train_text.txt").read_text() == "a line\n"


def test_a_damaged_archive_is_refused(bench: Workbench, tmp_path: Path) -> None:
    bench.put("assets/asset.zip", b"PK\x03\x04 no archive")
    done = bench.run("scripts/fetch.sh", f"s3://{bench.bucket}/assets/asset.zip", str(tmp_path / "fetched"))
    assert done.returncode != 0
    assert "no sound zip file" in done.stderr


def test_a_users_own_prefix_is_fetched_as_plain(bench: Workbench, tmp_path: Path) -> None:
    bench.put("mine/", b"")
    bench.put("mine/config.json", "{}")
    bench.put("mine/deep/weights.bin", "w")
    done = bench.run("scripts/fetch.sh", f"plain+s3://{bench.bucket}/mine/", str(tmp_path / "fetched"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "fetched/deep/weights.bin").read_text() == "w"
    done = bench.run("scripts/fetch.sh", f"plain+s3://{bench.bucket}/nothing/", str(tmp_path / "fetched"))
    assert done.returncode != 0
    assert "nothing under" in done.stderr


@pytest.mark.parametrize("bad", ["https://bucket/key", "s3://bucket", "s3:///key", "weights/"])
def test_a_uri_of_another_kind_is_refused(bench: Workbench, output: Path, bad: str) -> None:
    assert bench.run("scripts/fetch.sh", bad, str(bench.folder / "fetched")).returncode != 0
    assert bench.run("scripts/publish.sh", str(output), bad).returncode != 0


def test_a_bucket_that_is_not_there_is_an_error_not_an_absence(bench: Workbench, output: Path) -> None:
    done = bench.run("scripts/publish.sh", str(output), "s3://no-such-bucket-here/weights/x/")
    assert done.returncode != 0
    assert "cannot look for" in done.stderr


def test_a_folder_with_a_place_of_its_own_is_copied_there_before_the_manifest(bench: Workbench, output: Path) -> None:
    bucket = uri(bench).removeprefix("s3://").partition("/")[0]
    bench.put("models/test/0123456789abcdef/added.tar.gz", "somebody's")
    copies = f"sub/=s3://{bucket}/models/test/0123456789abcdef/"
    done = bench.run("scripts/publish.sh", str(output), uri(bench), TORCHLIFT_COPIES=copies)
    assert done.returncode == 0, done.stderr
    assert bench.keys() == [
        "models/test/0123456789abcdef/added.tar.gz",
        "models/test/0123456789abcdef/config file.json",
        f"{PREFIX}manifest.json", f"{PREFIX}model.bin", f"{PREFIX}sub/config file.json",
    ]  # fmt: skip
    assert bench.read("models/test/0123456789abcdef/added.tar.gz") == b"somebody's"


def test_a_result_without_the_folder_is_not_published(bench: Workbench, output: Path) -> None:
    done = bench.run("scripts/publish.sh", str(output), uri(bench), TORCHLIFT_COPIES="archives/=s3://bucket/models/")
    assert done.returncode != 0
    assert "has no archives/" in done.stderr
    published = bench.keys()
    assert f"{PREFIX}manifest.json" not in published

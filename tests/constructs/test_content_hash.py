"""What a job's hash sees, and what it must not see."""

from __future__ import annotations

import math
import os
from pathlib import Path

import aws_cdk as cdk
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchlift.content_hash import digest, digest_files, job_hash
from torchlift.handler_function import handler_files
from torchlift.staging import REPO_ROOT, collect, copy_files

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-1e200, 1e200) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def of(**changes: object) -> str:
    arguments: dict[str, object] = {"job": "train", "bundle_hash": "b", "parameters": {"rate": 1e-5}, "image": "i"}
    return job_hash(**{**arguments, **changes})  # type: ignore[arg-type]


def test_sixteen_digits() -> None:
    assert len(of()) == 16
    assert set(of()) <= set("0123456789abcdef")


@pytest.mark.parametrize(
    "changes", [{"job": "other"}, {"bundle_hash": "c"}, {"parameters": {"rate": 2e-5}}, {"image": "j"}]
)
def test_everything_counts(changes: dict[str, object]) -> None:
    assert of(**changes) != of()


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4))
def test_order_does_not_count(document: dict[str, object]) -> None:
    assert digest(dict(reversed(document.items()))) == digest(document)


TOKENS = {
    "text": cdk.Aws.REGION,
    "inside": {"a": [f"arn:{cdk.Aws.PARTITION}:s3"]},
    "key": {cdk.Aws.REGION: 1},
    "number": cdk.Token.as_number({"Ref": "X"}),
    "list": cdk.Token.as_list({"Ref": "X"}),
    "function": cdk.Fn.join("", ["a", cdk.Fn.ref("X")]),
}


@pytest.mark.parametrize("value", TOKENS.values(), ids=TOKENS)
def test_tokens_are_refused(value: object) -> None:
    """Their text differs from one synthesis to the next."""
    with pytest.raises(ValueError, match=r"\$.*token"):
        digest(value)


@pytest.mark.parametrize(("value", "error"), [(math.nan, ValueError), (math.inf, ValueError), ({1, 2}, TypeError)])
def test_what_has_no_json_form_is_refused(value: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        digest(value)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    (root / "code" / "inner").mkdir(parents=True)
    (root / "code" / "a.py").write_text("a = 1\n")
    (root / "code" / "inner" / "run.sh").write_text("echo\n")
    return root


def tree_hash(root: Path) -> str:
    return digest_files(collect(root=root, paths=["code"]))


@pytest.mark.parametrize(
    "name",
    [
        "__pycache__/a.cpython-313.pyc",
        "a.pyc",
        ".DS_Store",
        "a.py~",
        ".a.py.swp",
        ".ruff_cache/x",
        ".ipynb_checkpoints/a",
    ],
)
def test_what_a_checkout_collects_does_not_count(name: str, tree: Path) -> None:
    before = tree_hash(tree)
    file = tree / "code" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("collected")
    assert tree_hash(tree) == before


def test_times_modes_and_place_do_not_count(tree: Path, tmp_path: Path) -> None:
    before = tree_hash(tree)
    os.utime(tree / "code" / "a.py", (0, 0))
    (tree / "code" / "a.py").chmod(0o755)
    (tree / "code" / "empty").mkdir()
    tree.rename(tmp_path / "elsewhere")
    assert tree_hash(tmp_path / "elsewhere") == before


def test_names_and_contents_count(tree: Path) -> None:
    before = tree_hash(tree)
    (tree / "code" / "a.py").rename(tree / "code" / "b.py")
    renamed = tree_hash(tree)
    (tree / "code" / "b.py").write_text("a = 2\n")
    assert len({before, renamed, tree_hash(tree)}) == 3


@pytest.mark.parametrize("path", ["missing", "../outside", "/etc/hostname", "code/empty"])
def test_paths_that_cannot_be_staged(path: str, tree: Path) -> None:
    (tree / "code" / "empty").mkdir()
    with pytest.raises(ValueError, match=r"does not exist|below the repository|no file"):
        collect(root=tree, paths=[path])


def test_links_are_refused(tree: Path) -> None:
    (tree / "code" / "link").symlink_to("/etc/hostname")
    with pytest.raises(ValueError, match="symbolic link"):
        collect(root=tree, paths=["code"])


def test_exclusions(tree: Path) -> None:
    assert list(collect(root=tree, paths=["code"], exclude=["inner"])) == ["code/a.py"]
    assert list(collect(root=tree, paths=["code"], exclude=["code/a.py"])) == ["code/inner/run.sh"]


def test_copies_have_the_same_modes_everywhere(tree: Path, tmp_path: Path) -> None:
    (tree / "code" / "a.py").chmod(0o777)
    copy_files(files=collect(root=tree, paths=["code"]), target=tmp_path / "copy")
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "copy").rglob("*") if path.is_file()}
    assert modes == {"a.py": 0o644, "run.sh": 0o755}


@pytest.mark.parametrize(
    "handler", ["start_job", "signal_job", "empty_bucket", "close_default_group", "drain_interfaces", "verify_endpoint"]
)
def test_a_handler_is_packed_with_its_path_and_without_the_others(handler: str) -> None:
    files = handler_files(handler)
    assert f"torchlift/handlers/{handler}/handler.py" in files
    folders = {name.split("/")[2] for name in files if name.count("/") > 2}
    assert folders == {handler, "_shared"}
    assert all(path.is_relative_to(REPO_ROOT) for path in files.values())

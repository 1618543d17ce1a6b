"""The archive: its contents, its bytes, and what it refuses to pack or unpack."""

from __future__ import annotations

import ast
import copy
import gzip
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from model_code import archive
from model_code.archive import ArchiveError, unpack
from model_code.sentiment import probe
from model_code.sentiment.package import CODE, main, package

REPOSITORY = Path(__file__).parents[2]
PROBE: dict[str, Any] = {
    "schema": 1,
    "content_type": "application/json",
    "tolerance": 0.05,
    "labels": ["negative", "positive"],
    "cases": [
        {
            "request": {"inputs": ["good film"]},
            "answer": [[{"label": "positive", "score": 0.9}, {"label": "negative", "score": 0.1}]],
        }
    ],
}


@pytest.fixture
def weights(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "weights"))


def test_model_files_lie_at_the_top_and_the_handler_below_code(weights: Path, tmp_path: Path) -> None:
    package(weights, tmp_path / "model.tar.gz")
    names = unpack(tmp_path / "model.tar.gz", tmp_path / "model")
    assert names == sorted(names)
    assert {"config.json", "model.safetensors", "tokenizer.json", "metrics.json", "code/inference.py"} <= set(names)
    assert {name.split("/")[0] for name in names if "/" in name} == {"code"}
    assert (tmp_path / "model" / "model.safetensors").read_bytes() == (weights / "model.safetensors").read_bytes()


def test_the_same_weights_give_the_same_bytes(weights: Path, tmp_path: Path) -> None:
    package(weights, tmp_path / "one.tar.gz")
    for file in weights.iterdir():
        os.utime(file, (1, 1))
        file.chmod(0o600)
    (weights / "manifest.json").write_text("{}")  # what else lies there does not matter
    time.sleep(1.1)  # a gzip header counts seconds
    moved = weights.rename(tmp_path / "moved")
    package(moved, tmp_path / "elsewhere" / "two.tar.gz")
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "elsewhere" / "two.tar.gz").read_bytes()


def test_members_carry_no_owner_and_no_time(weights: Path, tmp_path: Path) -> None:
    package(weights, tmp_path / "model.tar.gz")
    with tarfile.open(tmp_path / "model.tar.gz") as tar:
        for member in tar:
            assert (member.mtime, member.uid, member.gid, member.uname, member.mode) == (0, 0, 0, "", 0o644)
            assert member.isreg()
    assert (tmp_path / "model.tar.gz").read_bytes()[4:8] == b"\0\0\0\0"


def test_packaging_needs_the_standard_library_only(weights: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c",
         f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); sys.dont_write_bytecode = True\n"
         f"from model_code.sentiment.package import main\n"
         f"sys.exit(main(['--weights', {str(weights)!r}, '--output', {str(tmp_path / 'model.tar.gz')!r}]))"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "model.tar.gz: 16 files" in done.stdout


def test_the_code_imports_nothing_but_torch_transformers_and_itself() -> None:
    for path in CODE.values():
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}: relative import"
                modules = [node.module or ""]
            for module in modules:
                top = module.split(".")[0]
                assert top in {"torch", "transformers", "model_code"} or top in sys.stdlib_module_names, path
                if top == "model_code" and module != "model_code.sentiment":
                    assert f"{module.replace('.', '/')}.py" in CODE, f"{path} imports {module}, which is left out"


# Run with the unpacked folder as its argument.
ANSWER = """
import sys
sys.path.insert(0, sys.argv[1] + "/code")
import inference
model = inference.model_fn(sys.argv[1])
body = '{"inputs": ["good film", "bad film"], "parameters": {"top_k": 1}}'
from model_code.sentiment import answering
incoming = answering.Incoming(body, {"content-type": "application/json"})
print(answering.answer([incoming], labels=model.labels, score=model.scores, max_texts=2)[0].body)
for name, module in sys.modules.items():
    if name.startswith(("model_code", "inference")):
        assert module.__file__.startswith(sys.argv[1]), module
"""


def test_the_unpacked_code_answers_in_an_empty_folder(weights: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    package(weights, tmp_path / "model.tar.gz")
    unpack(tmp_path / "model.tar.gz", folder)
    (tmp_path / "empty").mkdir()
    done = subprocess.run(
        [sys.executable, "-I", "-c", ANSWER, str(folder)],
        cwd=tmp_path / "empty", capture_output=True, text=True, check=False,
        env={"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert '"label": "positive"' in done.stdout and '"label": "negative"' in done.stdout


BREAKAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no config": (lambda w: (w / "config.json").unlink(), "config.json is missing"),
    "no tokenizer": (lambda w: (w / "tokenizer.json").unlink(), "tokenizer.json is missing"),
    "no weights": (lambda w: (w / "model.safetensors").unlink(), "model.safetensors is missing"),
    "config is no JSON": (lambda w: (w / "config.json").write_text("{"), "config.json: Expecting"),
    "config without labels": (lambda w: (w / "config.json").write_text("{}"), "no id2label"),
    "config of another model": (
        lambda w: replace(w / "config.json", "BertForSequenceClassification", "BertModel"),
        "no sequence classification model",
    ),
    "more labels than outputs": (
        lambda w: replace(w / "config.json", '"1": "positive"', '"1": "positive", "2": "new"'),
        "classifier.weight has 2 outputs, config.json 3 labels",
    ),
    "torn weights": (
        lambda w: (w / "model.safetensors").write_bytes((w / "model.safetensors").read_bytes()[:-1]),
        "its header says",
    ),
    "weights of another kind": (
        lambda w: (w / "model.safetensors").write_bytes(b"\x80\x02}q\x00." * 100),
        "not a safetensors file",
    ),
}


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize("name", BREAKAGES)
def test_a_model_that_would_not_serve_is_refused_in_one_line(
    weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    breakage, message = BREAKAGES[name]
    breakage(weights)
    output = tmp_path / "out" / "model.tar.gz"
    assert main(["--weights", str(weights), "--output", str(output)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("package: ") and message in error and error.count("\n") == 1
    assert not output.exists()


def test_a_model_without_a_probe_gets_one_without_answers(weights: Path, tmp_path: Path) -> None:
    (weights / "probe.json").unlink(missing_ok=True)
    package(weights, tmp_path / "out" / "model.tar.gz")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["model.tar.gz", "probe.json"]
    found = json.loads((tmp_path / "out" / "probe.json").read_text())
    assert found["labels"] == ["negative", "positive"]
    assert [case["answer"] for case in found["cases"]] == [None]
    probe.check(found, ["negative", "positive"])


def test_the_models_own_probe_is_published_as_it_is(weights: Path, tmp_path: Path) -> None:
    (weights / "probe.json").write_text(json.dumps(PROBE) + "   ")
    package(weights, tmp_path / "out" / "model.tar.gz")
    assert (tmp_path / "out" / "probe.json").read_bytes() == (weights / "probe.json").read_bytes()
    assert "probe.json" not in unpack(tmp_path / "out" / "model.tar.gz", tmp_path / "model")


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (["schema"], 2, "'schema' is 2, not 1"),
        (["content_type"], "text/plain", "'content_type' is 'text/plain'"),
        (["tolerance"], 5, "'tolerance' is 5, not a number from 0 to 1"),
        (["labels"], ["positive", "negative"], "but config.json has"),
        (["cases"], [], "at least one case"),
        (["cases", 0], {"request": {"inputs": "a"}}, "'cases[0]' must be an object with 'request' and 'answer'"),
        (["cases", 0, "request"], {"inputs": []}, "'cases[0].request' would be refused: 'inputs' is an empty list."),
        (["cases", 0, "request", "parameters"], {"top_k": 1}, "must have no 'top_k'"),
        (["cases", 0, "answer"], [], "a list of 1 answers"),
        (["cases", 0, "answer", 0], [], "name every label once"),
        (["cases", 0, "answer", 0, 0, "label"], "new", "name every label once"),
        (["cases", 0, "answer", 0, 0, "score"], "high", "with a score from 0 to 1"),
        (["cases", 0, "answer", 0, 0, "score"], 0.4, "add up to 1"),
        (["cases", 0, "answer", 0], PROBE["cases"][0]["answer"][0][::-1], "must fall"),
    ],
)
def test_a_probe_that_would_fail_the_endpoint_is_refused_and_nothing_written(
    weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], keys: list[str | int], value: Any, message: str
) -> None:
    broken: Any = copy.deepcopy(PROBE)
    inner = broken
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    (weights / "probe.json").write_text(json.dumps(broken))
    assert main(["--weights", str(weights), "--output", str(tmp_path / "out" / "model.tar.gz")]) == 2
    error = capsys.readouterr().err
    assert "probe.json: " in error and message in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_torn_probe_is_refused(weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for content in (b"{", b"\xff", b"[]", b"[" * 100_000):
        (weights / "probe.json").write_bytes(content)
        assert main(["--weights", str(weights), "--output", str(tmp_path / "out" / "model.tar.gz")]) == 2
        assert "probe.json: " in capsys.readouterr().err


def hostile(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def member(name: str, *, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


@pytest.mark.parametrize(
    ("info", "message"),
    [
        (member("../evil"), "refused the name"),
        (member("a/../../evil"), "refused the name"),
        (member("a/./b"), "refused the name"),
        (member("/etc/evil"), "refused the name"),
        (member("a\\b"), "refused the name"),
        (member("link", kind=tarfile.SYMTYPE, link="/etc/passwd"), "neither a plain file"),
        (member("link", kind=tarfile.LNKTYPE, link="good"), "neither a plain file"),
        (member("pipe", kind=tarfile.FIFOTYPE), "neither a plain file"),
        (member("null", kind=tarfile.CHRTYPE), "neither a plain file"),
        (member("disk", kind=tarfile.BLKTYPE), "neither a plain file"),
        (member("good"), "occurs twice"),
        (member("./good"), "occurs twice"),
        (member("good/below"), "cannot be unpacked"),
    ],
)
def test_hostile_archives_are_refused_and_leave_nothing(tmp_path: Path, info: tarfile.TarInfo, message: str) -> None:
    path = hostile(tmp_path / "a.tar.gz", (member("good"), b"fine"), (info, b""))
    with pytest.raises(ArchiveError, match=message):
        unpack(path, tmp_path / "deep" / "target")
    assert not (tmp_path / "deep" / "target").exists()
    assert not list(tmp_path.rglob("evil"))


def test_bombs_are_stopped_before_they_fill_the_disk(tmp_path: Path) -> None:
    path = hostile(tmp_path / "big.tar.gz", (member("zeros"), bytes(50_000_000)))
    assert path.stat().st_size < 100_000
    with pytest.raises(ArchiveError, match="unpacks to more than 1000000 bytes"):
        unpack(path, tmp_path / "target", max_bytes=1_000_000)
    many = hostile(tmp_path / "many.tar.gz", *((member(f"f{index}"), b"") for index in range(1001)))
    with pytest.raises(ArchiveError, match="more than 1000 entries"):
        unpack(many, tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_damaged_archives_are_refused_and_leave_nothing(weights: Path, tmp_path: Path) -> None:
    package(weights, tmp_path / "model.tar.gz")
    whole = (tmp_path / "model.tar.gz").read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    for content in (whole[: len(whole) // 2], bytes(flipped), b"", b"no archive", gzip.compress(b"no tar")):
        (tmp_path / "bad.tar.gz").write_bytes(content)
        with pytest.raises(ArchiveError, match=r"bad\.tar\.gz"):
            unpack(tmp_path / "bad.tar.gz", tmp_path / "target")
        assert not (tmp_path / "target").exists()


def test_ordinary_archives_with_folders_and_dot_names_unpack(tmp_path: Path) -> None:
    path = hostile(
        tmp_path / "a.tar.gz",
        (member(".", kind=tarfile.DIRTYPE), b""),
        (member("./code", kind=tarfile.DIRTYPE), b""),
        (member("./code/inference.py"), b"pass\n"),
    )
    assert unpack(path, tmp_path / "target") == ["code/inference.py"]


def test_unpacking_over_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "mine").write_text("keep")
    with pytest.raises(ArchiveError, match="not an empty folder"):
        unpack(hostile(tmp_path / "a.tar.gz", (member("x"), b"")), tmp_path / "target")
    assert (tmp_path / "target" / "mine").read_text() == "keep"


def test_names_that_leave_the_archive_are_never_written(tmp_path: Path) -> None:
    for name in ("../x", "/x", "a//b", "a/", ".", ""):
        with pytest.raises(ArchiveError, match="refused the name"):
            archive.write(tmp_path / "a.tar.gz", {name: b""})
    assert not list(tmp_path.iterdir())

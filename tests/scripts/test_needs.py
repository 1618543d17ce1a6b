"""A script that misses a variable or an argument says so, by name, before it does anything."""

from __future__ import annotations

import re

import pytest

from tests.scripts.conftest import REPO_ROOT, Workbench

NEEDED = re.compile(r"\$\{([A-Z_]+):\?\}")
FOLDERS = ("scripts", "hosts", "containers")
NEEDS = {
    "containers/question-answering-serving/build.sh": "TORCHLIFT_TRACE_HASH",
    "containers/question-answering-trace/run.sh": "TORCHLIFT_IMAGE",
    "hosts/interactive/train.sh": "TORCHLIFT_HOME TORCHLIFT_WORK TORCHLIFT_IMAGE TORCHLIFT_COMMAND TORCHLIFT_BOXES",
    "scripts/build_image.sh": "TORCHLIFT_RESULT TORCHLIFT_HOME TORCHLIFT_IMAGE_DIR TORCHLIFT_PLATFORM BASE_IMAGE",
    "scripts/checkpoints.sh": "TORCHLIFT_CHECKPOINTS",
    "scripts/run_job.sh": "TORCHLIFT_JOB TORCHLIFT_HASH TORCHLIFT_RESULT TORCHLIFT_COMMAND",
}
USES: dict[str, list[tuple[str, ...]]] = {
    "fetch": [(), ("s3://a/b/",), ("s3://a/b/", "c", "d")],
    "publish": [(), ("folder",), ("folder", "s3://a/b/", "c")],
    "checkpoints": [(), ("load",)],
    "signal": [("success",)],
}
"""Arguments that a script refuses."""
CASES = [(script, name) for script, names in NEEDS.items() for name in names.split()]


def test_every_script_that_needs_variables_is_in_the_table() -> None:
    found = {
        str(path.relative_to(REPO_ROOT)): " ".join(names)
        for folder in FOLDERS
        for path in (REPO_ROOT / folder).rglob("*.sh")
        if (names := NEEDED.findall(path.read_text()))
    }
    assert found == NEEDS


@pytest.mark.parametrize(("script", "name"), CASES, ids=str)
def test_a_missing_variable_is_named_before_anything_is_done(bench: Workbench, script: str, name: str) -> None:
    for program in ("aws", "docker", "mkdir"):
        bench.program(program, 'echo "$0" "$@"')
    present = {other: "a/b" for other in NEEDS[script].split() if other != name}
    bench.environment = {key: value for key, value in bench.environment.items() if key != name}
    done = bench.run(script, "save", **present)
    assert done.returncode != 0
    assert f"{name}: parameter null or not set" in done.stderr
    assert done.stdout == ""
    assert not list(bench.work.glob("*"))


@pytest.mark.parametrize(("script", "arguments"), [(script, one) for script, wrong in USES.items() for one in wrong])
def test_wrong_arguments_are_answered_with_the_right_ones(
    bench: Workbench, script: str, arguments: tuple[str, ...]
) -> None:
    bench.program("aws", f'touch "{bench.folder}/aws-was-called"')
    done = bench.run(f"scripts/{script}.sh", *arguments, TORCHLIFT_CHECKPOINTS="s3://bucket/checkpoints/")
    assert done.returncode != 0
    assert f"usage: {script}.sh " in done.stderr
    assert not (bench.folder / "aws-was-called").exists()


def test_every_script_that_tells_its_use_is_in_the_table() -> None:
    assert {path.stem for path in REPO_ROOT.glob("scripts/*.sh") if '"usage: ' in path.read_text()} == set(USES)


WRONG = [
    ("fetch", ("https://a/b/", "folder"), {}, "'https://a/b/' is not s3://bucket/path"),
    ("fetch", ("s3://bucket", "folder"), {}, "'s3://bucket' is not s3://bucket/path"),
    ("publish", (".", "file:///a/"), {}, "'file:///a/' is neither s3://bucket/prefix/ nor ecr://"),
    ("publish", (".", "s3://bucket/object"), {}, "'s3://bucket/object' is neither s3://bucket/prefix/ nor ecr://"),
    ("publish", (".", "ecr://registry/name:tag"), {}, "is not ecr://<registry>/<repository>:<tag>"),
    ("build_image", (), {"TORCHLIFT_RESULT": "s3://a/b/"}, "'s3://a/b/' is not ecr://<registry>/<repository>:<tag>"),
    ("checkpoints", ("save",), {"TORCHLIFT_CHECKPOINTS": "s3:/a/"}, "'s3:/a/' is not s3://bucket/path"),
    ("run_job", (), {"TORCHLIFT_RESULT": "weights"}, "'weights' is neither s3://bucket/prefix/ nor ecr://"),
]


@pytest.mark.parametrize(("script", "arguments", "variables", "sentence"), WRONG)
def test_a_uri_that_is_none_is_told_with_what_it_should_be(
    bench: Workbench, script: str, arguments: tuple[str, ...], variables: dict[str, str], sentence: str
) -> None:
    bench.program("aws", f'touch "{bench.folder}/aws-was-called"')
    needed = dict.fromkeys(NEEDS.get(f"scripts/{script}.sh", "").split(), "a/b")
    done = bench.run(f"scripts/{script}.sh", *arguments, **{**needed, **variables})
    assert done.returncode != 0
    assert sentence in done.stdout + done.stderr
    assert not (bench.folder / "aws-was-called").exists()

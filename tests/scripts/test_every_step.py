"""Each step of publication and fetching broken once, by failure and by a kill; then run again, twice, and two at once.

Whatever happens: a prefix with a manifest is a whole result, a folder that is there is a whole input, and a later run
makes it good.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.scripts import breaking
from tests.scripts.breaking import finish, start
from tests.scripts.conftest import REPO_ROOT, Quick, Workbench

FILES = {"model.bin": "weights", "sub/config.json": "{}"}
PROGRAMS = ("aws", "python3", "mv", "mkdir", "mktemp")


@pytest.fixture
def output(tmp_path: Path) -> Path:
    folder = tmp_path / "output"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.long
@pytest.mark.parametrize("breakage", [breaking.FAILS, breaking.KILLED])
def test_publication_broken_at_each_step(quick: Quick, output: Path, breakage: str) -> None:
    uri = quick.environment["TORCHLIFT_RESULT"]
    breaking.count(quick, PROGRAMS, caller="", breakage=breakage)
    for step in breaking.sweep(quick):
        quick.empty()
        status, said = finish(start(quick, "scripts/publish.sh", str(output), uri))
        if step == 0:
            assert status == 0, said
            assert len(breaking.steps(quick)) >= 10
            continue
        found = quick.published()
        assert found in ({}, FILES), f"step {step}: {said}"
        # Only what comes after the manifest may fail without failing the publication.
        assert status != 0 or found == FILES, f"step {step}: {said}"
        breaking.break_at(quick, 0)
        status, said = finish(start(quick, "scripts/publish.sh", str(output), uri))
        assert status == 0 and quick.published() == FILES, f"after step {step}: {said}"


@pytest.mark.long
@pytest.mark.parametrize("breakage", [breaking.FAILS, breaking.KILLED])
def test_fetching_broken_at_each_step(quick: Quick, output: Path, breakage: str, tmp_path: Path) -> None:
    uri = quick.environment["TORCHLIFT_RESULT"]
    assert quick.run("scripts/publish.sh", str(output), uri).returncode == 0
    target = tmp_path / "target"

    def fetched() -> dict[str, str]:
        return {str(path.relative_to(target)): path.read_text() for path in target.rglob("*") if path.is_file()}

    breaking.count(quick, PROGRAMS, caller="", breakage=breakage)
    for step in breaking.sweep(quick):
        status, said = finish(start(quick, "scripts/fetch.sh", uri, str(target)))
        if step == 0:
            assert status == 0 and fetched() == FILES, said
            assert len(breaking.steps(quick)) >= 8
            continue
        assert status != 0, f"step {step}: {said}"
        assert fetched() in ({}, FILES), f"step {step}: {said}"
    breaking.break_at(quick, 0)
    status, said = finish(start(quick, "scripts/fetch.sh", uri, str(target)))
    assert status == 0 and fetched() == FILES, said


def test_a_disk_that_is_full_leaves_no_input_and_no_result(bench: Workbench, tmp_path: Path) -> None:
    bench.put("data/large.txt", b"x" * 100_000)
    limited = f"ulimit -f 10; exec bash {REPO_ROOT}/scripts"
    fetch = f"{limited}/fetch.sh s3://{bench.bucket}/data/large.txt {tmp_path}/target"
    done = subprocess.run(["bash", "-c", fetch], env=bench.environment, capture_output=True, timeout=100, check=False)
    assert done.returncode != 0
    assert not (tmp_path / "target").exists()
    assert [path for path in tmp_path.glob(".fetch-*") if path.is_dir()] == []


@pytest.mark.parametrize("script", ["scripts/publish.sh", "scripts/fetch.sh"])
def test_a_network_that_refuses_is_an_error(bench: Workbench, output: Path, script: str) -> None:
    uri = bench.environment["TORCHLIFT_RESULT"]
    arguments = [str(output), uri] if "publish" in script else [uri, str(bench.folder / "target")]
    closed = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_MAX_ATTEMPTS": "1"}
    done = bench.run(script, *arguments, **closed)
    assert done.returncode != 0
    assert "cannot look for" in done.stderr
    assert bench.keys() == [] and not (bench.folder / "target").exists()


def test_two_publications_at_once_never_make_a_mixture(bench: Workbench, output: Path, tmp_path: Path) -> None:
    uri = bench.environment["TORCHLIFT_RESULT"]
    other = tmp_path / "other"
    for name, text in FILES.items():
        (other / name).parent.mkdir(parents=True, exist_ok=True)
        (other / name).write_text(text.upper().replace("{}", "[]"))
    for process in [start(bench, "scripts/publish.sh", str(folder), uri) for folder in (output, other)]:
        finish(process)
    target = tmp_path / "target"
    done = bench.run("scripts/fetch.sh", uri, str(target))
    whole = [{name: (folder / name).read_text() for name in FILES} for folder in (output, other)]
    if done.returncode == 0:
        assert {name: (target / name).read_text() for name in FILES} in whole
    else:
        assert "manifest" in done.stderr and not target.exists()

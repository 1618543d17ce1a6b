"""Image builds: the tag, the one format that SageMaker takes, and the platform.

Docker itself is replaced by a recorder that pushes a manifest through the ECR API; what it is called with, and what the
script makes of the pushed manifest, is real.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from settings import REPO_ROOT
from tests.scripts.conftest import Workbench

DOCKER_V2 = "application/vnd.docker.distribution.manifest.v2+json"
OCI = "application/vnd.oci.image.manifest.v1+json"
BASE = "763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.9"


def docker(bench: Workbench, repository: str, *, media_type: str = DOCKER_V2, buildx: bool = True) -> None:
    """Put a ``docker`` on PATH that records its calls and whose push puts a manifest of ``media_type``."""
    manifest = {
        "schemaVersion": 2,
        "mediaType": media_type,
        "config": {"size": 1, "digest": "sha256:" + "0" * 64},
        "layers": [],
    }
    (bench.folder / "pushed.json").write_text(json.dumps(manifest))
    name = repository.split("/", 1)[1]
    bench.program(
        "docker",
        f"""
printf '%s\\n' "$*" >>"{bench.folder}/docker.log"
case "$*" in
  "buildx version") exit {0 if buildx else 1} ;;
  login*) cat >"{bench.folder}/password" ;;
  *build*) (cd "${{!#}}" && find . -type f >"{bench.folder}/context") ;;
  push*) aws ecr put-image --repository-name {name} --image-tag "${{2##*:}}" \\
    --image-manifest "file://{bench.folder}/pushed.json" --image-manifest-media-type {media_type} >/dev/null ;;
esac
""",
    )


def build(bench: Workbench, repository: str, *arguments: str, base: str = BASE) -> subprocess.CompletedProcess[str]:
    return bench.run(
        "scripts/build_image.sh",
        *arguments,
        TORCHLIFT_RESULT=f"ecr://{repository}:0123456789abcdef",
        TORCHLIFT_IMAGE_DIR="containers/test",
        TORCHLIFT_PLATFORM="linux/arm64",
        BASE_IMAGE=base,
    )


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def calls(bench: Workbench) -> list[str]:
    return (bench.folder / "docker.log").read_text().splitlines()


def test_an_image_is_built_pushed_and_read_back(bench: Workbench, repository: str) -> None:
    docker(bench, repository)
    done = build(bench, repository, "--build-arg", "EXTRA=1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "login --username AWS --password-stdin" in calls(bench)[0]
    assert calls(bench)[1].endswith("763104351884.dkr.ecr.us-west-2.amazonaws.com")
    command = next(call for call in calls(bench) if call.startswith("buildx build"))
    for option in ("--provenance=false", "--sbom=false", "--output type=docker", "--platform linux/arm64"):
        assert option in command
    assert f"BASE_IMAGE={BASE}" in command
    assert f"--tag {repository}:0123456789abcdef" in command
    assert "--build-arg EXTRA=1" in command
    assert f"--file {bench.environment['TORCHLIFT_HOME']}/containers/test/Dockerfile" in command
    assert calls(bench)[-1] == f"push {repository}:0123456789abcdef"
    assert (bench.folder / "password").read_text().strip()


@pytest.mark.parametrize("base", ["public.ecr.aws/nginx/nginx:1.29", "python:3.12", "{repository}:base"])
def test_a_base_from_elsewhere_or_from_the_same_registry_needs_no_login(
    bench: Workbench, repository: str, base: str
) -> None:
    docker(bench, repository)
    done = build(bench, repository, base=base.format(repository=repository))
    assert done.returncode == 0, done.stdout + done.stderr
    logins = [call.split()[-1] for call in calls(bench) if call.startswith("login")]
    assert logins == [repository.partition("/")[0]]


@pytest.mark.parametrize("image", sorted(path.parent.name for path in REPO_ROOT.glob("containers/*/build.sh")))
def test_every_image_is_built_whatever_the_modes_of_its_files(image: str, bench: Workbench, repository: str) -> None:
    """A zip or a checkout need not keep the executable bit: no script may rely on it."""
    docker(bench, repository)
    copy = bench.folder / "checkout"
    for part in ("scripts", f"containers/{image}", "model_code"):
        shutil.copytree(REPO_ROOT / part, copy / part, copy_function=shutil.copyfile)
    (bench.work / "inputs/model").mkdir(parents=True)
    (bench.work / "inputs/model/model.json").write_text("{}")
    # As a person calls it in a checkout; a job's environment names both.
    del bench.environment["TORCHLIFT_HOME"]
    scratch = bench.folder / "scratch"
    scratch.mkdir()
    before = files(copy)
    done = bench.run(
        str(copy / "containers" / image / "build.sh"),
        "--build-arg=EXTRA=1",
        TORCHLIFT_TRACE_HASH="fedcba9876543210",
        TORCHLIFT_RESULT=f"ecr://{repository}:0123456789abcdef",
        TORCHLIFT_PLATFORM="linux/arm64",
        BASE_IMAGE=BASE,
        TMPDIR=str(scratch),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = [call for call in calls(bench) if call.startswith("buildx build")]
    folder = built.split()[-1]
    assert f"--file {folder}/containers/{image}/Dockerfile" in built
    assert built.endswith(f" --build-arg=EXTRA=1 {folder}")
    context = (bench.folder / "context").read_text().split()
    copied = re.findall(r"^COPY (\S+)", (copy / "containers" / image / "Dockerfile").read_text(), re.MULTILINE)
    assert [part for part in copied if not any(f"{file}/".startswith(f"./{part}/") for file in context)] == []
    # Only the serving image of question answering has the model in it, by its hash.
    assert ("./models/fedcba9876543210/model.json" in context) == (image == "question-answering-serving")
    assert files(copy) == before, "a build leaves the source as it was"
    assert list(scratch.iterdir()) == []


def test_a_serving_image_without_its_model_is_not_built(bench: Workbench, repository: str) -> None:
    docker(bench, repository)
    done = bench.run(
        "containers/question-answering-serving/build.sh",
        TORCHLIFT_HOME=str(bench.folder),
        TORCHLIFT_TRACE_HASH="fedcba9876543210",
    )
    assert done.returncode == 1
    assert f"{bench.work}/inputs/model has no model.json" in done.stderr
    assert not (bench.folder / "docker.log").exists()


def test_without_buildx_the_classic_builder_is_used(bench: Workbench, repository: str) -> None:
    docker(bench, repository, buildx=False)
    assert build(bench, repository).returncode == 0
    assert any(call.startswith("build --platform linux/arm64") for call in calls(bench))


def test_a_tag_that_exists_is_never_built_again(bench: Workbench, repository: str) -> None:
    docker(bench, repository)
    assert build(bench, repository).returncode == 0
    (bench.folder / "docker.log").unlink()
    done = build(bench, repository)
    assert done.returncode == 0
    assert "there already" in done.stdout
    assert not (bench.folder / "docker.log").exists()


@pytest.mark.parametrize("media_type", [OCI, "application/vnd.oci.image.index.v1+json"])
def test_what_sagemaker_would_refuse_fails_the_build(bench: Workbench, repository: str, media_type: str) -> None:
    docker(bench, repository, media_type=media_type)
    done = build(bench, repository)
    assert done.returncode != 0
    assert f"has media type {media_type}" in done.stderr
    again = build(bench, repository)
    assert again.returncode != 0, "what stays under the immutable tag is no result the second time either"
    assert f"has media type {media_type}" in again.stderr and "delete that image" in again.stderr


def test_a_failing_build_pushes_nothing(bench: Workbench, repository: str) -> None:
    bench.program("docker", 'case "$1" in buildx) [ "$2" = version ] || exit 7 ;; login) cat >/dev/null ;; esac')
    done = build(bench, repository)
    assert done.returncode == 7
    name = repository.split("/", 1)[1]
    assert bench.client("ecr").list_images(repositoryName=name)["imageIds"] == []


def test_an_image_job_runs_like_every_job(bench: Workbench, repository: str) -> None:
    docker(bench, repository)
    result = f"ecr://{repository}:0123456789abcdef"
    variables = {"TORCHLIFT_IMAGE_DIR": "containers/test", "TORCHLIFT_PLATFORM": "linux/amd64", "BASE_IMAGE": BASE}
    command = 'bash "$TORCHLIFT_HOME/scripts/build_image.sh"'
    done = bench.run("scripts/run_job.sh", TORCHLIFT_RESULT=result, TORCHLIFT_COMMAND=command, **variables)
    assert done.returncode == 0, done.stdout
    done = bench.run("scripts/run_job.sh", TORCHLIFT_RESULT=result, TORCHLIFT_COMMAND="exit 1")
    assert done.returncode == 0, "the tag is there: nothing runs"
    other = f"ecr://{repository}:fedcba9876543210"
    done = bench.run("scripts/run_job.sh", TORCHLIFT_RESULT=other, TORCHLIFT_COMMAND="true")
    assert done.returncode != 0
    assert "was not pushed" in (bench.work / "reason.txt").read_text()

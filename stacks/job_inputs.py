"""Where base model and data come from, as inputs of a job. Instances only ever read S3."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from constructs import Construct, IDependable

from settings import REPO_ROOT, Problem, SettingsError
from settings.sources import Source
from stacks import bundles
from stacks.deployment_stack import pascal
from torchlift.build_job import BuildJob
from torchlift.content_hash import job_hash
from torchlift.job_data import JobInput, JobResult
from torchlift.job_services import JobServices
from torchlift.source_bundle import SourceBundle

# The libraries that read the hub, in the versions that the tests run (requirements/dev.txt; a test compares).
MIRROR_REQUIREMENTS = ("datasets==5.2.0", "huggingface-hub==2.4.0")
MIRROR_INPUT = "hub"
BASE_MODEL, DATA, MODEL = "base_model", "data", "model"
OPTIONS = {BASE_MODEL: "--base-model", DATA: "--data", MODEL: "--base-model"}
"""{setting: the mirror's option}; the mirror writes what an option asks for into a folder of the option's name."""


@dataclass(frozen=True, kw_only=True)
class JobInputs:
    """What the job fetches, where it then finds model and data, and what identifies both.

    :param folders: {setting: folder relative to the job's work folder}
    :param identity: literal; goes into the job's hash
    :param origins: {setting: where it comes from, with its revision}; the same on every machine
    """

    inputs: tuple[JobInput, ...]
    folders: dict[str, str]
    identity: dict[str, str]
    origins: dict[str, str]
    after: tuple[IDependable, ...]


def job_inputs(
    scope: Construct,
    *,
    sources: dict[str, Source],
    services: JobServices,
    bucket: s3.IBucket,
    key: kms.IKey,
    log_group: logs.ILogGroup,
    section: str,
) -> JobInputs:
    """Mirror what lies on the hub, bundle what lies in a folder, take what lies in S3 as it is.

    :param sources: {setting: where it comes from}; from the hub only those of :data:`OPTIONS`
    :param section: the settings' section that they stand in
    :raises SettingsError: a local folder cannot be bundled
    """
    inputs: list[JobInput] = []
    folders: dict[str, str] = {}
    identity: dict[str, str] = {}
    origins = {name: source.text for name, source in sources.items()}
    after: list[IDependable] = []
    for name, source in sources.items():
        if source.kind == "hub":
            continue
        folders[name] = f"inputs/{name}"
        if source.kind == "s3":
            inputs.append(JobInput.from_uri(scope, pascal(name), name=name, uri=source.text))
            identity[name] = source.text
        else:
            bundle = _bundle_folder(scope, name, source, section)
            inputs.append(JobInput(name=name, bucket=bundle.bucket, path=bundle.key))
            identity[name] = bundle.content_hash
            origins[name] = f"a local folder, content {bundle.content_hash}"
    hub = {name: source.text for name, source in sources.items() if source.kind == "hub"}
    if hub:
        result, mirror_hash, job = _mirror(
            scope, hub=hub, services=services, bucket=bucket, key=key, log_group=log_group
        )
        inputs.append(JobInput.from_result(name=MIRROR_INPUT, result=result))
        folders |= {name: f"inputs/{MIRROR_INPUT}/{OPTIONS[name].removeprefix('--').replace('-', '_')}" for name in hub}
        identity[MIRROR_INPUT] = mirror_hash
        after.append(job.done)
    return JobInputs(inputs=tuple(inputs), folders=folders, identity=identity, origins=origins, after=tuple(after))


def _mirror(
    scope: Construct,
    *,
    hub: dict[str, str],
    services: JobServices,
    bucket: s3.IBucket,
    key: kms.IKey,
    log_group: logs.ILogGroup,
) -> tuple[JobResult, str, BuildJob]:
    source = SourceBundle(
        scope,
        "HubMirrorSource",
        paths=[bundles.SCRIPTS, *bundles.HUB_MIRROR],
        exclude=bundles.ONLY_FOR_IMAGES,
    )
    command = " ".join(
        [
            "python3 -m model_code.hub_mirror",
            *(f"{OPTIONS[name]} {uri}" for name, uri in hub.items()),
            "--output output",
        ]
    )
    install = f"python3 -m pip install --quiet {' '.join(MIRROR_REQUIREMENTS)}"
    hash = job_hash(
        job="hub-mirror", bundle_hash=source.content_hash, parameters={"command": command, "install": install}
    )
    result = JobResult.in_s3(bucket=bucket, prefix=f"inputs/{hash}/", key=key)
    job = BuildJob(
        scope,
        "HubMirror",
        services=services,
        job="hub-mirror",
        hash=hash,
        result=result,
        source=source,
        command=command,
        install=[install],
        architecture="arm64",
        log_group=log_group,
        key=key,
    )
    return result, hash, job


def _bundle_folder(scope: Construct, name: str, source: Source, section: str) -> SourceBundle:
    try:
        return SourceBundle(scope, pascal(name), root=REPO_ROOT / source.text, paths=["."])
    except (ValueError, OSError) as error:
        problem = Problem(
            key=f"{section}.{name}",
            given=source.text,
            reason=f"The folder cannot be bundled: {error}.",
            right="a folder with ordinary files",
        )
        raise SettingsError(source="the deployment", problems=[problem]) from error

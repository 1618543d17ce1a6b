"""Stands for an image build in direct mode: no image is built; ECR gets a manifest that says so.

The manifest is a valid single-platform Docker schema 2 one, the only kind that SageMaker takes, with the platform
that the job asked for in its configuration. So tags, media types and permissions are real; contents are not.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

import boto3

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LABEL = "org.torchlift.direct-mode"
SENTENCE = "direct mode builds no image: this manifest stands for one, and the programs run from local environments"


def main() -> int:
    """Put the manifest for TORCHLIFT_RESULT (`ecr://<registry>/<repository>:<tag>`)."""
    registry, _, rest = os.environ["TORCHLIFT_RESULT"].removeprefix("ecr://").partition("/")
    repository, _, tag = rest.rpartition(":")
    account, region = registry.split(".")[0], registry.split(".")[3]
    configuration, manifest = documents(os.environ)
    ecr: Any = boto3.client("ecr", region_name=region)
    _upload(ecr, repository, configuration)
    ecr.put_image(
        registryId=account,
        repositoryName=repository,
        imageTag=tag,
        imageManifest=manifest.decode(),
        imageManifestMediaType=MANIFEST,
    )
    print(f"{SENTENCE} ({repository}:{tag}, {os.environ['TORCHLIFT_PLATFORM']}, from {os.environ['BASE_IMAGE']})")
    return 0


def documents(environment: Mapping[str, str]) -> tuple[bytes, bytes]:
    """The image's configuration and its manifest, as bytes that hash to their digests."""
    system, architecture = environment["TORCHLIFT_PLATFORM"].split("/")[:2]
    labels = {
        LABEL: SENTENCE,
        "org.opencontainers.image.base.name": environment["BASE_IMAGE"],
        "org.torchlift.hash": environment["TORCHLIFT_HASH"],
        "org.torchlift.image": environment["TORCHLIFT_IMAGE_DIR"],
    }
    configuration = json.dumps(
        {
            "architecture": architecture,
            "os": system,
            "config": {"Labels": labels},
            "rootfs": {"type": "layers", "diff_ids": []},
            "history": [{"created_by": SENTENCE, "empty_layer": True}],
        },
        sort_keys=True,
    ).encode()
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": CONFIG, "size": len(configuration), "digest": digest(configuration)},
            "layers": [],
        },
        sort_keys=True,
    ).encode()
    return configuration, manifest


def digest(content: bytes) -> str:
    """The content's name in a registry."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def _upload(ecr: Any, repository: str, configuration: bytes) -> None:
    upload = ecr.initiate_layer_upload(repositoryName=repository)["uploadId"]
    ecr.upload_layer_part(
        repositoryName=repository,
        uploadId=upload,
        partFirstByte=0,
        partLastByte=len(configuration) - 1,
        layerPartBlob=configuration,
    )
    try:
        ecr.complete_layer_upload(repositoryName=repository, uploadId=upload, layerDigests=[digest(configuration)])
    except ecr.exceptions.LayerAlreadyExistsException:
        print("the configuration was there")


if __name__ == "__main__":
    sys.exit(main())

"""The catalogues against the data that AWS's own libraries bring."""

from __future__ import annotations

import importlib.util
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import botocore.session
import pytest

from model_code.text_encoding.repository import NAME
from settings import hardware, regions
from settings.deployment_rules import RETENTION_DAYS
from settings.images import IMAGES, BaseImage
from settings.text_encoding_rules import MODEL_NAME
from settings.triton import AMI_DRIVERS, HOSTED, RELEASES
from torchlift.log_retention import retention


@cache
def enum(service: str, shape: str) -> frozenset[str]:
    return frozenset(service_shape(service, shape).enum)


def service_shape(service: str, shape: str) -> Any:
    return botocore.session.get_session().get_service_model(service).shape_for(shape)


@cache
def image_data(framework: str) -> dict[str, Any]:
    """What `sagemaker.core.image_uris` reads, without importing it."""
    spec = importlib.util.find_spec("sagemaker")
    assert spec is not None and spec.submodule_search_locations is not None
    (folder,) = [Path(item) for item in spec.submodule_search_locations if (Path(item) / "core").is_dir()][:1]
    path = folder / "core" / "image_uri_config" / f"{framework}.json"
    data: dict[str, Any] = json.loads(path.read_text())
    return data


def test_ec2_types_exist() -> None:
    assert set(hardware.EC2_TYPES) <= enum("ec2", "InstanceType")


def test_hosting_types_exist() -> None:
    assert set(hardware.ML_TYPES) <= enum("sagemaker", "ProductionVariantInstanceType")


def test_all_graviton_sizes_of_the_families_are_there() -> None:
    families = {name.split(".")[1] for name, item in hardware.ML_TYPES.items() if item.arch == "arm64"}
    known = {name for name in enum("sagemaker", "ProductionVariantInstanceType") if name.split(".")[1] in families}
    assert {name for name, item in hardware.ML_TYPES.items() if item.arch == "arm64"} == known


def test_local_disks_go_with_the_family() -> None:
    """`d` in a family's name, and all GPU types that are ours."""
    for name, item in hardware.ML_TYPES.items():
        assert item.local_nvme == (name.split(".")[1].endswith("d") or bool(item.gpus)), name


def test_training_types_have_gpus_and_run_the_image() -> None:
    for name in hardware.TRAINING_TYPES:
        item = hardware.instance(name)
        assert item.gpus >= 1
        assert item.arch == IMAGES["pytorch-training"].arch


def test_neuron_cores() -> None:
    """Two on a device, as the Inferentia2 page has it."""
    cores = {
        name: (item.neuron_devices, item.neuron_cores, item.memory_gib) for name, item in hardware.EC2_TYPES.items()
    }
    assert cores["inf2.xlarge"] == (1, 2, 16)
    assert cores["inf2.8xlarge"] == (1, 2, 128)
    assert cores["inf2.24xlarge"] == (6, 12, 384)
    assert cores["inf2.48xlarge"] == (12, 24, 768)


def test_unknown_types() -> None:
    with pytest.raises(KeyError):
        hardware.instance("inf1.16xlarge")
    with pytest.raises(KeyError):
        hardware.ml_instance("c7g.4xlarge")


@pytest.mark.parametrize(
    ("key", "scope"), [("pytorch-training", "training"), ("pytorch-inference-arm64", "inference_graviton")]
)
def test_image_against_sagemakers_data(key: str, scope: str) -> None:
    image: BaseImage = IMAGES[key]
    version, device, python, *_ = image.tag.split("-")
    data = image_data("pytorch")[scope]["versions"][version]
    assert data["repository"] == image.repository
    assert python in data["py_versions"]
    assert device in ("cpu", "gpu")
    for region in regions.ZONES:
        assert image.registry(region) == f"{data['registries'][region]}.dkr.ecr.{region}.amazonaws.com"


@pytest.mark.parametrize("region", ["cn-north-1", "af-south-1", "us-gov-west-1", "nowhere"])
def test_region_without_image(region: str) -> None:
    for image in IMAGES.values():
        with pytest.raises(KeyError):
            image.uri(region)


def test_tags_are_pinned() -> None:
    for image in IMAGES.values():
        assert "latest" not in image.tag
        assert image.tag.count("-") >= 3


@pytest.mark.parametrize("region", ["eu-central-2", "cn-north-1", "us-gov-east-1", "us-iso-east-1", "eusc-de-east-1"])
def test_other_partitions_are_told_apart(region: str) -> None:
    assert regions.is_other_partition(region) == (region != "eu-central-2")


def test_regions_belong_to_the_partition() -> None:
    known = set(boto3.session.Session().get_available_regions("sagemaker", partition_name="aws"))
    assert set(regions.ZONES) <= known


def test_retentions_are_one_list() -> None:
    assert all(retention(days) for days in RETENTION_DAYS)
    with pytest.raises(ValueError, match="10 days"):
        retention(10)
    documented = service_shape("logs", "PutRetentionPolicyRequest").members["retentionInDays"].documentation
    assert all(str(days) in documented for days in RETENTION_DAYS)


@pytest.mark.parametrize("release", RELEASES)
def test_triton_against_sagemakers_data(release: str) -> None:
    image, data = RELEASES[release].image, image_data("sagemaker-tritonserver")["versions"][release]
    assert data["repository"] == image.repository
    assert image.tag == data["tag_prefix"]
    for region in regions.ZONES:
        assert image.registry(region) == f"{data['registries'][region]}.dkr.ecr.{region}.amazonaws.com"


def test_hosted_drivers() -> None:
    """As the API reference lists them; an older driver must not be taken for a newer release."""
    member = service_shape("sagemaker", "ProductionVariant").members["InferenceAmiVersion"]
    told = dict(re.findall(r"<dt>(al[\w-]+gpu[\w-]+)</dt>.*?NVIDIA driver version: (\d+)", member.documentation))
    assert {name: int(told[name]) for name in AMI_DRIVERS} == AMI_DRIVERS
    assert set(AMI_DRIVERS) <= enum("sagemaker", "ProductionVariantInferenceAmiVersion")
    assert list(AMI_DRIVERS.values()) == sorted(AMI_DRIVERS.values()), "the first that fits is the oldest"
    for release in HOSTED:
        ami = RELEASES[release].ami_version
        assert ami is not None and AMI_DRIVERS[ami] >= RELEASES[release].minimum_driver


def test_gpus_have_a_compute_capability_and_hosting_encrypts_their_disks() -> None:
    gpus = {item.gpu_name for item in (*hardware.EC2_TYPES.values(), *hardware.ML_TYPES.values()) if item.gpus}
    assert gpus == set(hardware.COMPUTE_CAPABILITY)
    # The stack gives their storage volumes no key, which SageMaker would refuse.
    assert all(hardware.ml_instance(name).local_nvme for name in hardware.HOSTING_GPU_TYPES)


def test_names_of_models_are_those_that_the_archives_may_have() -> None:
    assert MODEL_NAME.pattern == NAME.pattern

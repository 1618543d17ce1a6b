"""What field types cannot say: rules over one or several values. Each runs when the values it needs are valid."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model_code.sources import SourceError
from settings import hardware, names, regions
from settings.errors import Problem
from settings.images import base_image
from settings.models import GPU_AMI_GIB, MAX_DEADLINE_MINUTES
from settings.sources import parse_source

Values = dict[str, Any]
"""Valid values by dotted key, defaults included."""

RETENTION_DAYS = (
    1,
    3,
    5,
    7,
    14,
    30,
    60,
    90,
    120,
    150,
    180,
    365,
    400,
    545,
    731,
    1096,
    1827,
    2192,
    2557,
    2922,
    3288,
    3653,
)
"""What PutRetentionPolicy takes (CloudWatch Logs API reference)."""
REGIONS_WITHOUT_BUDGETS = frozenset({"ca-west-1", "il-central-1", "ap-southeast-7"})


@dataclass(frozen=True)
class Rule:
    """`check` gets the values and the repository root, and yields problems."""

    needs: tuple[str, ...]
    check: Callable[[Values, Path], Iterator[Problem]]


RULES: list[Rule] = []


def rule(*needs: str) -> Callable[[Callable[[Values, Path], Iterator[Problem]]], Callable[..., Iterator[Problem]]]:
    """Register a rule that runs when all of `needs` are valid."""

    def register(check: Callable[[Values, Path], Iterator[Problem]]) -> Callable[..., Iterator[Problem]]:
        RULES.append(Rule(needs, check))
        return check

    return register


def nearest(given: str, known: list[str] | tuple[str, ...], otherwise: str) -> str:
    """The known name closest to `given`, or `otherwise`."""
    found = difflib.get_close_matches(given, known, n=1, cutoff=0.6)
    return found[0] if found else otherwise


@rule("deployment.region")
def _region(values: Values, _: Path) -> Iterator[Problem]:
    region = values["deployment.region"]
    if region in regions.ZONES:
        return
    reason = (
        "It is in another AWS partition, where ARNs and image accounts differ; Torchlift supports the aws partition."
        if regions.is_other_partition(region)
        else "It is not among the regions that Torchlift is tested for; the base images may be missing there."
    )
    close = nearest(region, tuple(regions.ZONES), "")
    right = f"{close}, or another of: " if close else "one of: "
    yield Problem(key="deployment.region", given=region, reason=reason, right=right + ", ".join(regions.ZONES))


@rule("deployment.region", "network.zones")
def _zones(values: Values, _: Path) -> Iterator[Problem]:
    region, zones = values["deployment.region"], values["network.zones"]
    if region not in regions.ZONES:
        return
    known = regions.zones_of(region)
    for zone in zones:
        if zone not in known:
            yield Problem(
                key="network.zones",
                given=zone,
                reason=f"It is no zone of {region}.",
                right="some of " + ", ".join(known),
            )
    if len(set(zones)) != len(zones):
        yield Problem(key="network.zones", given=list(zones), reason="A zone stands twice.", right="each zone once")


@rule("network.zones", "training.zones")
def _training_zones(values: Values, _: Path) -> Iterator[Problem]:
    for zone in values["training.zones"] or ():
        if zone not in values["network.zones"]:
            yield Problem(
                key="training.zones",
                given=zone,
                reason="The network has no subnet there.",
                right="some of network.zones: " + ", ".join(values["network.zones"]),
            )


@rule("network.zones", "network.existing_vpc")
def _subnets(values: Values, _: Path) -> Iterator[Problem]:
    vpc = values["network.existing_vpc"]
    if vpc is not None and len(vpc.private_subnet_ids) != len(values["network.zones"]):
        yield Problem(
            key="network.existing_vpc.private_subnet_ids",
            given=list(vpc.private_subnet_ids),
            reason=f"There are {len(values['network.zones'])} zones and {len(vpc.private_subnet_ids)} subnets.",
            right="one private subnet per zone, in the same order",
        )


@rule("logs.retention_days")
def _retention(values: Values, _: Path) -> Iterator[Problem]:
    given = values["logs.retention_days"]
    if given not in RETENTION_DAYS:
        right = min(RETENTION_DAYS, key=lambda days: abs(days - given))
        yield Problem(
            key="logs.retention_days", given=given, reason="CloudWatch Logs does not know it.", right=str(right)
        )


@rule("budget.monthly_usd", "budget.email", "deployment.region")
def _budget(values: Values, _: Path) -> Iterator[Problem]:
    if values["budget.monthly_usd"] is not None and values["budget.email"] is None:
        yield Problem(
            key="budget.email", given=None, reason="A budget without an address tells nobody.", right="a mail address"
        )
    if values["budget.monthly_usd"] is not None and values["deployment.region"] in REGIONS_WITHOUT_BUDGETS:
        yield Problem(
            key="budget.monthly_usd",
            given=values["budget.monthly_usd"],
            reason=f"CloudFormation has no budgets in {values['deployment.region']}.",
            right="no budget in this region",
        )


@rule("training.instance_type", "training.mode")
def _training_type(values: Values, _: Path) -> Iterator[Problem]:
    given = values["training.instance_type"]
    if values["training.mode"] == "skip" or given in hardware.TRAINING_TYPES:
        return
    if given in hardware.EC2_TYPES:
        reason = "The training image needs an NVIDIA GPU, and this type has none."
    elif given.startswith("ml."):
        reason = "It is a SageMaker type; training runs on EC2."
    else:
        reason = "It is not in the catalogue of instance types (settings/hardware.py)."
    right = nearest(given.removeprefix("ml."), hardware.TRAINING_TYPES, "one of " + ", ".join(hardware.TRAINING_TYPES))
    yield Problem(key="training.instance_type", given=given, reason=reason, right=right)


@rule("training.root_volume_gib", "training.mode")
def _root_volume(values: Values, _: Path) -> Iterator[Problem]:
    given = values["training.root_volume_gib"]
    if values["training.mode"] != "skip" and given < GPU_AMI_GIB:
        yield Problem(
            key="training.root_volume_gib",
            given=given,
            reason="The GPU Deep Learning AMI, the training image and checkpoints do not fit.",
            right=f"{GPU_AMI_GIB} or more",
        )


@rule("training.deadline_minutes")
def _deadline(values: Values, _: Path) -> Iterator[Problem]:
    given = values["training.deadline_minutes"]
    if given > MAX_DEADLINE_MINUTES:
        yield Problem(
            key="training.deadline_minutes",
            given=given,
            reason="CloudFormation waits 12 hours at most, and the job must signal before that.",
            right=f"{MAX_DEADLINE_MINUTES} or less",
        )


@rule("training.mode", "training.weights_uri", "training.base_model", "training.data")
def _mode(values: Values, _: Path) -> Iterator[Problem]:
    if values["training.mode"] == "skip":
        if values["training.weights_uri"] is None:
            yield Problem(
                key="training.weights_uri",
                given=None,
                reason='Mode "skip" trains nothing.',
                right="s3://bucket/prefix/ with weights",
            )
        return
    if values["training.weights_uri"] is not None:
        yield Problem(
            key="training.weights_uri",
            given=values["training.weights_uri"],
            reason=f'Mode "{values["training.mode"]}" makes its own weights.',
            right='no weights_uri, or mode = "skip"',
        )
    for key in ("training.base_model", "training.data"):
        if values[key] is None:
            yield Problem(
                key=key,
                given=None,
                reason="Training needs it.",
                right="hf://…@revision, s3://bucket/prefix/ or a local folder",
            )


@rule("training.mode", "training.ami_id", "training.ami_parameter")
def _ami(values: Values, _: Path) -> Iterator[Problem]:
    if values["training.mode"] == "skip":
        return
    given = [values["training.ami_id"], values["training.ami_parameter"]]
    if given.count(None) != 1:
        yield Problem(
            key="training.ami_id",
            given=[item for item in given if item] or None,
            reason="The instance needs exactly one machine image.",
            right="either ami_id (pinned) or ami_parameter (a public SSM parameter)",
        )


@rule("training.mode", "training.purchase", "training.capacity_reservation_id")
def _purchase(values: Values, _: Path) -> Iterator[Problem]:
    purchase, reservation = values["training.purchase"], values["training.capacity_reservation_id"]
    if purchase == "capacity-block" and reservation is None:
        yield Problem(
            key="training.capacity_reservation_id",
            given=None,
            reason="A capacity block is bought beforehand and named by its reservation.",
            right="the cr-… id of the block",
        )
    if purchase == "spot" and reservation is not None:
        yield Problem(
            key="training.capacity_reservation_id",
            given=reservation,
            reason="Spot instances do not run in a reservation.",
            right='no reservation, or purchase = "on-demand"',
        )
    if purchase == "spot" and values["training.mode"] == "interactive":
        yield Problem(
            key="training.purchase",
            given=purchase,
            reason="A development box on Spot disappears with the work on it.",
            right='"on-demand" or "capacity-block"',
        )


def _source(key: str) -> None:
    @rule(key)
    def check(values: Values, root: Path) -> Iterator[Problem]:
        given = values[key]
        if given is None:
            return
        try:
            source = parse_source(given)
        except SourceError as error:
            yield Problem(
                key=key,
                given=given,
                reason=f"{str(error).partition(': ')[2].capitalize()}.",
                right="hf://owner/name@<commit id>, s3://bucket/prefix/ or a local folder",
            )
            return
        if source.kind == "local" and not (root / given).is_dir():
            hint = " (the demo prepares it: make demo)" if given.startswith("build/demo/") else ""
            yield Problem(
                key=key,
                given=given,
                reason="There is no such folder in the repository.",
                right=f"an existing folder{hint}",
            )


for _key in ("training.base_model", "training.data"):
    _source(_key)

_ENDPOINT = "sentiment.endpoint"


@rule(f"{_ENDPOINT}.min_instances", f"{_ENDPOINT}.initial_instances", f"{_ENDPOINT}.max_instances")
def _counts(values: Values, _: Path) -> Iterator[Problem]:
    low, first, high = (values[f"{_ENDPOINT}.{name}_instances"] for name in ("min", "initial", "max"))
    if low > high:
        yield Problem(
            key=f"{_ENDPOINT}.max_instances", given=high, reason=f"min_instances is {low}.", right=f"{low} or more"
        )
    elif not low <= first <= high:
        yield Problem(
            key=f"{_ENDPOINT}.initial_instances",
            given=first,
            reason="An autoscaled variant starts within its limits.",
            right=f"{low} to {high}",
        )


@rule(f"{_ENDPOINT}.instance_type")
def _endpoint_type(values: Values, _: Path) -> Iterator[Problem]:
    given = values[f"{_ENDPOINT}.instance_type"]
    arm = [name for name, item in hardware.ML_TYPES.items() if item.arch == "arm64"]
    known = hardware.ML_TYPES.get(given)
    if known is not None and known.arch == base_image("pytorch-inference-arm64").arch:
        return
    if known is not None:
        reason = f"It is {known.arch}, and the serving image is built for arm64 (exec format error)."
    elif f"ml.{given}" in hardware.ML_TYPES:
        reason = "SageMaker's names begin with ml."
    else:
        reason = "It is not in the catalogue of Graviton hosting types (settings/hardware.py)."
    same_size = f"ml.c7g.{given.rpartition('.')[2]}"
    right = same_size if known else nearest(given if given.startswith("ml.") else f"ml.{given}", arm, "ml.c7g.4xlarge")
    yield Problem(key=f"{_ENDPOINT}.instance_type", given=given, reason=reason, right=right)


@rule(f"{_ENDPOINT}.instance_type", f"{_ENDPOINT}.kms")
def _kms(values: Values, _: Path) -> Iterator[Problem]:
    known = hardware.ML_TYPES.get(values[f"{_ENDPOINT}.instance_type"])
    if known is not None and known.local_nvme and values[f"{_ENDPOINT}.kms"]:
        yield Problem(
            key=f"{_ENDPOINT}.kms",
            given=True,
            reason=f"{known.name} has local NVMe disks, which encrypt in hardware; SageMaker refuses a KMS key there.",
            right="false",
        )


@rule(f"{_ENDPOINT}.instance_type", f"{_ENDPOINT}.workers")
def _workers(values: Values, _: Path) -> Iterator[Problem]:
    known = hardware.ML_TYPES.get(values[f"{_ENDPOINT}.instance_type"])
    if known is not None and values[f"{_ENDPOINT}.workers"] > known.vcpus:
        yield Problem(
            key=f"{_ENDPOINT}.workers",
            given=values[f"{_ENDPOINT}.workers"],
            reason=f"{known.name} has {known.vcpus} vCPUs, and each worker needs one at least.",
            right=f"1 to {known.vcpus}",
        )


@rule("deployment.name", f"{_ENDPOINT}.instance_type")
def _endpoint_name(values: Values, _: Path) -> Iterator[Problem]:
    name = names.endpoint_name(values["deployment.name"], "sentiment", values[f"{_ENDPOINT}.instance_type"])
    over = len(name) - names.ENDPOINT_NAME_LENGTH
    if over > 0:
        yield Problem(
            key="deployment.name",
            given=values["deployment.name"],
            reason=f"The endpoint's name {name} would have more than {names.ENDPOINT_NAME_LENGTH} characters.",
            right=f"a name shorter by {over}",
        )

"""What must be right in an account before the first deploy, besides quotas. Every check only reads."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from botocore.exceptions import ClientError

from operations.account import Account
from operations.failure import error_code
from operations.preflight.machines import Machine, machines
from operations.preflight.row import Row
from settings.images import BaseImage, base_image
from settings.machine_images import root_device
from settings.triton import triton_release

BOOTSTRAP = "/cdk-bootstrap/hnb659fds/version"
BOOTSTRAP_VERSION = 6
"""What the app's templates ask for (the rule CheckBootstrapVersion in each of them; a test compares)."""


def identity(account: Account) -> Iterator[Row]:
    """Whose credentials these are, and whether the settings mean that account."""
    caller = account.client("sts").get_caller_identity()
    wanted = account.settings.deployment.account
    if wanted is not None and caller["Account"] != wanted:
        yield Row(
            name="account",
            level="fail",
            found=f"signed in to {caller['Account']}, the settings say {wanted}",
            todo="sign in to the other account, or correct deployment.account",
        )
        return
    yield Row(name="account", level="pass", found=f"{caller['Account']} in {account.region}, as {caller['Arn']}")
    if wanted is None:
        yield Row(
            name="deployment.account",
            level="warn",
            found="not set: a deploy goes wherever the credentials lead",
            todo=f'account = "{caller["Account"]}" under [deployment]',
        )


def bootstrap(account: Account) -> Iterator[Row]:
    """The stack that `cdk bootstrap` makes, once an account and region."""
    todo = f"an administrator runs: cdk bootstrap aws://<account>/{account.region}"
    ssm = account.client("ssm")
    try:
        version = int(ssm.get_parameter(Name=BOOTSTRAP)["Parameter"]["Value"])
    except ssm.exceptions.ParameterNotFound:
        yield Row(name="CDK bootstrap", level="fail", found=f"not bootstrapped: no {BOOTSTRAP}", todo=todo)
        return
    ok = version >= BOOTSTRAP_VERSION
    found = f"version {version}, needed {BOOTSTRAP_VERSION}"
    yield Row(name="CDK bootstrap", level="pass" if ok else "fail", found=found, todo="" if ok else todo)


def offering(account: Account) -> Iterator[Row]:
    """Zones of the settings that have the types of the jobs' instances."""
    for machine in machines(account.settings):
        pages = account.client("ec2").get_paginator("describe_instance_type_offerings")
        filters = [
            {"Name": "instance-type", "Values": [machine.instance_type]},
            {"Name": "location", "Values": list(machine.zones)},
        ]
        answer = pages.paginate(LocationType="availability-zone", Filters=filters)
        offered = {item["Location"] for page in answer for item in page["InstanceTypeOfferings"]}
        missing = [zone for zone in machine.zones if zone not in offered]
        name = f"{machine.instance_type} offered ({machine.section})"
        if not offered:
            todo = f"other zones, region or type of {machine.section}"
            yield Row(name=name, level="fail", found=f"in none of {', '.join(machine.zones)}", todo=todo)
        elif missing:
            todo = f"leave them out of {machine.section}.zones"
            yield Row(name=name, level="warn", found=f"not in {', '.join(missing)}", todo=todo)
        else:
            yield Row(name=name, level="pass", found=f"in {', '.join(machine.zones)}")


def reservation(account: Account) -> Iterator[Row]:
    """The capacity reservation or block: of the right type, in the right place, and usable now."""
    training = account.settings.training
    if training is None or training.capacity_reservation_id is None or training.mode == "skip":
        return
    name, id = "capacity reservation", training.capacity_reservation_id
    try:
        (held,) = account.client("ec2").describe_capacity_reservations(CapacityReservationIds=[id])[
            "CapacityReservations"
        ]
    except ClientError as error:
        if "NotFound" not in error_code(error):
            raise
        yield Row(name=name, level="fail", found=f"{id} does not exist in {account.region}", todo="correct the id")
        return
    zones = training.zones or account.settings.network.zones
    problems = []
    if held["InstanceType"] != training.instance_type:
        problems.append(f"it is for {held['InstanceType']}, not {training.instance_type}")
    if held["AvailabilityZone"] not in zones:
        problems.append(f"it is in {held['AvailabilityZone']}, not in {', '.join(zones)}")
    if held["State"] not in ("active", "scheduled", "pending"):
        problems.append(f"it is {held['State']}")
    end = held.get("EndDate")
    if end is not None and end < datetime.now(UTC) + timedelta(minutes=training.deadline_minutes):
        problems.append(f"it ends {end:%Y-%m-%d %H:%M} UTC, sooner than in {training.deadline_minutes} minutes")
    if problems:
        yield Row(
            name=name, level="fail", found=f"{id}: {'; '.join(problems)}", todo="another reservation, or settings"
        )
    elif held["State"] != "active":
        start = held.get("StartDate") or "a date unknown"
        yield Row(
            name=name, level="warn", found=f"{id} is {held['State']} from {start}", todo="deploy when it is active"
        )
    else:
        yield Row(name=name, level="pass", found=f"{id} is active")


def machine_image(account: Account) -> Iterator[Row]:
    """The AMIs of the jobs' instances, which EC2 looks up at launch only."""
    for machine in machines(account.settings):
        yield from _image(account, machine)


def _image(account: Account, machine: Machine) -> Iterator[Row]:
    name, image = f"AMI ({machine.section})", machine.ami_id
    if image is None and machine.ami_parameter is not None:
        ssm = account.client("ssm")
        try:
            image = str(ssm.get_parameter(Name=machine.ami_parameter)["Parameter"]["Value"])
        except ssm.exceptions.ParameterNotFound:
            yield Row(
                name=name,
                level="fail",
                found=f"{machine.ami_parameter} does not exist in {account.region}",
                todo=f"correct {machine.section}.ami_parameter",
            )
            return
    if image is None:
        return
    try:
        found = account.client("ec2").describe_images(ImageIds=[image])["Images"]
    except ClientError as error:
        if "NotFound" not in error_code(error) and "Malformed" not in error_code(error):
            raise
        found = []
    if not found:
        yield Row(name=name, level="fail", found=f"{image} does not exist in {account.region}", todo="another AMI")
        return
    root, named = found[0].get("RootDeviceName"), root_device(machine.ami_parameter)
    if root != named:
        # It would start with a second, empty volume of the settings' size beside its own small root.
        todo = f"an AMI with {named}" + (", or its ami_parameter instead of ami_id" if machine.ami_id else "")
        yield Row(name=name, level="fail", found=f"{image} has its root on {root}, not {named}", todo=todo)
    else:
        yield Row(name=name, level="pass", found=f"{image}, {found[0].get('Name', '')}")


def base_images(account: Account) -> Iterator[Row]:
    """The Deep Learning Containers that our images are built on, in the registry of the region."""
    wanted: list[BaseImage] = []
    training = account.settings.training
    if training is not None and training.mode != "skip":
        wanted.append(base_image("pytorch-training"))
    if account.settings.sentiment is not None:
        wanted.append(base_image("pytorch-inference-arm64"))
    if account.settings.text_encoding is not None:
        wanted.append(triton_release(account.settings.text_encoding.triton_release).image)
    if account.settings.question_answering is not None:
        wanted.append(base_image("pytorch-inference-neuronx"))
    for image in wanted:
        name = f"base image {image.repository}"
        try:
            account.client("ecr").describe_images(
                registryId=image.registry(account.region).partition(".")[0],
                repositoryName=image.repository,
                imageIds=[{"imageTag": image.tag}],
            )
        except ClientError as error:
            if error_code(error) not in ("ImageNotFoundException", "RepositoryNotFoundException"):
                raise
            yield Row(name=name, level="fail", found=f"{image.uri(account.region)} does not exist", todo="report it")
            continue
        yield Row(name=name, level="pass", found=image.tag)


def people(account: Account) -> Iterator[Row]:
    """Whether anybody is told of alarms and of cost."""
    settings = account.settings
    for name, value in (("alarms.email", settings.alarms.email), ("budget.monthly_usd", settings.budget.monthly_usd)):
        if value is None:
            yield Row(name=name, level="warn", found="not set: nobody is told", todo=f"set {name}")
        else:
            yield Row(name=name, level="pass", found=str(value))

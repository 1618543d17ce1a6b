"""How every instance of ours is launched, whatever it is for: one place for the hardening."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import Fn
from aws_cdk import aws_ec2 as ec2

from settings.machine_images import root_device

PURCHASES = ("on-demand", "spot", "capacity-block")
# What EC2 accepts, before base64.
MAX_USER_DATA_BYTES = 16 * 1024
# Tokens in user data are resolved at deployment; a wait handle's presigned URL is the longest of them.
RESERVED_FOR_TOKENS_BYTES = 2 * 1024


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What to launch and how to pay for it.

    :param ami_id: a pinned AMI; or else
    :param ami_parameter: a public SSM parameter that EC2 itself resolves at launch, so that the template never drifts
    :param purchase: ``on-demand``, ``spot`` or ``capacity-block``
    :param capacity_reservation_id: required for a capacity block, allowed on demand
    :param root_device_name: the AMI's root device; when left out, what :func:`settings.machine_images.root_device`
        takes it for. A wrong name would add a second volume: `torchlift preflight` and the boot script look
    """

    instance_type: str
    root_volume_gib: int
    ami_id: str | None = None
    ami_parameter: str | None = None
    purchase: str = "on-demand"
    capacity_reservation_id: str | None = None
    root_device_name: str | None = None

    def __post_init__(self) -> None:
        if (self.ami_id is None) == (self.ami_parameter is None):
            raise ValueError("a machine needs either ami_id or ami_parameter")
        if self.purchase not in PURCHASES:
            raise ValueError(f"'{self.purchase}': purchase is one of {', '.join(PURCHASES)}")
        if self.purchase == "capacity-block" and not self.capacity_reservation_id:
            raise ValueError("a capacity block needs its capacity_reservation_id")
        if self.purchase == "spot" and self.capacity_reservation_id:
            raise ValueError("spot capacity cannot come from a capacity reservation")

    @property
    def image_id(self) -> str:
        """The launch template's ImageId."""
        return self.ami_id or f"resolve:ssm:{self.ami_parameter}"

    @property
    def root_device(self) -> str:
        """The device name of the root volume."""
        return self.root_device_name or root_device(self.ami_parameter)


def launch_template_data(
    *,
    machine: Machine,
    instance_profile_arn: str,
    security_group_id: str,
    tags: Mapping[str, str],
    user_data: str | None = None,
    subnet_id: str | None = None,
) -> ec2.CfnLaunchTemplate.LaunchTemplateDataProperty:
    """Return hardened launch data: IMDSv2 only, no public address, an encrypted root that goes with the instance.

    :param user_data: plain text; see :func:`check_user_data`
    :param subnet_id: only for a single instance; an Auto Scaling group names its own subnets
    """
    template = ec2.CfnLaunchTemplate
    tag_list = [{"key": name, "value": value} for name, value in sorted(tags.items())]
    return template.LaunchTemplateDataProperty(
        image_id=machine.image_id,
        instance_type=machine.instance_type,
        iam_instance_profile=template.IamInstanceProfileProperty(arn=instance_profile_arn),
        monitoring=template.MonitoringProperty(enabled=True),
        metadata_options=template.MetadataOptionsProperty(
            http_endpoint="enabled",
            http_tokens="required",
            # A container is one hop further away than its host.
            http_put_response_hop_limit=2,
        ),
        block_device_mappings=[
            template.BlockDeviceMappingProperty(
                device_name=machine.root_device,
                ebs=template.EbsProperty(
                    volume_type="gp3",
                    volume_size=machine.root_volume_gib,
                    # Without a key id: the scaling service's role may not use a customer key.
                    encrypted=True,
                    delete_on_termination=True,
                ),
            )
        ],
        network_interfaces=[
            template.NetworkInterfaceProperty(
                device_index=0,
                associate_public_ip_address=False,
                delete_on_termination=True,
                groups=[security_group_id],
                subnet_id=subnet_id,
            )
        ],
        instance_market_options=_market(machine),
        capacity_reservation_specification=_reservation(machine),
        instance_initiated_shutdown_behavior="terminate" if subnet_id is None else None,
        tag_specifications=[
            template.TagSpecificationProperty(resource_type=kind, tags=tag_list) for kind in ("instance", "volume")
        ],
        user_data=Fn.base64(user_data) if user_data is not None else None,
    )


def check_user_data(text: str) -> None:
    """Refuse user data that EC2 would refuse, with room for what tokens become.

    :raises ValueError: it is too long
    """
    size = len(text.encode())
    limit = MAX_USER_DATA_BYTES - RESERVED_FOR_TOKENS_BYTES
    if size > limit:
        raise ValueError(f"user data has {size} bytes, more than {limit}: move text into the source bundle")


def _market(machine: Machine) -> ec2.CfnLaunchTemplate.InstanceMarketOptionsProperty | None:
    template = ec2.CfnLaunchTemplate
    if machine.purchase == "spot":
        return template.InstanceMarketOptionsProperty(
            market_type="spot",
            spot_options=template.SpotOptionsProperty(
                spot_instance_type="one-time", instance_interruption_behavior="terminate"
            ),
        )
    if machine.purchase == "capacity-block":
        return template.InstanceMarketOptionsProperty(market_type="capacity-block")
    return None


def _reservation(machine: Machine) -> ec2.CfnLaunchTemplate.CapacityReservationSpecificationProperty | None:
    if not machine.capacity_reservation_id:
        return None
    template = ec2.CfnLaunchTemplate
    return template.CapacityReservationSpecificationProperty(
        capacity_reservation_target=template.CapacityReservationTargetProperty(
            capacity_reservation_id=machine.capacity_reservation_id
        )
    )

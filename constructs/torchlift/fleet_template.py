"""The launch template of a fleet's hosts: a new one for each content."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from aws_cdk import Stack
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from torchlift.content_hash import HASH_LENGTH, digest
from torchlift.instance_access import InstanceAccess
from torchlift.launch_template import Machine, check_user_data, launch_template_data
from torchlift.staging import REPO_ROOT

USER_DATA = REPO_ROOT / "hosts" / "inferentia" / "user_data.sh"


def fleet_template(
    scope: Construct, *, machine: Machine, variables: Mapping[str, str], tags: Mapping[str, str], access: InstanceAccess
) -> ec2.CfnLaunchTemplate:
    """Declare a template for each content, never a version of one. Raises ValueError when the user data is too long.

    A rollback finds the old template as it was, while a version that was made stays the latest, and would start the
    rolled-back hosts anew with some later update.

    :param variables: the fleet's environment, which its hosts write down at their first boot
    """
    user_data = render_user_data(variables)
    check_user_data(user_data)
    details = {
        "machine": {"image": machine.image_id, **vars(machine)},
        "user_data": user_data,
        "tags": dict(tags),
        "profile": access.profile.ref,
        "group": access.security_group.security_group_id,
    }
    hash = digest(Stack.of(scope).resolve(details))[:HASH_LENGTH]
    return ec2.CfnLaunchTemplate(
        scope,
        f"Template{hash}",
        launch_template_data=launch_template_data(
            machine=machine,
            instance_profile_arn=access.profile.attr_arn,
            security_group_id=access.security_group.security_group_id,
            tags=tags,
            user_data=user_data,
        ),
    )


def render_user_data(variables: Mapping[str, str]) -> str:
    """Return the boot script with the fleet's environment in it, quoted for the shell."""
    lines = "\n".join(f"{name}={shlex.quote(value)}" for name, value in sorted(variables.items()))
    return USER_DATA.read_text(encoding="utf-8").replace("@FLEET_ENVIRONMENT@", lines)

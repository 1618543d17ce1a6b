"""Network interfaces of a fleet: SageMaker makes them with the model's role, and removes them after the endpoint."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from moto.ec2.models import ec2_backends
from moto.iam.models import iam_backends
from moto.sagemaker.models import sagemaker_backends

from stand_in.environment import ACCOUNT
from stand_in.executor.site import Site

log = logging.getLogger(__name__)
LINGER_SECONDS = 3.0
"""How long interfaces stay when their fleet is gone; on AWS minutes (aws-cdk and terraform users report up to 20)."""


class Interfaces:
    """One interface in each subnet that a model of the fleet names, in the model's security groups."""

    def __init__(self, site: Site, *, region: str, endpoint: str, variants: Sequence[Mapping[str, Any]]) -> None:
        """Make them. Raises EC2's errors for subnets and groups that do not exist."""
        self._site = site
        self._region = region
        self._held: list[tuple[str, str]] = []  # (interface, ARN of the role that removes it)
        ec2 = ec2_backends[ACCOUNT][region]
        with site.moto_lock:
            models = sagemaker_backends[ACCOUNT][region]._models
            for model in [models[one["ModelName"]] for one in variants if one.get("ModelName") in models]:
                place = model.vpc_config or {}
                for subnet in place.get("Subnets", ()):
                    made = ec2.create_network_interface(
                        subnet,
                        "",
                        group_ids=list(place["SecurityGroupIds"]),
                        description=f"Stand-in for SageMaker: endpoint {endpoint}",
                    )
                    made.status = "in-use"
                    self._held.append((made.id, model.execution_role_arn))

    def release(self) -> None:
        """Let them go after a while, as SageMaker does; without its role it cannot, and they stay."""
        if self._held:
            timer = threading.Timer(LINGER_SECONDS, self._remove)
            timer.daemon = True
            timer.start()

    def _remove(self) -> None:
        with self._site.moto_lock:
            ec2 = ec2_backends[ACCOUNT][self._region]
            roles = {role.arn for role in iam_backends[ACCOUNT]["aws"].roles.values()}
            for interface, role in self._held:
                if role not in roles:
                    log.error(
                        "interface %s stays: the role %s is gone, with which SageMaker removes it", interface, role
                    )
                elif interface in ec2.enis:
                    ec2.enis[interface].delete()

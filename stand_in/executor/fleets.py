"""The question-answering fleet: instances of its group become hosts, and its load balancer's name leads to them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

from moto.autoscaling.models import autoscaling_backends
from moto.elbv2.models import elbv2_backends

from stand_in.environment import ACCOUNT
from stand_in.executor import groups, health, moto_gaps
from stand_in.executor.balancer import Balancer, Target
from stand_in.executor.job_environment import FLEET_MARK, NoJobEnvironment, from_user_data
from stand_in.executor.modes import FleetLaunch, Member, Mode
from stand_in.executor.site import Site
from stand_in.executor.together import together

log = logging.getLogger(__name__)
DRAIN_SECONDS = 20.0
NO_TARGET = (503, "the load balancer has no target in service")

Key = tuple[str, str]


class Fleets:
    """Follows the groups with the fleet's tag: a new instance boots, one that is gone is drained and ended."""

    def __init__(self, site: Site, mode: Mode) -> None:
        self._site = site
        self._mode = mode
        self._lock = threading.Lock()
        self._instances: dict[Key, dict[str, Member]] = {}
        self._doors: dict[Key, Balancer] = {}
        self._turn = 0
        self._closed = False
        moto_gaps.load_balancer_made = self._open_door

    def follow(self, region: str) -> None:
        """Look at the fleets of a region again. Call after whatever may change one; returns at once."""
        with self._site.moto_lock:
            found = {name: groups.read(region, name) for name in groups.names(region)}
        wanted = {
            (region, name): group
            for name, group in found.items()
            if group is not None and group.job == groups.FLEET_JOB
        }
        new: list[Member] = []
        gone: list[Member] = []
        with self._lock:
            if self._closed:
                return
            for key in {*wanted, *(key for key in self._instances if key[0] == region)}:
                group, running = wanted.get(key), self._instances.setdefault(key, {})
                present = group.instances if group else ()
                gone += [running.pop(instance) for instance in [*running] if instance not in present]
                for instance in present:
                    if group is not None and instance not in running:
                        try:
                            running[instance] = self._instance(region, instance, group)
                        except NoJobEnvironment as error:
                            log.error("instance %s: %s", instance, error)
                            continue
                        new.append(running[instance])
        for one in new:
            threading.Thread(target=one.live, name=f"instance {one.id}", daemon=True).start()
        for one in gone:
            threading.Thread(target=self._end, args=(one,), name=f"end of {one.id}", daemon=True).start()

    def follow_load_balancers(self, region: str) -> None:
        """Close the ports of load balancers that are gone."""
        there = elbv2_backends[ACCOUNT][region].load_balancers
        with self._lock:
            gone = [key for key in self._doors if key[0] == region and key[1] not in there]
            doors = [self._doors.pop(key) for key in gone]
        for door in doors:
            door.close()

    def states(self) -> list[dict[str, Any]]:
        """Instances, for `/_torchlift/state`."""
        with self._lock:
            running = [(key, one) for key, of in self._instances.items() for one in of.values()]
        return [{"group": key[1], **one.as_json()} for key, one in running]

    def close(self) -> None:
        """End everything, and wait for it."""
        with self._lock:
            self._closed = True
            running = [one for of in self._instances.values() for one in of.values()]
            doors = list(self._doors.values())
            self._instances.clear()
            self._doors.clear()
        together([*(one.stop for one in running), *(door.close for door in doors)])

    def _instance(self, region: str, instance: str, group: groups.Group) -> Member:
        return self._mode.member(
            FleetLaunch(
                region=region,
                instance_id=instance,
                environment=from_user_data(group.user_data, mark=FLEET_MARK),
                user_data=group.user_data,
                role=group.role,
                instance_type=group.instance_type,
                health=health.of_target_group(region, next(iter(group.target_groups), "")),
            )
        )

    def _end(self, instance: Member) -> None:
        instance.leave()
        if instance.port is not None:
            for door in list(self._doors.values()):
                door.drained(instance.port, seconds=DRAIN_SECONDS)
        instance.stop()

    def _open_door(self, region: str, arn: str) -> str:
        """A port for a load balancer that moto makes; its address is the load balancer's DNS name."""
        door = Balancer(lambda path: self._targets(region, arn, path), none=NO_TARGET)
        with self._lock:
            self._doors[region, arn] = door
        return door.address

    def _targets(self, region: str, arn: str, path: str) -> Sequence[Target]:
        """The instances in service of the groups that register with the load balancer's target groups, in turn."""
        wanted = _target_groups(region, arn)
        with self._lock:
            ports = [
                one.port
                for (of_region, name), of in self._instances.items()
                if of_region == region and wanted & _registered(region, name)
                for one in of.values()
                if one.in_service and one.port is not None
            ]
            self._turn += 1
            first = self._turn
        return [Target(ports[(first + offset) % len(ports)], path) for offset in range(len(ports))]


def _target_groups(region: str, arn: str) -> set[str]:
    """Target groups that the listeners of a load balancer forward to."""
    balancer = elbv2_backends[ACCOUNT][region].load_balancers.get(arn)
    found: set[str] = set()
    for listener in list(balancer.listeners.values()) if balancer else ():
        for action in listener.default_actions:
            data = action.data
            groups_of = data.get("ForwardConfig", {}).get("TargetGroups", ())
            found |= {str(one["TargetGroupArn"]) for one in (data, *groups_of) if one.get("TargetGroupArn")}
    return found


def _registered(region: str, name: str) -> set[str]:
    """Target groups in which an Auto Scaling group registers its instances."""
    group = autoscaling_backends[ACCOUNT][region].autoscaling_groups.get(name)
    return set(group.target_group_arns or ()) if group else set()

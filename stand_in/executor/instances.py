"""EC2 instances of job groups: an instance becomes a process that runs the job, signals, and ends itself."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from stand_in.environment import ACCOUNT
from stand_in.events import Events, new_event
from stand_in.executor import activities, direct, groups
from stand_in.executor.faults import Faults
from stand_in.executor.groups import Group
from stand_in.executor.job_environment import NoJobEnvironment, from_user_data
from stand_in.executor.modes import Instance, Launch, Mode
from stand_in.executor.site import Site
from stand_in.executor.together import together

log = logging.getLogger(__name__)
LAUNCH_RETRY_S = 1.0
"""A group tries a failed launch again after a while; AWS waits longer, but nothing here needs that."""

Key = tuple[str, str]


class Instances:
    """Follows the groups: what moto adds is started, what is gone is ended and reported, one group at a time."""

    def __init__(self, site: Site, events: Events, faults: Faults, mode: Mode) -> None:
        self._site = site
        self._mode = mode
        self._events = events
        self._faults = faults
        self._lock = threading.Lock()
        self._running: dict[Key, dict[str, Instance]] = defaultdict(dict)
        self._arns: dict[Key, str] = {}
        self._followers: dict[Key, ThreadPoolExecutor] = {}
        self._closed = threading.Event()

    def follow(self, region: str) -> None:
        """Look at every group of a region again, soon and in the background. Call after whatever may change one."""
        with self._lock:
            known = {name for follower_region, name in self._followers if follower_region == region}
        for name in known | set(groups.names(region)):
            self._submit((region, name))

    def close(self) -> None:
        """End every instance, without a word to anybody."""
        self._closed.set()
        with self._lock:
            followers = list(self._followers.values())
            runs = [run for group in self._running.values() for run in group.values()]
        for follower in followers:
            follower.shutdown(wait=False, cancel_futures=True)
        together(run.stop for run in runs)

    def _submit(self, key: Key) -> None:
        with self._lock:
            if self._closed.is_set():
                return
            if key not in self._followers:
                # A thread a group: its events come one after the other, as the handler may expect.
                self._followers[key] = ThreadPoolExecutor(1, thread_name_prefix=f"group {key[1]}")
            self._followers[key].submit(self._look, key)

    def _look(self, key: Key) -> None:
        try:
            self._end_gone(key)
            # Only now, with the handler's verdict on what is gone: it may have turned the group off.
            self._start_new(key)
        except Exception:
            log.exception("group %s", key[1])

    def _read(self, key: Key) -> Group | None:
        with self._site.moto_lock:
            group = groups.read(*key)
        return None if group is not None and group.job == groups.FLEET_JOB else group

    def _end_gone(self, key: Key) -> None:
        group = self._read(key)
        present = set(group.instances) if group else set()
        for instance_id in [one for one in self._running[key] if one not in present]:
            run = self._running[key].pop(instance_id)
            by_itself = run.leaving
            run.stop()
            desired = group.desired if group else 0
            cause = (
                f"instance {instance_id} was taken out of service in response to a user request, shrinking the "
                f"capacity to {desired}."
                if by_itself or desired == 0
                else f"an instance was taken out of service in response to an EC2 health check: {instance_id} is gone."
            )
            self._report(
                key,
                group,
                instance_id,
                "EC2 Instance Terminate Successful",
                f"Terminating EC2 instance: {instance_id}",
                cause,
            )

    def _start_new(self, key: Key) -> None:
        group = self._read(key)
        if group is None:
            return
        for instance_id in [one for one in group.instances if one not in self._running[key]]:
            fault = self._faults.take("launch", group.job)
            if fault is not None:
                description = "Launching a new EC2 instance.  Status Reason: " + fault
                kind = "EC2 Instance Launch Unsuccessful"
                cause = "an instance was started in response to a difference between desired and actual capacity."
                self._report(key, group, "", kind, description, cause, fault)
                threading.Timer(LAUNCH_RETRY_S, self._submit, [key]).start()
                return
            self._launch(key, group, instance_id)

    def _launch(self, key: Key, group: Group, instance_id: str) -> None:
        try:
            environment = from_user_data(group.user_data)
            direct.job(environment.get("TORCHLIFT_JOB", ""))
        except (NoJobEnvironment, direct.NoDirectMode) as error:
            log.error("group %s: %s", group.name, error)
            environment = {"TORCHLIFT_JOB": group.job}
        run = self._mode.instance(
            Launch(
                region=key[0],
                instance_id=instance_id,
                environment=environment,
                user_data=group.user_data,
                role=group.role,
            )
        )
        self._running[key][instance_id] = run
        cause = "an instance was started in response to a difference between desired and actual capacity."
        description = f"Launching a new EC2 instance: {instance_id}"
        self._report(key, group, instance_id, "EC2 Instance Launch Successful", description, cause)
        threading.Thread(target=run.live, name=f"instance {instance_id}", daemon=True).start()

    def _report(
        self,
        key: Key,
        group: Group | None,
        instance_id: str,
        kind: str,
        description: str,
        cause: str,
        problem: str = "",
    ) -> None:
        """Record the activity and deliver its event."""
        region, name = key
        if group is not None:
            self._arns[key] = group.arn
        arn = self._arns.get(key, "")
        activity = activities.add(
            ACCOUNT,
            region,
            group_name=name,
            group_arn=arn,
            description=description,
            cause=cause,
            status="Failed" if problem else "Successful",
            message=problem,
        )
        if not self._closed.is_set():
            self._events.deliver(_event(region, kind, activity, instance_id))


def _event(region: str, kind: str, activity: dict[str, Any], instance_id: str) -> dict[str, Any]:
    detail = {
        "StatusCode": activity["StatusCode"] if activity["StatusCode"] == "Failed" else "InProgress",
        "Description": activity["Description"],
        "AutoScalingGroupName": activity["AutoScalingGroupName"],
        "ActivityId": activity["ActivityId"],
        "RequestId": activity["ActivityId"],
        "StatusMessage": activity.get("StatusMessage", ""),
        "StartTime": activity["StartTime"].strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z",
        "EndTime": activity["EndTime"].strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z",
        "Cause": activity["Cause"],
        "EC2InstanceId": instance_id,
        "Details": groups.zone_and_subnet(region, instance_id) if instance_id else {},
        "Origin": "AutoScalingGroup" if "Terminat" in kind else "EC2",
        "Destination": "EC2" if "Terminat" in kind else "AutoScalingGroup",
    }
    resources = [activity["AutoScalingGroupARN"]]
    if instance_id:
        resources.append(f"arn:aws:ec2:{region}:{ACCOUNT}:instance/{instance_id}")
    return new_event(source="aws.autoscaling", detail_type=kind, detail=detail, resources=resources, region=region)

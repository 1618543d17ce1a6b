"""Target of each job's EventBridge rule: tells the stack how a build ended, or that an instance is lost for good.

Of a failure it tells people, too.

The report comes from outside the job, so a fault before the job's first command, or a host that vanishes, cannot
leave the stack waiting.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torchlift.handlers._shared.results import hash_of
from torchlift.handlers._shared.wait_handle import signal
from torchlift.handlers.signal_job.builds import judge_build
from torchlift.handlers.signal_job.instances import judge_instance
from torchlift.handlers.signal_job.mail import tell


def handle(event: Mapping[str, Any], context: Any) -> str:
    """Judge one event and report the job's end, if it is one.

    :param event: ``{"handle", "job", "group", "result", "event"}``, as the rule's input transformer makes it
    :returns: what was decided, for the log
    """
    inner = event["event"]
    if inner["source"] == "aws.codebuild":
        verdict = judge_build(inner)
    elif inner["source"] == "aws.autoscaling":
        verdict = judge_instance(inner, group=event["group"], result=event["result"])
    else:
        raise ValueError(f"no job ends with an event from {inner['source']}")
    if verdict.ended:
        job, hash = event["job"], hash_of(event["result"])
        # First: on the signal the stack may roll back, and take this function's permissions away.
        if not verdict.success and not verdict.told:
            tell(job=job, hash=hash, reason=verdict.reason)
        signal(event["handle"], success=verdict.success, reason=f"{job}: {verdict.reason}", unique_id=hash)
    print(verdict)
    return verdict.reason

"""How people hear of a failed job: by the deployment's alarm topic."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import quote

import boto3
from botocore.config import Config

MAX_REASON_CHARACTERS = 4000


def tell(*, job: str, hash: str, reason: str) -> None:
    """Publish one message; what goes wrong is logged and raised no further: the stack's signal matters more.

    The environment holds the topic, the deployment's name and what the names of its jobs' log groups begin with.

    :param hash: content hash of the job's result
    :param reason: cut to 4000 characters, less than what a topic takes (256 KiB)
    """
    try:
        deployment, group = os.environ["TORCHLIFT_DEPLOYMENT"], os.environ["TORCHLIFT_JOB_LOGS"] + job
        lines = [
            f"The job {job} of the deployment {deployment} failed.",
            "",
            reason[:MAX_REASON_CHARACTERS],
            "",
            f"Hash:    {hash}",
            f"Log:     {group}",
            f"         {console_link(group, region=os.environ['AWS_REGION'])}",
            "To do:   docs/runbooks.md#job-failed",
        ]
        # The function has two minutes, and the signal needs most of them when its first attempts fail.
        config = Config(connect_timeout=5, read_timeout=5, retries={"total_max_attempts": 2})
        sns: Any = boto3.client("sns", config=config)
        sns.publish(
            TopicArn=os.environ["TORCHLIFT_TOPIC_ARN"],
            # At most 100 ASCII characters (API reference, Publish): names of deployments have 20, of jobs fewer.
            Subject=f"Torchlift {deployment}: {job} failed",
            Message="\n".join(lines),
        )
    except Exception as error:  # whatever it is, the signal must be sent
        print(f"nobody was told of {job}: {error}")


def console_link(group: str, *, region: str) -> str:
    """Return the address of a log group in the console, whose fragments quote twice and write % as $."""
    quoted = quote(quote(group, safe=""), safe="").replace("%", "$")
    console = f"https://{region}.console.aws.amazon.com/cloudwatch/home?region={region}"
    return f"{console}#logsV2:log-groups/log-group/{quoted}"

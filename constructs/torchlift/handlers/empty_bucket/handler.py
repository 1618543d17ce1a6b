"""Custom::EmptyBucket: removes every object, version and unfinished upload of a bucket that is about to go.

Used by ephemeral deployments only, whose contract is that nothing is left.

A deployment that stops being ephemeral loses this resource, and CloudFormation says so with the same request as when
the stack is destroyed. So the stack's own state decides: while it lives on, its data stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import boto3

from torchlift.handlers._shared.cfn_response import answering

# Kept back for the answer to CloudFormation.
RESERVE_MS = 30_000
# The stack is destroyed, or its creation has failed; in a cleanup after an update it lives on.
GOING = {"DELETE_IN_PROGRESS", "ROLLBACK_IN_PROGRESS"}


def handle(event: Mapping[str, Any], context: Any) -> None:
    """Answer one request of CloudFormation; only deletion together with the stack empties."""
    with answering(event, task="empty the bucket"):
        if event["RequestType"] == "Delete" and _stack_goes(event["StackId"]):
            count = empty(event["ResourceProperties"]["BucketName"], context)
            print(f"removed {count} objects and versions")


def _stack_goes(stack_id: str) -> bool:
    cloudformation: Any = boto3.client("cloudformation")
    status = cloudformation.describe_stacks(StackName=stack_id)["Stacks"][0]["StackStatus"]
    print(f"stack {status}")
    return status in GOING


def empty(bucket: str, context: Any) -> int:
    """Empty ``bucket`` and return how many objects and versions went; a bucket that is gone counts as empty.

    :raises TimeoutError: the function's time is nearly up; deleting the stack again goes on from there
    :raises RuntimeError: S3 refused to remove an object
    """
    s3: Any = boto3.client("s3")
    removed = 0
    try:
        # Always the first page: what it listed is gone the next time, and what came meanwhile is there.
        while True:
            page = s3.list_object_versions(Bucket=bucket)
            items = [
                {"Key": item["Key"], "VersionId": item["VersionId"]}
                for kind in ("Versions", "DeleteMarkers")
                for item in page.get(kind, [])
            ]
            if not items:
                break
            if context.get_remaining_time_in_millis() < RESERVE_MS:
                raise TimeoutError(f"out of time after {removed} objects; delete the stack again")
            answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": items, "Quiet": True})
            if answer.get("Errors"):
                first = answer["Errors"][0]
                raise RuntimeError(f"{first['Key']}: {first['Code']}")
            removed += len(items)
        for page in s3.get_paginator("list_multipart_uploads").paginate(Bucket=bucket):
            for upload in page.get("Uploads", []):
                s3.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
    except s3.exceptions.NoSuchBucket:
        pass
    return removed

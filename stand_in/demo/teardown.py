"""Take back what `cdk bootstrap` made; CDK itself has no command for it."""

from __future__ import annotations

from stand_in.session import StandIn

TOOLKIT = "CDKToolkit"


def delete_bootstrap(aws: StandIn) -> None:
    """Empty the asset bucket and repository, delete the stack, then the bucket that the stack retains."""
    cloudformation, s3 = aws.client("cloudformation"), aws.client("s3")
    resources = cloudformation.describe_stack_resources(StackName=TOOLKIT)["StackResources"]
    buckets = [r["PhysicalResourceId"] for r in resources if r["ResourceType"] == "AWS::S3::Bucket"]
    repositories = [r["PhysicalResourceId"] for r in resources if r["ResourceType"] == "AWS::ECR::Repository"]
    for bucket in buckets:
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
            found = [
                {"Key": item["Key"], "VersionId": item["VersionId"]}
                for item in page.get("Versions", []) + page.get("DeleteMarkers", [])
            ]
            if found:
                s3.delete_objects(Bucket=bucket, Delete={"Objects": found})
    cloudformation.delete_stack(StackName=TOOLKIT)
    cloudformation.get_waiter("stack_delete_complete").wait(
        StackName=TOOLKIT, WaiterConfig={"Delay": 1, "MaxAttempts": 120}
    )
    left = {bucket["Name"] for bucket in s3.list_buckets()["Buckets"]}
    for bucket in left.intersection(buckets):
        s3.delete_bucket(Bucket=bucket)
    for repository in repositories:
        ecr = aws.client("ecr")
        held = {item["repositoryName"] for item in ecr.describe_repositories()["repositories"]}
        if repository in held:
            ecr.delete_repository(repositoryName=repository, force=True)

"""Lambda functions for custom resources, as archives in S3 with role and log group, in template form."""

from __future__ import annotations

import io
import zipfile
from typing import Any

from tests.stand_in.conftest import REGION, Stacks

ANSWER = '''
import json, urllib.request

def answer(event, status="SUCCESS", physical_id="id-1", **more):
    body = {
        "Status": status, "PhysicalResourceId": physical_id, "StackId": event["StackId"],
        "RequestId": event["RequestId"], "LogicalResourceId": event["LogicalResourceId"], **more,
    }
    data = json.dumps(body).encode()
    request = urllib.request.Request(event["ResponseURL"], data=data, method="PUT", headers={"Content-Type": ""})
    urllib.request.urlopen(request, timeout=10)

def note(event):
    """Keep the request where the test finds it."""
    import os, time
    bucket = os.environ["BUCKET"]
    url = f"{os.environ['AWS_ENDPOINT_URL']}/{bucket}/{time.time_ns():020d}"
    # Signed as an administrator would: the function's role is not what these tests look at, and boto3 loads for long.
    signature = "AWS4-HMAC-SHA256 Credential=testing/20260101/us-west-2/s3/aws4_request, SignedHeaders=, Signature="
    headers = {"Content-Type": "application/json", "Authorization": signature}
    request = urllib.request.Request(url, data=json.dumps(event).encode(), method="PUT", headers=headers)
    urllib.request.urlopen(request, timeout=10)
'''
TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}


def upload(stacks: Stacks, code: str) -> str:
    """Put an archive with this `handler(event, context)` into a bucket; returns the bucket."""
    s3, bucket = stacks.aws.client("s3"), stacks.name("code")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("index.py", ANSWER + code)
    if bucket not in [one["Name"] for one in s3.list_buckets()["Buckets"]]:
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_object(Bucket=bucket, Key="code.zip", Body=packed.getvalue())
    return bucket


def function(bucket: str, **properties: Any) -> dict[str, Any]:
    """Resources of a function from that bucket: `Role`, `Logs`, `Function`."""
    return {
        "Role": {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": TRUST}},
        "Logs": {"Type": "AWS::Logs::LogGroup", "Properties": {}},
        "Function": {
            "Type": "AWS::Lambda::Function",
            "Properties": {
                "Code": {"S3Bucket": bucket, "S3Key": "code.zip"},
                "Environment": {"Variables": {"BUCKET": bucket}},
                "Handler": "index.handler",
                "LoggingConfig": {"LogGroup": {"Ref": "Logs"}},
                "Role": {"Fn::GetAtt": ["Role", "Arn"]},
                "Runtime": "python3.11",
                "Timeout": 20,
                **properties,
            },
        },
    }

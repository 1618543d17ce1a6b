"""VerifyEndpoint: the stack goes on only when the endpoint answers right."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import CustomResource, Duration, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from constructs import Construct

from torchlift import permissions
from torchlift.content_hash import HASH_LENGTH, digest
from torchlift.handler_function import HandlerFunction
from torchlift.sagemaker_endpoint import SageMakerEndpoint


class VerifyEndpoint(Construct):
    """Asks each variant what its archive's probe says, and fails the stack when the answer is wrong.

    The resource's logical id carries the endpoint's configuration: each new one is a new resource, so that a rollback
    finds the old one as it was and asks nothing while the endpoint itself is still on its way back.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        endpoint: SageMakerEndpoint,
        probes: Mapping[str, str],
        bucket: s3.IBucket,
        prefix: str,
        key: kms.IKey,
        log_retention: logs.RetentionDays,
        target_model: str | None = None,
    ) -> None:
        """Declare the function and the resource; what clients read must depend on this construct.

        :param probes: {variant: key of its probe.json in `bucket`, below `prefix`}
        :param target_model: the archive that a multi-model endpoint is asked for
        """
        super().__init__(scope, id)
        stack = Stack.of(self)
        function = HandlerFunction(
            self,
            "Function",
            handler="verify_endpoint",
            description="Asks a new endpoint configuration what it must know",
            log_retention=log_retention,
            key=key,
            # Nine minutes of questions at most, after a scaling activity that may be under way.
            timeout=Duration.minutes(14),
        )
        permissions.allow(
            function.role,
            actions=["sagemaker:DescribeEndpoint", "sagemaker:InvokeEndpoint"],
            resources=[
                f"arn:{stack.partition}:sagemaker:{stack.region}:{stack.account}:endpoint/{endpoint.literal_name}"
            ],
        )
        permissions.read_prefix(function.role, bucket=bucket, prefix=prefix, key=key)
        target = {"TargetModel": target_model} if target_model else {}
        configuration = digest({"endpoint": stack.resolve(endpoint.configuration), "probes": dict(probes), **target})
        verified = CustomResource(
            self,
            f"Configuration{configuration[:HASH_LENGTH]}",
            resource_type="Custom::VerifyEndpoint",
            service_token=function.arn,
            service_timeout=Duration.minutes(15),
            properties={
                "Endpoint": endpoint.literal_name,
                "Config": endpoint.config.attr_endpoint_config_name,
                "Variants": [
                    {"Name": name, "Probe": bucket.s3_url_for_object(path), **target} for name, path in probes.items()
                ],
            },
        )
        verified.node.add_dependency(endpoint.endpoint, function)

"""HandlerFunction: one of our Lambda handlers, with a declared log group and a role that is written out."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from aws_cdk import AssetHashType, Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from torchlift import permissions
from torchlift.content_hash import digest_files
from torchlift.staging import collect, copy_files

PACKAGE_ROOT = Path(__file__).resolve().parent


class HandlerFunction(Construct):
    """A function from ``handlers/<handler>/handler.py``: boto3 and the standard library only.

    The archive keeps the package path (``torchlift/handlers/<handler>/handler.py``), so that a handler's imports
    are the same here, in tests and on Lambda.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        handler: str,
        description: str,
        log_retention: logs.RetentionDays,
        removal_policy: RemovalPolicy = RemovalPolicy.DESTROY,
        key: kms.IKey | None = None,
        timeout: Duration | None = None,
        memory_mib: int = 256,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Declare the log group, the role and the function.

        :param handler: name of the folder under ``handlers/``
        :param key: customer key for the log group; its policy must admit the logs service
        :param timeout: at most 15 minutes (Lambda's limit); one minute when left out
        """
        super().__init__(scope, id)
        self.log_group = logs.LogGroup(
            self, "Logs", retention=log_retention, removal_policy=removal_policy, encryption_key=key
        )
        # No SourceAccount condition here: Lambda passes none when it assumes an execution role.
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        permissions.write_logs(self.role, log_group=self.log_group)
        files = handler_files(handler)
        with tempfile.TemporaryDirectory(prefix="torchlift-") as folder:
            copy_files(files=files, target=Path(folder))
            code = lambda_.Code.from_asset(folder, asset_hash=digest_files(files), asset_hash_type=AssetHashType.CUSTOM)
            self.function = lambda_.Function(
                self,
                "Function",
                code=code,
                handler=f"torchlift.handlers.{handler}.handler.handle",
                runtime=lambda_.Runtime.PYTHON_3_14,
                architecture=lambda_.Architecture.ARM_64,
                description=description,
                role=self.role,
                log_group=self.log_group,
                timeout=timeout or Duration.minutes(1),
                memory_size=memory_mib,
                environment=dict(environment) if environment else None,
            )
        # Without its permissions and its group, a first call would fail or log nowhere.
        self.function.node.add_dependency(self.role, self.log_group)

    @property
    def arn(self) -> str:
        """The function's ARN: a service token for custom resources."""
        return self.function.function_arn

    def allow_rule(self, scope: Construct, id: str, *, rule_arn: str) -> lambda_.CfnPermission:
        """Let one EventBridge rule call the function; the permission is declared in ``scope``, beside the rule."""
        return lambda_.CfnPermission(
            scope,
            id,
            action="lambda:InvokeFunction",
            function_name=self.function.function_arn,
            principal="events.amazonaws.com",
            source_account=Stack.of(self).account,
            source_arn=rule_arn,
        )


def handler_files(handler: str) -> dict[str, Path]:
    """Return {path in the archive: file} of one handler and of what handlers share."""
    paths = ["__init__.py", "handlers/__init__.py", "handlers/_shared", f"handlers/{handler}"]
    files = collect(root=PACKAGE_ROOT, paths=paths)
    return {f"torchlift/{name}": file for name, file in files.items()}

"""Security rules over the construct tree: AwsSolutions, and what NIST 800-53 says about SageMaker and IMDSv2.

Findings are acknowledged where they arise. Wildcards in policies are the exception: the rules name them by the text
of the finished policy, which is not known before the end of the synthesis, so the reasons that
:func:`torchlift.permissions.allow` left in the metadata are turned into acknowledgements only then.
"""

from __future__ import annotations

import json
import re
from typing import Any

import jsii
from aws_cdk import Acknowledgment, App, IPolicyValidationPlugin, PolicyValidationPluginReport, Stack, Validations
from cdk_nag import AwsSolutionsChecks, NIST80053R5Checks
from constructs import IConstruct

from torchlift.permissions import WILDCARD_METADATA

NIST_RULES = re.compile(r"SageMaker|EC2IMDSv2Enabled")


def add_rules(app: App) -> None:
    """Check `app` at the end of its synthesis; a finding without a reason fails it."""
    Validations.of(app).add_plugins(_WildcardReasons(app), AwsSolutionsChecks(app), _Nist(app))


@jsii.implements(IPolicyValidationPlugin)
class _WildcardReasons:
    """Reports nothing; acknowledges each wildcard that came with a reason, on the role that has it."""

    def __init__(self, app: App) -> None:
        self._app = app

    @property
    def name(self) -> str:
        return "Torchlift wildcards"

    @property
    def version(self) -> str | None:
        return None

    @property
    def rule_ids(self) -> list[str] | None:
        return None

    def validate(self, context: Any) -> PolicyValidationPluginReport:
        for construct in self._app.node.find_all():
            for entry in construct.node.metadata:
                if entry.type == WILDCARD_METADATA:
                    _acknowledge_wildcard(construct, **entry.data)
        return PolicyValidationPluginReport(success=True, violations=[])


def _acknowledge_wildcard(role: IConstruct, *, resource: str, reason: str) -> None:
    text = flatten(Stack.of(role).resolve(resource))
    Validations.of(role).acknowledge(
        Acknowledgment(id=f"AwsSolutions::AwsSolutions-IAM5[Resource::{text}]", reason=reason)
    )


@jsii.implements(IPolicyValidationPlugin)
class _Nist:
    """The NIST rules that say something about this app; the others are about whole accounts and backups."""

    def __init__(self, app: App) -> None:
        self._pack = NIST80053R5Checks(app)

    @property
    def name(self) -> str:
        return str(self._pack.name)

    @property
    def version(self) -> str | None:
        return None

    @property
    def rule_ids(self) -> list[str] | None:
        return None

    def validate(self, context: Any) -> PolicyValidationPluginReport:
        violations = [item for item in self._pack.validate(context).violations if NIST_RULES.search(item.rule_name)]
        return PolicyValidationPluginReport(success=not violations, violations=violations)


def flatten(value: Any) -> str:
    """A resolved value as cdk-nag writes it in the id of a finding: `<Bucket.Arn>/inputs/*`."""
    match value:
        case str():
            return re.sub(r"\$\{", "<", value).replace("}", ">")
        case {"Fn::Join": [delimiter, items]}:
            return str(delimiter).join(flatten(item) for item in items)
        case {"Fn::GetAtt": [resource, attribute]}:
            return f"<{flatten(resource)}.{flatten(attribute)}>"
        case {"Fn::ImportValue": name} | {"Fn::Sub": name}:
            return flatten(name)
        case {"Ref": name}:
            return f"<{flatten(name)}>"
    return json.dumps(value, separators=(",", ":"))

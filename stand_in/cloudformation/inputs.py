"""What a caller hands over with a stack operation: the template, parameters, tags."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stand_in.cloudformation.stacks import Stack
from stand_in.cloudformation.template import Template, TemplateError, parse_template

Params = Mapping[str, Any]
LOCAL = re.compile(r"https?://(?:127\.0\.0\.1|localhost)(?::\d+)?/([^/]+)/(.+?)(?:\?.*)?$")
S3 = re.compile(r"https?://([^./]+)\.s3[^/]*/(.+?)(?:\?.*)?$")


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """A request, read: `parameters` as they were given, `resolved` as Ref gives them."""

    template: Template
    parameters: dict[str, str] = field(default_factory=dict)
    resolved: dict[str, Any] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    role_arn: str | None = None
    capabilities: list[str] = field(default_factory=list)

    def differ_from(self, stack: Stack) -> bool:
        """True when an update with these would change anything."""
        held = (stack.template.document if stack.template else None, stack.resolved, stack.tags)
        return held != (self.template.document, self.resolved, self.tags)

    def keep_in(self, stack: Stack) -> dict[str, Any]:
        """Make them the stack's own; returns what the stack had, for a rollback."""
        names = ("parameters", "tags", "role_arn", "capabilities")
        previous = {name: getattr(stack, name) for name in names}
        for name in names:
            setattr(stack, name, getattr(self, name))
        return previous


class Reader:
    """Reads requests. `client(service, region)` makes boto3 clients."""

    def __init__(self, client: Callable[[str, str], Any]) -> None:
        self._client = client

    def read(self, params: Params, region: str, stack: Stack | None = None) -> Inputs:
        """The whole request; what it leaves out comes from `stack`. Raises TemplateError."""
        template = self.template(params, region, stack)
        parameters = self._parameters(template, params, stack)
        tags = dict(stack.tags) if stack else {}
        if "Tags" in params:
            tags = {tag["Key"]: tag["Value"] for tag in params["Tags"]}
        return Inputs(
            template=template,
            parameters=parameters,
            resolved={
                name: self._resolved(name, template.parameters[name], value, region)
                for name, value in parameters.items()
            },
            tags=tags,
            role_arn=params.get("RoleARN", stack.role_arn if stack else None),
            capabilities=list(params.get("Capabilities", stack.capabilities if stack else ())),
        )

    def template(self, params: Params, region: str, stack: Stack | None = None) -> Template:
        """The request's template: its text, an object in S3, or the stack's own. Raises TemplateError."""
        if params.get("UsePreviousTemplate") and stack is not None and stack.template is not None:
            return stack.template
        if "TemplateBody" in params:
            return parse_template(params["TemplateBody"])
        if "TemplateURL" not in params:
            raise TemplateError("Either Template URL or Template Body must be specified.")
        url = params["TemplateURL"]
        match = LOCAL.match(url) or S3.match(url)
        if match is None:
            raise TemplateError(f"S3 error: the template URL {url} names no object of the stand-in")
        s3 = self._client("s3", region)
        try:
            body = s3.get_object(Bucket=match[1], Key=match[2])["Body"].read()
        except s3.exceptions.ClientError as error:
            raise TemplateError(f"S3 error: {error}") from error
        return parse_template(body.decode())

    def ssm(self, name: str, region: str) -> str:
        """The value of a parameter of Systems Manager. Raises TemplateError."""
        client = self._client("ssm", region)
        try:
            return str(client.get_parameter(Name=name)["Parameter"]["Value"])
        except client.exceptions.ParameterNotFound:
            raise TemplateError(f"Unable to fetch parameters [{name}] from parameter store for this account.") from None

    @staticmethod
    def _parameters(template: Template, params: Params, stack: Stack | None) -> dict[str, str]:
        given = {item["ParameterKey"]: item for item in params.get("Parameters", ())}
        unknown = set(given) - set(template.parameters)
        if unknown:
            raise TemplateError(f"Parameters: {sorted(unknown)} do not exist in the template")
        found: dict[str, str] = {}
        for name, spec in template.parameters.items():
            item = given.get(name, {})
            if item.get("UsePreviousValue") and stack is not None and name in stack.parameters:
                found[name] = stack.parameters[name]
            elif "ParameterValue" in item:
                found[name] = item["ParameterValue"]
            elif "Default" in spec:
                found[name] = str(spec["Default"])
            else:
                raise TemplateError(f"Parameters: [{name}] must have values")
        return found

    def _resolved(self, name: str, spec: Mapping[str, Any], value: str, region: str) -> Any:
        kind = str(spec["Type"])
        if kind.startswith("AWS::SSM::Parameter::Value"):
            value = self.ssm(value, region)
        else:
            _check_allowed(name, spec, value)
        return [item.strip() for item in value.split(",")] if "List" in kind else value


def _check_allowed(name: str, spec: Mapping[str, Any], value: str) -> None:
    allowed = spec.get("AllowedValues")
    if allowed is not None and value not in {str(one) for one in allowed}:
        raise TemplateError(f"Parameter '{name}' must be one of AllowedValues")
    pattern = spec.get("AllowedPattern")
    if pattern is not None and re.fullmatch(pattern, value) is None:
        raise TemplateError(f"Parameter '{name}' must match pattern {pattern}")

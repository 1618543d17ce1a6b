"""Resolve references, functions, conditions and dynamic references."""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stand_in.cloudformation.template import Template, TemplateError

NO_VALUE = object()
"""What `AWS::NoValue` resolves to: the key or item it stands for is left out."""

VARIABLE = re.compile(r"\$\{([^!}][^}]*)\}")
DYNAMIC = re.compile(r"\{\{resolve:ssm:([^}:]+)(?::\d+)?\}\}")


@dataclass(kw_only=True)
class Resolver:
    """Resolves values of one template.

    `reference(logical_id)` and `attribute(logical_id, name)` answer for resources; `import_value(name)` for exports of
    other stacks; `parameter_of_ssm(name)` for dynamic references. What was imported is collected in `imported`.
    """

    template: Template
    parameters: dict[str, Any]
    pseudo: dict[str, Any]
    reference: Callable[[str], Any]
    attribute: Callable[[str, str], Any]
    import_value: Callable[[str], Any]
    parameter_of_ssm: Callable[[str], str]
    zones: Callable[[str], list[str]]
    imported: set[str] = field(default_factory=set)

    def condition(self, name: str) -> bool:
        """The value of a named condition."""
        if name not in self.template.conditions:
            raise TemplateError(f"Template error: condition {name} is not defined")
        return bool(self._condition(self.template.conditions[name]))

    def resolve(self, value: Any) -> Any:
        """`value` with every function in it replaced by its result."""
        if isinstance(value, dict):
            if len(value) == 1:
                name, argument = next(iter(value.items()))
                if name == "Ref":
                    return self._ref(argument)
                if name.startswith("Fn::"):
                    return self._function(name, argument)
            resolved = {key: self.resolve(item) for key, item in value.items()}
            return {key: item for key, item in resolved.items() if item is not NO_VALUE}
        if isinstance(value, list):
            return [item for item in (self.resolve(item) for item in value) if item is not NO_VALUE]
        if isinstance(value, str) and "{{resolve:" in value:
            resolved_text = DYNAMIC.sub(lambda match: self.parameter_of_ssm(match[1]), value)
            if "{{resolve:" in resolved_text:
                raise TemplateError(f"the stand-in resolves only {{{{resolve:ssm:...}}}}, not {resolved_text}")
            return resolved_text
        return value

    def _ref(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return NO_VALUE
        if name in self.pseudo:
            return self.pseudo[name]
        if name in self.parameters:
            return self.parameters[name]
        if name in self.template.resources:
            return self.reference(name)
        raise TemplateError(f"Template format error: Unresolved resource dependencies [{name}]")

    def _function(self, name: str, argument: Any) -> Any:
        method = getattr(self, "_fn_" + name.removeprefix("Fn::").lower(), None)
        if method is None:
            if name in ("Fn::Equals", "Fn::And", "Fn::Or", "Fn::Not"):
                return self._condition({name: argument})
            raise TemplateError(f"Template error: unknown function {name}")
        return method(argument)

    def _fn_getatt(self, argument: Any) -> Any:
        logical_id, name = argument if isinstance(argument, list) else argument.split(".", 1)
        if logical_id not in self.template.resources:
            raise TemplateError(f"Template error: Fn::GetAtt references undefined resource {logical_id}")
        return self.attribute(logical_id, self.resolve(name))

    def _fn_sub(self, argument: Any) -> str:
        text, own = argument if isinstance(argument, list) else (argument, {})
        variables = {key: self.resolve(value) for key, value in own.items()}

        def replace(match: re.Match[str]) -> str:
            name = match[1].strip()
            if name in variables:
                return _text(variables[name])
            if "." in name and name.split(".")[0] in self.template.resources:
                return _text(self._fn_getatt(name.split(".", 1)))
            return _text(self._ref(name))

        return VARIABLE.sub(replace, text).replace("${!", "${")

    def _fn_join(self, argument: Any) -> str:
        separator, items = argument
        return str(separator).join(_text(item) for item in self.resolve(items))

    def _fn_select(self, argument: Any) -> Any:
        index, items = self.resolve(argument[0]), self.resolve(argument[1])
        try:
            return items[int(index)]
        except IndexError:
            raise TemplateError(
                f"Template error: Fn::Select cannot select nonexistent value at index {index}"
            ) from None

    def _fn_split(self, argument: Any) -> list[str]:
        return str(self.resolve(argument[1])).split(argument[0])

    def _fn_if(self, argument: Any) -> Any:
        name, yes, no = argument
        return self.resolve(yes if self.condition(name) else no)

    def _fn_findinmap(self, argument: Any) -> Any:
        table, first, second = (self.resolve(item) for item in argument[:3])
        try:
            return self.template.mappings[table][first][second]
        except KeyError:
            raise TemplateError(f"Template error: Unable to get mapping for {table}::{first}::{second}") from None

    def _fn_importvalue(self, argument: Any) -> Any:
        name = self.resolve(argument)
        self.imported.add(name)
        return self.import_value(name)

    def _fn_base64(self, argument: Any) -> str:
        return base64.b64encode(str(self.resolve(argument)).encode()).decode()

    def _fn_getazs(self, argument: Any) -> list[str]:
        return self.zones(self.resolve(argument) or self.pseudo["AWS::Region"])

    def _fn_cidr(self, argument: Any) -> list[str]:
        block, count, bits = (self.resolve(item) for item in argument)
        network = ipaddress.ip_network(block)
        subnets = network.subnets(new_prefix=network.max_prefixlen - int(bits))
        return [str(subnet) for subnet, _ in zip(subnets, range(int(count)), strict=False)]

    def _condition(self, value: Any) -> bool:
        if not isinstance(value, dict) or len(value) != 1:
            raise TemplateError(f"Template error: every condition is one function, not {value!r}")
        name, argument = next(iter(value.items()))
        if name == "Condition":
            return self.condition(argument)
        if name == "Fn::Equals":
            left, right = (self.resolve(item) for item in argument)
            return _text(left) == _text(right)
        if name == "Fn::And":
            return all(self._condition(item) for item in argument)
        if name == "Fn::Or":
            return any(self._condition(item) for item in argument)
        if name == "Fn::Not":
            return not self._condition(argument[0])
        raise TemplateError(f"Template error: unknown condition function {name}")


def _text(value: Any) -> str:
    """Scalars as CloudFormation writes them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)

"""The settings reference, docs/settings.md, from the models themselves: `python -m settings.reference`."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from settings.models import Settings

HEAD = """\
# Settings

One file per deployment, `deployments/<name>.toml`. `torchlift check <name>` validates it and prints every problem at
once. A key without a default must be there; a section without required keys may be left out.
"""


def reference() -> str:
    """The whole document; a test holds docs/settings.md to it."""
    return "\n".join([HEAD, *_section("", Settings)]) + "\n"


def _section(path: str, model: type[BaseModel]) -> Iterator[str]:
    plain: list[tuple[str, FieldInfo]] = []
    sections: list[tuple[str, type[BaseModel], bool]] = []
    for name, field in model.model_fields.items():
        inner, many = _model_of(field.annotation)
        if inner is None:
            plain.append((name, field))
        else:
            sections.append((f"{path}.{name}".lstrip("."), inner, many))
    if path == "":
        yield "At the top of the file:\n"
    if plain:
        yield "| key | type | default | what is right |\n|---|---|---|---|"
        for name, field in plain:
            yield f"| `{name}` | {_type(field.annotation)} | {_default(field)} | {_cell(field.description or '')} |"
        yield ""
    for inner_path, inner, many in sections:
        yield f"## `{'[[' if many else '['}{inner_path}{']]' if many else ']'}`\n"
        yield f"{(inner.__doc__ or '').strip()}\n"
        yield from _section(inner_path, inner)


def _model_of(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    """The section that a field is, and whether there may be several."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    for argument in get_args(annotation):
        inner, _ = _model_of(argument)
        if inner is not None:
            return inner, get_origin(annotation) in (tuple, list)
    return None, False


def _type(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(f"`{_toml(item)}`" for item in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(_type(item) for item in arguments if item is not type(None))
    if origin in (tuple, list):
        return f"list of {_type(arguments[0])}"
    if hasattr(annotation, "__metadata__"):
        return _type(arguments[0])
    return {str: "text", int: "whole number", float: "number", bool: "`true` or `false`"}[annotation]


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    return "none" if value is None or value == () else f"`{_toml(value)}`"


def _toml(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case tuple():
            return f"[{', '.join(_toml(item) for item in value)}]"
    return str(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(reference(), end="")

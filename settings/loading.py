"""From a TOML file to Settings, or to every problem in it at once."""

from __future__ import annotations

import tomllib
import typing
from pathlib import Path
from types import UnionType
from typing import Annotated, Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from settings.errors import Problem, SettingsError
from settings.models import Settings
from settings.rules import RULES, nearest
from settings.section import Section

REPO_ROOT = Path(__file__).resolve().parents[1]


def load_settings(name: str, *, root: Path = REPO_ROOT) -> Settings:
    """The settings of deployment `name` (a file of deployments/), or of a settings file by its path (`….toml`).

    Raises SettingsError with every problem of the file at once.
    """
    path = Path(name) if name.endswith(".toml") else root / "deployments" / f"{name}.toml"
    document = _read(path, name=name, root=root)
    problems: list[Problem] = []
    values: dict[str, Any] = {}
    _collect(Settings, document, "", values, problems)
    if not name.endswith(".toml") and values.get("deployment.name", name) != name:
        problems.append(
            Problem(
                key="deployment.name",
                given=values["deployment.name"],
                reason=f"The file is called {path.name}.",
                right=name,
            )
        )
    for rule in RULES:
        if all(key in values for key in rule.needs):
            problems.extend(rule.check(values, root))
    if problems:
        raise SettingsError(source=_shown(path, root), problems=problems)
    return TypeAdapter(Settings).validate_python(_tuples(document), strict=True)


def _read(path: Path, *, name: str, root: Path) -> dict[str, Any]:
    source = _shown(path, root)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        known = sorted(item.stem for item in (root / "deployments").glob("*.toml"))
        close = nearest(name, known, "")
        right = ", ".join(known) if not close else f"{close}; there are {', '.join(known)}"
        problem = Problem(key="deployment", given=name, reason=f"There is no file {source}.", right=right)
    except tomllib.TOMLDecodeError as error:
        problem = Problem(key="(file)", given=source, reason=f"It is not valid TOML: {error}.", right="TOML 1.0")
    except UnicodeDecodeError as error:
        problem = Problem(key="(file)", given=source, reason=f"It is not UTF-8: {error}.", right="UTF-8 text")
    except (ValueError, RecursionError) as error:
        # Numbers of thousands of digits, brackets of thousands of levels, a zero byte in the name.
        problem = Problem(key="(file)", given=source, reason=f"It cannot be read: {error}.", right="a settings file")
    except OSError as error:
        problem = Problem(
            key="(file)", given=source, reason=f"It cannot be read: {error.strerror}.", right="a readable file"
        )
    raise SettingsError(source=source, problems=[problem])


def _shown(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def _collect(
    model: type[Section], raw: dict[str, Any], prefix: str, values: dict[str, Any], problems: list[Problem]
) -> None:
    """Check each field by itself, so that one mistake does not hide another; valid values go into `values`."""
    for key, given in raw.items():
        if key not in model.model_fields:
            close = nearest(key, tuple(model.model_fields), "")
            right = close or "one of: " + ", ".join(model.model_fields)
            problems.append(Problem(key=f"{prefix}{key}", given=given, reason="There is no such setting.", right=right))
    for key, field in model.model_fields.items():
        dotted, right = f"{prefix}{key}", field.description or ""
        section = _section(field)
        if key not in raw:
            if field.is_required():
                problems.append(Problem(key=dotted, given=None, reason="It is missing.", right=right))
            else:
                values[dotted] = field.default
                if section and field.default is not None:
                    _collect(section, {}, f"{dotted}.", values, problems)
            continue
        if section:
            if isinstance(raw[key], dict):
                before = len(problems)
                _collect(section, raw[key], f"{dotted}.", values, problems)
                if len(problems) == before:
                    values[dotted] = section.model_validate(_tuples(raw[key]))
            else:
                problems.append(Problem(key=dotted, given=raw[key], reason="It is no section.", right=right))
            continue
        items = _sections(field)
        if items and isinstance(raw[key], list) and all(isinstance(item, dict) for item in raw[key]):
            before = len(problems)
            for number, item in enumerate(raw[key]):
                _collect(items, item, f"{dotted}[{number}].", {}, problems)
            if len(problems) > before:
                continue
        try:
            values[dotted] = _adapter(field).validate_python(_tuples(raw[key]), strict=True)
        except ValidationError as error:
            # A regular expression is no reason that a user could act on; what would be right shows the form.
            first = error.errors()[0]
            reason = "It has another form" if first["type"] == "string_pattern_mismatch" else first["msg"]
            problems.append(Problem(key=dotted, given=raw[key], reason=f"{reason}.", right=right))


def _adapter(field: FieldInfo) -> TypeAdapter[Any]:
    annotation: Any = field.annotation
    for item in field.metadata:
        annotation = Annotated[annotation, item]
    # As sections have it: the file is checked field by field, so that one mistake does not hide another.
    return TypeAdapter(annotation, config=ConfigDict(strict=True, allow_inf_nan=False))


def _section(field: FieldInfo) -> type[Section] | None:
    """The Section class of a field that is one, or one or None."""
    candidates = (
        typing.get_args(field.annotation)
        if typing.get_origin(field.annotation) in (UnionType, typing.Union)
        else (field.annotation,)
    )
    for candidate in candidates:
        if isinstance(candidate, type) and issubclass(candidate, Section):
            return candidate
    return None


def _sections(field: FieldInfo) -> type[Section] | None:
    """The Section class of a field that is a tuple of them: `[[…]]` in the file."""
    if typing.get_origin(field.annotation) is not tuple:
        return None
    item = typing.get_args(field.annotation)[0]
    return item if isinstance(item, type) and issubclass(item, Section) else None


def _tuples(value: Any) -> Any:
    """TOML's arrays as tuples, which strict validation asks for."""
    if isinstance(value, list):
        return tuple(_tuples(item) for item in value)
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return value

"""Synthesis of the app, as it ships or with changed settings, and its templates as dictionaries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from settings import REPO_ROOT

DEPLOYMENTS = ("dev", "prod", "trial")
"""What ships, without the demo's deployment, which needs files that the demo makes."""

Resource = dict[str, Any]
CONTEXT: dict[str, Any] = json.loads((REPO_ROOT / "cdk.json").read_text())["context"]


@dataclass(frozen=True)
class Synthesized:
    """A cloud assembly, or some stacks of it (`Training` …)."""

    folder: Path
    stacks: tuple[str, ...] = ()

    def only(self, *stacks: str) -> Synthesized:
        """The same, as if it had no other stacks."""
        seen = Synthesized(self.folder, stacks)
        seen.__dict__["templates"] = {name: self.templates[name] for name in stacks if name in self.templates}
        return seen

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """`manifest.json`."""
        manifest: dict[str, Any] = json.loads((self.folder / "manifest.json").read_text())
        return manifest

    @cached_property
    def templates(self) -> dict[str, dict[str, Any]]:
        """{`Foundation`, `Training` …: template}"""
        return {
            path.name.removesuffix(".template.json").rpartition("-")[2]: json.loads(path.read_text())
            for path in sorted(self.folder.glob("*.template.json"))
        }

    def resources(self, kind: str, *stacks: str) -> dict[str, Resource]:
        """{logical id: resource} of one type, over all stacks or some."""
        return {
            name: resource
            for stack, template in self.templates.items()
            for name, resource in template["Resources"].items()
            if resource["Type"] == kind and (not stacks or stack in stacks)
        }

    def one(self, kind: str, *stacks: str, containing: str = "") -> Resource:
        """The properties of the only resource of a type (with this text in its logical id)."""
        found = [item for name, item in self.resources(kind, *stacks).items() if containing in name]
        assert len(found) == 1, f"{len(found)} of {kind}"
        properties: Resource = found[0]["Properties"]
        return properties

    def dependencies(self) -> dict[str, set[str]]:
        """{stack: the stacks that it depends on}"""
        stacks = {
            name: item
            for name, item in self.manifest["artifacts"].items()
            if item["type"] == "aws:cloudformation:stack"
        }
        return {
            name.rpartition("-")[2]: {
                other.rpartition("-")[2] for other in item.get("dependencies", []) if other in stacks
            }
            for name, item in stacks.items()
        }


def statements(template: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(logical id, statement) of every policy that roles have in a template."""
    for name, resource in template["Resources"].items():
        properties = resource.get("Properties", {})
        if resource["Type"] in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
            documents = [properties["PolicyDocument"]]
        elif resource["Type"] == "AWS::IAM::Role":
            documents = [item["PolicyDocument"] for item in properties.get("Policies", [])]
        else:
            continue
        for document in documents:
            for statement in document["Statement"]:
                yield name, statement


def listed(value: Any) -> list[Any]:
    """A list, where CloudFormation lets one element stand for a list of one."""
    return value if isinstance(value, list) else [value]


def edited(name: str, changes: Mapping[str, object], folder: Path) -> Path:
    """Write a shipped deployment's settings with changes by dotted key; None takes a key or a section out."""
    document = tomllib.loads((REPO_ROOT / "deployments" / f"{name}.toml").read_text())
    for key, value in changes.items():
        *sections, last = key.split(".")
        table = document
        for section in sections:
            table = table.setdefault(section, {})
        if value is None:
            del table[last]
        else:
            table[last] = value
    path = folder / f"{name}.toml"
    path.write_text("\n".join(toml_lines(document)) + "\n")
    return path


def toml_lines(document: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """The document as TOML."""
    tables = {key: value for key, value in document.items() if isinstance(value, dict)}
    arrays = {
        key: value
        for key, value in document.items()
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value)
    }
    if prefix:
        yield f"[{prefix}]"
    for key, value in document.items():
        if key not in tables and key not in arrays:
            # JSON's strings, booleans and arrays are TOML's; its numbers lack infinity.
            yield f"{json.dumps(key)} = {repr(value) if isinstance(value, float) else json.dumps(value)}"
    for key, table in tables.items():
        yield from toml_lines(table, f"{prefix}.{json.dumps(key)}" if prefix else json.dumps(key))
    for key, items in arrays.items():
        for item in items:
            yield f"[[{prefix}.{json.dumps(key)}]]" if prefix else f"[[{json.dumps(key)}]]"
            yield from toml_lines(item)


def in_process(settings: Path, outdir: Path, **context: object) -> Synthesized:
    """Build and synthesize the app for a settings file."""
    # Loading the CDK takes seconds, and most tests only read what a subprocess synthesized.
    import aws_cdk as cdk

    import app as torchlift_app

    app = cdk.App(
        context={**CONTEXT, "deployment": str(settings), **context},
        outdir=str(outdir),
        builtin_cloud_formation_validation=False,
    )
    torchlift_app.build(app)
    app.synth()
    return Synthesized(outdir)


def in_subprocess(
    deployment: str,
    outdir: Path,
    *,
    environment: Mapping[str, str] | None = None,
    root: Path = REPO_ROOT,
    prefix: tuple[str, ...] = (),
    **context: object,
) -> subprocess.CompletedProcess[str]:
    """Run `python app.py` as the CDK CLI does.

    :param environment: all variables, or None for this process's own
    :param root: the checkout whose app is run
    :param prefix: a command to run it under, such as `unshare -n`
    """
    variables = dict(os.environ if environment is None else environment)
    variables.setdefault("CDK_VALIDATION", "false")
    # What pytest sets would change how the CDK reports.
    for name in ("PYTEST_VERSION", "PYTEST_CURRENT_TEST"):
        variables.pop(name, None)
    return subprocess.run(
        [*prefix, sys.executable, "app.py"],
        cwd=root,
        env={
            **variables,
            "CDK_OUTDIR": str(outdir),
            "CDK_CONTEXT_JSON": json.dumps({**CONTEXT, "deployment": deployment, **context}),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

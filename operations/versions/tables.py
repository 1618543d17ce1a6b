"""What `torchlift versions` shows of a version: for people as tables, for scripts as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from operations.versions.store import Store, Version


def describe(store: Store, version: Version, *, serves: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, Any]:
    """One version as a JSON object."""
    metrics, run = store.document(version, "metrics.json"), store.document(version, "run.json")
    return {
        "version": version.name,
        "when": version.when.isoformat(timespec="seconds"),
        "made_by": version.made_by,
        "bytes": version.bytes,
        "base_model": _origin(version, run, "base_model"),
        "data": _origin(version, run, "data"),
        "held_out": {name: value for name, value in metrics.get("held_out", {}).items() if _is_number(value)},
        "in_service": sorted(variant for variant, name in serves.items() if name == version.name),
        "wanted_by": sorted(who for who, name in wanted.items() if name == version.name),
    }


def _origin(version: Version, run: Mapping[str, Any], name: str) -> str | None:
    """Where base model or data came from: what the run wrote down, else the input's prefix."""
    found = run.get(name)
    if isinstance(found, Mapping):
        found = found.get("source") or found.get("name")
    found = found or version.manifest.get("inputs", {}).get(name)
    return str(found) if found else None


def list_table(rows: list[dict[str, Any]], *, deployment: str) -> Table:
    """A row a version; narrow enough for 80 columns."""
    table = Table(title=f"Versions of {deployment}", show_lines=True)
    table.add_column("version", no_wrap=True)
    table.add_column("made", overflow="fold")
    table.add_column("held out", overflow="fold")
    table.add_column("MB", justify="right")
    table.add_column("serves / wanted by", overflow="fold")
    for row in rows:
        scores = [f"{name} {value:.4g}" for name, value in row["held_out"].items()]
        origin = [text for text in (row["base_model"], row["data"]) if text]
        table.add_row(
            row["version"],
            "\n".join([row["when"][:16].replace("T", " "), row["made_by"], *origin]),
            "\n".join(scores[:4]),
            f"{row['bytes'] / 1e6:.1f}",
            "\n".join([*(f"variant {name}" for name in row["in_service"]), *row["wanted_by"]]),
        )
    return table


def show_table(row: dict[str, Any], version: Version, documents: Mapping[str, Mapping[str, Any]]) -> Table:
    """Everything of one version: two columns, a fact a row."""
    table = Table(title=f"Version {version.name}", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name in ("when", "made_by", "base_model", "data"):
        table.add_row(name.replace("_", " "), str(row[name] or "unknown"))
    table.add_row("serves", ", ".join(row["in_service"]) or "nothing")
    table.add_row("wanted by", ", ".join(row["wanted_by"]) or "nobody")
    for file, document in documents.items():
        table.add_section()
        for name, value in _flat(document):
            table.add_row(f"{file}: {name}", value)
    table.add_section()
    for path, size in version.files.items():
        table.add_row(path, f"{size:,} bytes")
    return table


def _flat(document: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Plain values of nested objects by dotted name; lists of objects, such as the epochs, are left to the file."""
    rows: list[tuple[str, str]] = []
    for name, value in document.items():
        if isinstance(value, Mapping):
            rows += _flat(value, f"{prefix}{name}.")
        elif not isinstance(value, list):
            rows.append((f"{prefix}{name}", f"{value:.6g}" if _is_number(value) else str(value)))
        elif not any(isinstance(item, (Mapping, list)) for item in value):
            rows.append((f"{prefix}{name}", ", ".join(map(str, value))))
    return rows


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)

"""A dashboard's body out of a template, and a picture of it."""

from __future__ import annotations

import json
import math
from typing import Any
from xml.sax.saxutils import escape

UNIT = 42
"""Pixels of one column and of one row of the grid."""
GAP = 4
COLORS = ("#1f77b4", "#2ca02c", "#9467bd", "#8c564b", "#17becf", "#7f7f7f")


def body(properties: dict[str, Any]) -> dict[str, Any]:
    """`DashboardBody` with what only a deployment knows replaced by its name."""
    value = properties["DashboardBody"]
    text = value if isinstance(value, str) else "".join(_text(part) for part in value["Fn::Join"][1])
    document: dict[str, Any] = json.loads(text)
    return document


def _text(part: Any) -> str:
    if isinstance(part, str):
        return part
    ((kind, name),) = part.items()
    return str(name if kind == "Ref" else name[0])


def picture(document: dict[str, Any], alarms: dict[str, str]) -> str:
    """An SVG: every widget in its place, with its title, made-up series, and annotations at their height.

    `alarms`: {logical id: name}.
    """
    widgets = document["widgets"]
    height = max(item["y"] + item["height"] for item in widgets) * UNIT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {24 * UNIT} {height}" font-family="sans-serif">',
        f'<rect width="{24 * UNIT}" height="{height}" fill="#f2f3f3"/>',
    ]
    for number, widget in enumerate(widgets):
        parts += _widget(widget, number, alarms)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _widget(widget: dict[str, Any], number: int, alarms: dict[str, str]) -> list[str]:
    x, y = widget["x"] * UNIT + GAP, widget["y"] * UNIT + GAP
    width, height = widget["width"] * UNIT - 2 * GAP, widget["height"] * UNIT - 2 * GAP
    properties = widget["properties"]
    found = [
        f'<g transform="translate({x} {y})">',
        f'<rect width="{width}" height="{height}" rx="4" fill="white" stroke="#d5dbdb"/>',
    ]
    if widget["type"] == "text":
        for row, line in enumerate(part for part in properties["markdown"].split("\n") if part):
            size, bold = (18, "bold") if line.startswith("# ") else (13, "normal")
            words = escape(line.lstrip("# "))
            found.append(f'<text x="12" y="{30 + 26 * row}" font-size="{size}" font-weight="{bold}">{words}</text>')
    else:
        found.append(f'<text x="12" y="20" font-size="13" font-weight="bold">{escape(properties["title"])}</text>')
    if widget["type"] == "alarm":
        names = [alarms[arn.rpartition(":")[2]] for arn in properties["alarms"]]
        for place, name in enumerate(names):
            column, row = place % 3, place // 3
            left = 12 + column * (width - 24) / 3
            found.append(f'<circle cx="{left + 5:.0f}" cy="{44 + 22 * row}" r="5" fill="#1d8102"/>')
            found.append(f'<text x="{left + 16:.0f}" y="{48 + 22 * row}" font-size="12">{escape(name)}</text>')
    if widget["type"] == "log":
        found.append(f'<text x="12" y="44" font-size="12" fill="#555">{escape(properties["query"][-110:])}</text>')
    if widget["type"] == "metric":
        found += _graph(properties, width, height, number)
    return [*found, "</g>"]


def _graph(properties: dict[str, Any], width: int, height: int, number: int) -> list[str]:
    left, top, right, bottom = 44, 32, width - 12, height - 44
    lines = properties.get("annotations", {}).get("horizontal", [])
    axis = properties.get("yAxis", {}).get("left", {})
    most = axis.get("max") or 1.25 * max([item["value"] for item in lines], default=1)

    def at(value: float) -> float:
        return bottom - (bottom - top) * min(value / most, 1)

    found = [f'<path d="M{left} {top}V{bottom}H{right}" fill="none" stroke="#879596"/>']
    found += [
        f'<text x="{left - 4}" y="{at(value) + 4:.0f}" font-size="10" text-anchor="end" fill="#555">{value:g}</text>'
        for value in (0, most)
    ]
    labels = _labels(properties["metrics"])
    for place, label in enumerate(labels):
        color = COLORS[place % len(COLORS)]
        points = " ".join(
            f"{left + (right - left) * step / 40:.0f},"
            f"{at(most * (0.25 + 0.12 * place + 0.07 * math.sin(step / 3 + place + number))):.0f}"
            for step in range(41)
        )
        found.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        found.append(
            f'<text x="{left + 110 * place}" y="{height - 10}" font-size="11" fill="{color}">{escape(label)}</text>'
        )
    for item in lines:
        y = at(item["value"])
        found.append(f'<path d="M{left} {y:.0f}H{right}" stroke="{item["color"]}" stroke-dasharray="5 3"/>')
        found.append(
            f'<text x="{right}" y="{y - 4:.0f}" font-size="11" text-anchor="end" fill="{item["color"]}">'
            f"{escape(item['label'])} {item['value']:g}</text>"
        )
    return found


def _labels(metrics: list[Any]) -> list[str]:
    """What the legend names: the lines that are shown."""
    found = []
    for metric in metrics:
        options = metric[-1] if isinstance(metric[-1], dict) else {}
        if options.get("visible") is not False:
            found.append(str(options.get("label") or metric[1]))
    return found

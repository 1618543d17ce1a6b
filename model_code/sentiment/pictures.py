"""Two pictures of a training: how the loss fell, and which labels are taken for which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

LOSS_CURVE = "loss_curve.png"
CONFUSION_MATRIX = "confusion_matrix.png"
DPI = 120
GREY = "#555555"


def draw(folder: Path, *, record: Mapping[str, Any]) -> None:
    """Draw both from a run.json into `folder`."""
    save(loss_curve(record), folder / LOSS_CURVE)
    save(confusion_matrix(record["held_out"], labels=record["data"]["labels"]), folder / CONFUSION_MATRIX)


def save(figure: Figure, path: Path) -> None:
    """Write a PNG, without the time or the library's version in it."""
    FigureCanvasAgg(figure)
    figure.savefig(path, dpi=DPI, metadata={"Software": None})


def loss_curve(record: Mapping[str, Any]) -> Figure:
    """Training loss over the epochs (means of stretches), the validation loss after each, and which one was kept."""
    epochs: Sequence[Mapping[str, Any]] = record["epochs"]
    steps = record["steps"] / len(epochs)  # of one epoch
    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    axes = figure.add_subplot()
    stretches = [(step / steps, loss) for step, loss in record["loss_curve"]]
    axes.plot(*zip(*stretches, strict=True), color="#1f77b4", linewidth=1.4, label="training")
    after = [entry["epoch"] for entry in epochs]
    axes.plot(after, [entry["loss"] for entry in epochs], "o-", color="#d95f02", linewidth=1.4, label="validation")
    best = next(entry for entry in epochs if entry["epoch"] == record["best_epoch"])
    axes.axvline(best["epoch"], color=GREY, linewidth=0.8, linestyle=":")
    # In the title: anywhere among the curves it would lie on one of them.
    kept = f"kept: epoch {best['epoch']}, validation macro recall {best['macro_recall']:.3f}"
    title = f"Loss of {record['base_model']['source']}".split("@")[0]
    axes.set_title(f"{title}\n{kept}", fontsize=11)
    axes.set_xlabel("epoch")
    axes.set_ylabel("mean cross-entropy")
    axes.set_xlim(0, len(epochs) * 1.02)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def confusion_matrix(held_out: Mapping[str, Any], *, labels: Sequence[str]) -> Figure:
    """Counts, and what share of the row (of a true label) they are; the colour is the share."""
    matrix: Sequence[Sequence[int]] = held_out["confusion_matrix"]
    shares = [[count / max(sum(row), 1) for count in row] for row in matrix]
    side = 2.6 + 1.1 * len(labels)
    figure = Figure(figsize=(side + 1.4, side), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for y, row in enumerate(matrix):
        for x, count in enumerate(row):
            share = shares[y][x]
            colour = "white" if share > 0.55 else "black"
            axes.text(x, y, f"{count:,}\n{share:.0%}", ha="center", va="center", color=colour, fontsize=11)
    axes.set_xticks(range(len(labels)), labels, rotation=30 if max(map(len, labels)) > 10 else 0)
    axes.set_yticks(range(len(labels)), [f"{label}\n({sum(row):,})" for label, row in zip(labels, matrix, strict=True)])
    axes.set_xlabel("said by the model")
    axes.set_ylabel("true label (sentences)")
    total = sum(map(sum, matrix))
    axes.set_title(
        f"Held out ({held_out['split']}): {total:,} sentences\n"
        f"accuracy {held_out['accuracy']:.3f}, macro recall {held_out['macro_recall']:.3f}",
        fontsize=11,
    )
    bar = figure.colorbar(image, ax=axes, shrink=0.8, label="share of the true label")
    bar.ax.yaxis.set_major_formatter("{x:.0%}")
    return figure

"""The table at the end of the demo."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from stand_in.demo.invocations import SENTENCE
from stand_in.demo.run import Results


def show(results: Results, console: Console) -> None:
    """Stacks, prediction and latency with the program that served it, seconds per phase, and what is left."""
    console.print()
    stacks = Table("stack", "status while it ran", "resources", title="Stacks")
    for stack in results.stacks:
        stacks.add_row(stack["name"], stack["status"], str(stack["resources"]))
    console.print(stacks)
    if results.mode == "images":
        jobs = Table("job", "mode", "seconds", title="Jobs")
        for job in results.jobs:
            jobs.add_row(job["job"], job["mode"], f"{job['seconds']:.1f}")
        console.print(jobs)
    sentiment = results.sentiment
    if sentiment:
        workloads = Table("workload", "served by", "input", "prediction", "latency p50", "held-out", title="Workloads")
        workloads.add_row(
            "sentiment",
            sentiment.served_by,
            SENTENCE,
            f"{sentiment.label} ({sentiment.score:.2f})",
            f"{sentiment.latency_ms:.1f} ms",
            f"accuracy {sentiment.metrics['held_out_accuracy']:.3f}; "
            f"{sentiment.reviews_right} of {sentiment.reviews} reviews",
        )
        console.print(workloads)
    if results.cores:
        cores = Table("question", "answer", "expected", *(f"score, core {one.core}" for one in results.cores),
                      title=_cores_title(results))  # fmt: skip
        for number, asked in enumerate(results.cores[0].asked):
            scores = (f"{one.asked[number].score:.2f}" for one in results.cores)
            cores.add_row(asked.question, asked.text or "(none)", asked.expected or "(none)", *scores)
        console.print(cores)
    if results.encoders:
        encoders = Table(
            "model",
            "first request",
            "binary p50",
            "JSON p50",
            "paraphrase",
            "other subject",
            title=f"Text encoding: {len(results.encoders)} models, {results.encoders[0].served_by}, on the CPU",
        )
        for one in results.encoders:
            times = (f"{value:.1f} ms" for value in (one.first_ms, one.binary_ms, one.json_ms))
            encoders.add_row(one.model, *times, f"{one.paraphrase:.2f}", f"{one.unrelated:.2f}")
        console.print(encoders)
    seconds = Table(*results.seconds, title="Seconds")
    seconds.add_row(*(f"{value:.1f}" for value in results.seconds.values()))
    console.print(seconds)
    left = results.leftovers
    if left is not None:
        console.print(f"What is left: {'nothing' if not left.found else ''}", highlight=False)
        for line in left.found:
            console.print(f"  {line}", markup=False, highlight=False)
        if left.scheduled:
            console.print(
                f"  (on their way out, as on AWS: {', '.join(left.scheduled)})", markup=False, highlight=False
            )
    console.print("Report: build/demo-report.json", highlight=False)


def _cores_title(results: Results) -> str:
    first = results.cores[0]
    times = ", ".join(f"core {one.core} {one.latency_ms:.1f} ms" for one in results.cores)
    return f"Question answering: {first.model}, {first.served_by}, on the CPU; p50: {times}"

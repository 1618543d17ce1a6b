"""P4: `cdk synth` of prod beside an empty app with as many stacks: the same CLI, the same checks."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from benchmarks.harness import Comparison, compare

ROOT = Path(__file__).resolve().parents[1]
EMPTY = """
import aws_cdk as cdk

app = cdk.App()
for number in range({stacks}):
    cdk.Stack(app, f"Empty{{number}}")
app.synth()
"""


def run(*, repeats: int = 5) -> Comparison:
    """Measure; takes about a minute."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)

        def synth(app: str, out: str, *arguments: str) -> None:
            subprocess.run(
                ["cdk", "synth", "--quiet", "--no-notices", "--app", app, "--output", str(folder / out), *arguments],
                cwd=ROOT,
                env=os.environ | {"CDK_DISABLE_CLI_TELEMETRY": "true"},
                check=True,
                stdout=subprocess.DEVNULL,
            )

        def ours() -> None:
            synth("python app.py", "ours", "-c", "deployment=prod")

        ours()
        stacks = len(list((folder / "ours").glob("*.template.json")))
        (folder / "empty.py").write_text(EMPTY.format(stacks=stacks))
        return compare(
            ours,
            lambda: synth(f"python {folder / 'empty.py'}", "empty"),
            repeats=repeats,
            command="cdk synth -c deployment=prod",
        )

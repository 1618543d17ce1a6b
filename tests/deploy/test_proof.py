"""The script that an account owner runs works: here on the stand-in, where it proves nothing about AWS."""

from __future__ import annotations

from pathlib import Path

import pytest

from stand_in.demo.cdk import Cdk
from stand_in.session import run, stand_in
from tests.deploy import tiny

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def test_prove(root: Path, tmp_path: Path) -> None:
    settings = tiny.write_settings(
        tmp_path / "local.toml",
        template=root / "deployments/local.toml",
        base_model=tiny.write_base_model(tmp_path / "base-model"),
        data=tiny.write_data(tmp_path / "data"),
    )
    report = root / "build/proof/local/report.md"
    report.unlink(missing_ok=True)
    with stand_in(region="us-west-2", state_dir=tmp_path / "stand_in", root=root) as aws:
        Cdk(stand_in=aws, root=root, deployment=str(settings), logs=tmp_path / "logs", timeout=600).bootstrap()

        def prove() -> tuple[int, str]:
            done = run(
                ["torchlift", "prove", str(settings), "--yes"],
                environment=aws.environment | {"COLUMNS": "200"},
                cwd=root,
                log=tmp_path / "prove.log",
                timeout=600,
            )
            return done.returncode, done.stdout

        status, printed = prove()
        rows = [line.split(" | ") for line in report.read_text().splitlines()[4:]]
        # The stand-in has no quotas to look at: that row is for a real account.
        assert [row[1] for row in rows[1:]] == ["seen"] * 6, printed
        assert status == (0 if rows[0][1] == "seen" else 1)
        assert (
            not aws.client("cloudformation")
            .describe_stacks(StackName="CDKToolkit")["Stacks"][0]["StackStatus"]
            .endswith("FAILED")
        )

"""The mirror's build as its template declares it: its buildspec, its own Python from the package index, a hub."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from stand_in.executor.images_mode import BuildspecRun, pip_settings
from tests.deploy import tiny
from tests.executor.conftest import REGION, ROLE, World
from tests.stacks.synthesis import Synthesized
from tests.support.hub import hub

pytestmark = [pytest.mark.long, pytest.mark.timeout(600), pytest.mark.stacks("Inferentia")]


def test_a_model_is_mirrored_by_its_buildspec_and_published(world: World, dev: Synthesized, tmp_path: Path) -> None:
    project = dev.one("AWS::CodeBuild::Project", containing="Mirror")
    start = dev.one("Custom::StartJob", containing="Mirror")
    declared = start["Environment"]
    (model,) = re.findall(r"hf://(\S+)@([0-9a-f]{40})", declared["TORCHLIFT_COMMAND"])
    (asset,) = re.findall(r"([0-9a-f]{64})\.zip", json.dumps(start["SourceLocation"]))
    bundle = shutil.make_archive(str(tmp_path / "source"), "zip", dev.folder / f"asset.{asset}")
    kept = tiny.write_base_model(tmp_path / "model")
    site = world.executor.site
    with hub(kept, name=model[0], revision=model[1]) as address:
        run = BuildspecRun(
            site=site,
            region=REGION,
            kind="build",
            environment={
                **{name: value for name, value in declared.items() if isinstance(value, str)},
                "TORCHLIFT_SOURCE": world.put("assets", "source.zip", Path(bundle).read_bytes()),
                "TORCHLIFT_RESULT": "s3://assets/inputs/mirrored/",
                # The hub's own variables: the stand-in's children ask none.
                **{"HF_ENDPOINT": address, "HF_HUB_OFFLINE": "0"},
            },
            number="mirror",
            role=ROLE,
            mode="images",
            buildspec=project["Source"]["BuildSpec"],
            machine={**site.environment(REGION, role=ROLE), **pip_settings()},
        )
        run.extra = {"CODEBUILD_SRC_DIR": str(run.home)}
        run.fetch_source()
        ended = run.run()
    assert ended.status == 0, f"{ended.reason}\n{run.log.read_text()}"
    client = world.client("s3")
    found = client.list_objects_v2(Bucket="assets", Prefix="inputs/mirrored/base_model/")["Contents"]
    mirrored = {entry["Key"].rpartition("/")[2] for entry in found}
    assert mirrored == {path.name for path in kept.iterdir()}
    weights = client.get_object(Bucket="assets", Key="inputs/mirrored/base_model/model.safetensors")["Body"].read()
    assert weights == (kept / "model.safetensors").read_bytes()

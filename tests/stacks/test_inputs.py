"""The demo's deployment: model and data from folders of this machine."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stacks.synthesis import Synthesized

pytestmark = pytest.mark.stacks("Foundation", "Training", "Graviton")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    made: dict[str, object] = {"text_encoding": None, "question_answering": None}
    for name in ("base_model", "data"):
        folder = tmp_path_factory.mktemp(name)
        (folder / "file.txt").write_text(name)
        made[f"training.{name}"] = str(folder)
    return made


def test_folders_become_inputs(folders: dict[str, object], synthesize: Callable[..., Synthesized]) -> None:
    made = synthesize("local", folders)
    assert set(made.templates) == {"Foundation", "Training", "Graviton"}
    # Nothing is on the hub, so nothing is mirrored.
    assert not [name for name in made.templates["Training"]["Resources"] if "HubMirror" in name]
    data = made.one("AWS::EC2::LaunchTemplate")["LaunchTemplateData"]["UserData"]
    text = json.dumps(data)
    assert re.search(r"base_model=s3://.*\.zip data=s3://.*\.zip", text)
    assert "--base-model inputs/base_model --data inputs/data" in text


def test_contents_count_and_the_place_does_not(
    folders: dict[str, object], synthesize: Callable[..., Synthesized], tmp_path: Path
) -> None:
    before = synthesize("local", folders)
    (tmp_path / "file.txt").write_text("data")
    moved = synthesize("local", {**folders, "training.data": str(tmp_path)})
    assert moved.templates == before.templates
    changed = tmp_path / "changed"
    changed.mkdir()
    (changed / "file.txt").write_text("other data")
    other = synthesize("local", {**folders, "training.data": str(changed)})
    assert other.templates["Training"] != before.templates["Training"]


def test_data_in_s3_is_read_where_it_lies(folders: dict[str, object], synthesize: Callable[..., Synthesized]) -> None:
    made = synthesize("local", {**folders, "training.data": "s3://their-bucket/labelled/"})
    policy = json.dumps(made.one("AWS::IAM::Policy", "Training", containing="Train"))
    assert "s3:::their-bucket/labelled/*" in policy
    text = json.dumps(made.one("AWS::EC2::LaunchTemplate")["LaunchTemplateData"]["UserData"])
    assert "data=plain+s3://their-bucket/labelled/" in text

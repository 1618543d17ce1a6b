"""docs/settings.md says what the models say."""

from __future__ import annotations

import re

import pytest

from settings import REPO_ROOT
from settings.reference import reference

DOCUMENT = REPO_ROOT / "docs/settings.md"
KEYS = re.findall(r"^\| `(\w+)` \|", reference(), re.MULTILINE)


def test_the_document_is_the_models() -> None:
    assert DOCUMENT.read_text() == reference(), "run: python -m settings.reference > docs/settings.md"


def test_every_key_says_what_is_right() -> None:
    assert len(KEYS) > 50
    for line in reference().splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            assert len(cells) == 4 and all(cells), line


@pytest.mark.parametrize("key", sorted(set(KEYS)))
def test_the_development_deployment_explains_every_key(key: str) -> None:
    text = (REPO_ROOT / "deployments/dev.toml").read_text()
    assert re.search(rf"^(# ?)?{key} = ", text, re.MULTILINE), f"dev.toml neither sets nor shows {key}"

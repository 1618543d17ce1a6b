"""What a look-alike is made of decides whether it is made again."""

from __future__ import annotations

import re

import pytest

from settings import REPO_ROOT
from settings.images import IMAGES
from settings.triton import RELEASES
from stand_in.images.lookalikes import BASES, known, made_of


def test_every_base_image_has_a_look_alike() -> None:
    bases = [*IMAGES.values(), *(release.image for release in RELEASES.values())]
    assert {base.repository for base in bases} == set(known())


@pytest.mark.parametrize("repository", known())
def test_a_look_alike_is_made_of_all_that_it_copies(repository: str) -> None:
    folder = BASES / repository
    content = made_of(folder / "Dockerfile")
    text = (folder / "Dockerfile").read_text()
    names = set(re.findall(r"(?:requirements|stand_in)/[\w./-]+\.(?:txt|in|py)\b(?!/)", text))
    assert names
    for path in [folder / "Dockerfile", *(REPO_ROOT / name for name in names), *folder.glob("*.py")]:
        assert path.read_bytes() in content, path

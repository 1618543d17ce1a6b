"""docs/end-of-life.md: the images and their dates are those of the catalogue."""

from __future__ import annotations

import re
from datetime import date

from settings import REPO_ROOT
from settings.images import IMAGES

TEXT = (REPO_ROOT / "docs/end-of-life.md").read_text()
ROWS = {
    name: (tag, None if day == "none named" else date.fromisoformat(day))
    for name, tag, day in re.findall(
        r"^\| image `([\w-]+)` \| (\S+) \| \**(\d{4}-\d\d-\d\d|none named)", TEXT, re.MULTILINE
    )
}


def test_images_and_their_dates() -> None:
    assert {name: (image.tag, image.end_of_patch) for name, image in IMAGES.items()} == ROWS


def test_what_is_past_says_so() -> None:
    for name, (_, day) in ROWS.items():
        said = re.search(rf"^\| image `{name}` \|.*$", TEXT, re.MULTILINE)
        assert said is not None
        # A date that passes shall be noticed: then this fails until the document says what follows from it.
        assert ("past" in said[0]) == (day is not None and day < date.today())

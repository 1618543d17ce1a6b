"""`python -m settings [NAME ...]`: validate deployments; exit code 1 when one has a problem."""

from __future__ import annotations

import sys

from settings import REPO_ROOT, SettingsError, load_settings


def main(names: list[str]) -> int:
    """Check the named deployments, or all of them."""
    status = 0
    for name in names or sorted(path.stem for path in (REPO_ROOT / "deployments").glob("*.toml")):
        try:
            load_settings(name)
            print(f"{name}: valid")
        except SettingsError as error:
            print(error, file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

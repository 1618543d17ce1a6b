"""A serving container's end, with a `docker` that fails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stand_in.executor.container import Docker
from stand_in.executor.servers import CannotServe

CALLS = 'echo "$1" >>"$FOLDER/calls"; [ "$1" != run ] || exec sleep 60\n'


@pytest.mark.parametrize(("failures", "ends"), [(0, True), (1, True), (2, False)])
def test_one_that_ends_while_it_is_killed_is_removed_all_the_same(tmp_path: Path, failures: int, ends: bool) -> None:
    """podman says "container state improper: stopped" then, with exit status 2."""
    program = tmp_path / "bin" / "docker"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\n{CALLS}[ "$(grep -c rm "$FOLDER/calls")" -gt {failures} ] || exit 2\n')
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    docker = Docker(machine={"PATH": path, "FOLDER": str(tmp_path)})
    running = docker.serve("image", name="a", volume=(tmp_path / "model", "/m"), variables={}, log=tmp_path / "log")
    if ends:
        running.stop()
    else:
        with pytest.raises(CannotServe, match="exit 2"):
            running.stop()
    assert running.child.poll() is not None
    assert (tmp_path / "calls").read_text().split().count("rm") == min(failures, 1) + 1

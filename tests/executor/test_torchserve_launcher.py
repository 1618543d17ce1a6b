"""What the launcher of the real TorchServe adds to the toolkit."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from stand_in.executor.torchserve_launcher import descendant


def test_the_server_is_found_beside_a_command_that_ended_and_was_never_waited_for() -> None:
    ended = subprocess.Popen(["true"])
    server = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "the.Server"])
    try:
        time.sleep(0.3)  # by now the first one is a zombie
        assert descendant("the.Server").pid == server.pid
    finally:
        server.kill()
        server.wait()
        ended.wait()


def test_no_server_is_no_server() -> None:
    with pytest.raises(LookupError, match="Other"):
        descendant("the.Other")

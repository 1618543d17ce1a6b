"""The job's word to its stack: it arrives, or the script says that it did not."""

from __future__ import annotations

import pytest

from tests.scripts.conftest import Workbench
from tests.support.receiver import Receiver


@pytest.mark.parametrize("status", ["SUCCESS", "FAILURE"])
def test_a_signal_arrives_with_no_content_type(bench: Workbench, receiver: Receiver, status: str) -> None:
    receiver.refuse_next = 1
    text = 'said "no" in\nü' + "ü" * 1000
    done = bench.run("scripts/signal.sh", status, text, TORCHLIFT_HANDLE=receiver.url)
    assert done.returncode == 0, done.stderr
    assert receiver.refused == 0
    assert receiver.content_types == [None]
    [body] = receiver.bodies
    assert body["Status"] == status
    assert body["UniqueId"] == "0123456789abcdef"
    assert body["Data"] == ""
    assert body["Reason"].startswith('said "no" in\nü')
    assert len(body["Reason"].encode()) <= 1000


def test_a_signal_needs_a_status_and_somebody_who_waits(bench: Workbench, receiver: Receiver) -> None:
    assert bench.run("scripts/signal.sh", "DONE", TORCHLIFT_HANDLE=receiver.url).returncode != 0
    done = bench.run("scripts/signal.sh", "SUCCESS")
    assert done.returncode != 0
    assert "nobody waits" in done.stderr
    assert receiver.bodies == []


def test_without_a_reason_the_status_is_one(bench: Workbench, receiver: Receiver) -> None:
    done = bench.run("scripts/signal.sh", "SUCCESS", TORCHLIFT_HANDLE=receiver.url, TORCHLIFT_HASH="")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "torchlift: signalled SUCCESS\n"
    assert receiver.bodies == [{"Status": "SUCCESS", "Reason": "success", "UniqueId": "job", "Data": ""}]


def test_a_signal_is_tried_six_times_with_growing_pauses_and_then_given_up(
    bench: Workbench, receiver: Receiver
) -> None:
    receiver.refuse_next = 6
    bench.program("sleep", f'echo "$1" >>{bench.folder}/pauses')
    done = bench.run("scripts/signal.sh", "FAILURE", "why", TORCHLIFT_HANDLE=receiver.url)
    assert done.returncode != 0
    assert "the signal could not be delivered" in done.stderr
    assert (bench.folder / "pauses").read_text().split() == ["1", "2", "4", "8", "16", "0"]
    assert receiver.refuse_next == 0 and receiver.bodies == []


def test_a_stack_that_never_answers_is_waited_for_no_longer_than_half_a_minute(bench: Workbench) -> None:
    bench.program("curl", f'printf "%s\\n" "$@" >{bench.folder}/arguments')
    assert bench.run("scripts/signal.sh", "SUCCESS", TORCHLIFT_HANDLE="https://handle").returncode == 0
    arguments = (bench.folder / "arguments").read_text().split("\n")
    assert arguments[arguments.index("--max-time") + 1] == "30"


def test_a_host_without_python_sends_nothing_rather_than_nonsense(bench: Workbench) -> None:
    bench.program("python3", "exit 127")
    bench.program("curl", f"touch {bench.folder}/called")
    done = bench.run("scripts/signal.sh", "SUCCESS", TORCHLIFT_HANDLE="https://handle")
    assert done.returncode != 0
    assert not (bench.folder / "called").exists()


def test_a_host_without_curl_fails(bench: Workbench) -> None:
    bench.program("curl", "exit 127")
    bench.program("sleep", "")
    assert bench.run("scripts/signal.sh", "SUCCESS", TORCHLIFT_HANDLE="https://handle").returncode != 0

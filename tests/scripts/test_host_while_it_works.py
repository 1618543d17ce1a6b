"""A job's host while it works: who it is, what it saves and sends meanwhile. AWS is a folder here."""

from __future__ import annotations

import json
import subprocess
import time

import pytest

from tests.scripts.conftest import REPO_ROOT, Quick
from tests.scripts.job_host import Host, make_quick_host, times_ended
from tests.support.receiver import Receiver

TOKEN_OF = """
case "$*" in
  *"-X PUT -H X-aws-ec2-metadata-token-ttl-seconds: "*"http://169.254.169.254/latest/api/token") {token} ;;
  *"-H X-aws-ec2-metadata-token: "*"http://169.254.169.254/latest/meta-data/{path}") {answer} ;;
  *) exec "$REAL" "$@" ;;
esac
"""


@pytest.fixture
def host(quick: Quick, receiver: Receiver) -> Host:
    return make_quick_host(quick, receiver)


def asked_of_aws(host: Host, service: str) -> list[str]:
    lines = (host.bench.folder / "aws.log").read_text().splitlines()
    return [line for line in lines if line.startswith(f"{service} ")]


def test_checkpoints_are_saved_while_the_job_runs(quick: Quick, host: Host, receiver: Receiver) -> None:
    saved = f"{quick.store}/{quick.bucket}/checkpoints/test-job/0123456789abcdef/step-1/manifest.json"
    wait = f"for i in {{1..300}}; do [ ! -e {saved} ] || exit 3; /bin/sleep 0.1; done"
    train = f"mkdir checkpoints/step-1; touch checkpoints/step-1/state; {wait}"
    output = host.run(TORCHLIFT_COMMAND=train, TORCHLIFT_SAVE_EVERY_SECONDS="1")
    assert "run: exit 3" in receiver.bodies[0]["Reason"], output
    assert "checkpoints could not be saved" not in output and "sleep:" not in output


def test_what_the_host_said_is_sent_and_no_metric_a_second_time(host: Host, receiver: Receiver) -> None:
    long = "x" * 3000
    host.run(TORCHLIFT_COMMAND=f"""echo '{{"_aws": {{}}}}'; echo; echo {long}; echo trained >output/weights""")
    stream = f"--log-stream-name test-job/0123456789abcdef/{host.instance}/host"
    assert [line.split()[1] for line in asked_of_aws(host, "logs") if stream in line] == [
        "create-log-stream", "put-log-events"
    ]  # fmt: skip
    events = json.loads((host.bench.work / "events.json").read_text())
    said = [event["message"] for event in events]
    assert any(line.startswith("torchlift: SUCCESS: s3://") for line in said)
    assert long[:2000] in said, "as much of a line as is of use"
    assert not [line for line in said if "_aws" in line or not line]
    assert all(abs(event["timestamp"] / 1000 - time.time()) < 60 for event in events)


def test_an_instance_that_stays_in_its_group_is_turned_off(host: Host, receiver: Receiver) -> None:
    store = (host.bench.bin / "aws").read_text()
    host.bench.program(
        "aws", f'[ "$1" != autoscaling ] || {{ echo "$*" >>"{host.bench.folder}/aws.log"; exit 1; }}\n{store}'
    )
    pauses = host.bench.folder / "pauses"
    host.bench.program("sleep", f'case "$1" in 2 | 10 | 30 | 0) echo "$1" >>"{pauses}" ;; *) exec "$REAL" "$@" ;; esac')
    output = host.run()
    assert [body["Status"] for body in receiver.bodies] == ["SUCCESS"], output
    ended = (
        f"terminate-instance-in-auto-scaling-group --instance-id {host.instance} --should-decrement-desired-capacity"
    )
    assert asked_of_aws(host, "autoscaling") == [f"autoscaling {ended}"] * 4
    assert pauses.read_text().split() == ["2", "10", "30", "0"]
    assert "cannot be taken out of its group: shutting down" in output
    assert (host.bench.folder / "systemctl.log").read_text() == "poweroff\n"


def test_an_instance_learns_its_id_from_the_metadata_service(host: Host, receiver: Receiver) -> None:
    answer = 'case "$*" in *"token: mine "*) echo i-00000000000000042 ;; *) exit 22 ;; esac'
    host.bench.program("curl", TOKEN_OF.format(token="echo mine", path="instance-id", answer=answer))
    host.run(TORCHLIFT_INSTANCE_ID="")
    assert "test-job on i-00000000000000042: s3://" in receiver.bodies[0]["Reason"]
    assert "--instance-id i-00000000000000042 " in asked_of_aws(host, "autoscaling")[0]


def test_a_token_that_has_expired_is_asked_for_anew(host: Host, receiver: Receiver) -> None:
    """Six hours last longer than no training."""
    folder = host.bench.folder
    answer = f"""case "$*" in
      *"token: token-3 "*) [ -e "{host.bench.work}/written" ] && printf 200 || printf 404 ;; *) printf 401 ;; esac"""
    token = f'echo >>"{folder}/tokens"; echo "token-$(wc -l <"{folder}/tokens")"'
    host.bench.program("curl", TOKEN_OF.format(token=token, path="spot/instance-action", answer=answer))
    train = "mkdir checkpoints/step-1; touch checkpoints/step-1/state written; sleep 100"
    output = host.run(TORCHLIFT_COMMAND=train, TORCHLIFT_WATCH_SECONDS="0.2")
    assert "this Spot instance will be taken back: saving" in output
    assert receiver.bodies == [] and any("/step-1/manifest.json" in key for key in host.bench.keys("checkpoints/"))
    assert (folder / "tokens").read_text() == "\n" * 3, "and not at every look"


def started_bare(host: Host, **variables: str) -> str:
    """What run.sh says on an instance, where nothing is set but what the job's environment brings."""
    host.environment_file.write_text("")
    kept = {name: value for name, value in host.bench.environment.items() if not name.startswith("TORCHLIFT_")}
    done = subprocess.run(
        ["bash", str(REPO_ROOT / "hosts/instance_job/run.sh")],
        env={**kept, "TORCHLIFT_ENV_FILE": str(host.environment_file), **variables},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert (host.bench.folder / "systemctl.log").read_text() == "poweroff\n", "nobody can be told, and nothing goes on"
    return done.stdout


def test_an_instance_has_its_files_where_user_data_puts_them(host: Host) -> None:
    assert "/opt/torchlift/scripts/common.sh: No such file" in started_bare(host)


def test_an_instance_works_in_a_folder_of_its_own(host: Host) -> None:
    host.bench.program("mkdir", 'echo "mkdir $*"; exit 1')
    assert started_bare(host, TORCHLIFT_HOME=str(REPO_ROOT)) == "mkdir -p /opt/torchlift/work\n"


def test_a_job_sees_its_own_environment_and_nothing_of_the_hosts(host: Host) -> None:
    host.run(TORCHLIFT_COMMAND="compgen -e >output/weights")
    seen = set(host.bench.published()["weights"].split())
    assert "TORCHLIFT_COMMAND" in seen and not seen & {"SAVE_SECONDS", "RUN_AS", "CONTAINER", "scripts", "log"}


def test_a_signal_that_is_lost_ends_the_instance_all_the_same(host: Host) -> None:
    """The event of its end tells the stack, then."""
    host.bench.program("sleep", 'case "$1" in 1 | 2 | 4 | 8 | 16 | 0) ;; *) exec "$REAL" "$@" ;; esac')
    output = host.run(TORCHLIFT_HANDLE="http://127.0.0.1:9/")
    assert "the signal is lost; the event of this instance's end makes up for it" in output
    assert times_ended(host) == 1 and not (host.bench.folder / "systemctl.log").exists()

"""An instance job's host, with Docker and systemd replaced by recorders.

Docker's stand-in runs the command on this machine, so that fetch, checkpoints, publication, signal and termination are
the real ones.
"""

from __future__ import annotations

import os
import subprocess
import uuid
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tests.scripts.conftest import REPO_ROOT, Quick, Workbench, require_sound
from tests.support.receiver import Receiver
from torchlift.instance_job import render_user_data
from torchlift.job_alarm import FAILURE_LINE

IMAGE = "123456789012.dkr.ecr.us-west-2.amazonaws.com/sentiment-training:0123456789abcdef"
DOCKER = """
printf '%s\\n' "$*" >>"$TEST_LOG"
case "$1" in
  run) shift; while [ "$1" != "$TORCHLIFT_IMAGE" ]; do shift; done; shift
    # A process group of its own, as a container has: it ends when it is stopped, not with its launcher.
    echo $$ >"$TEST_LOG.pid"; exec setsid "$@" ;;
  stop | rm) [ ! -e "$TEST_LOG.pid" ] || kill -KILL -- "-$(cat "$TEST_LOG.pid")" ;;
  login) cat >/dev/null ;;
esac
"""


@dataclass
class Host:
    """An instance in a group, and its job's environment."""

    bench: Workbench
    group: str
    instance: str
    variables: dict[str, str]

    @property
    def environment_file(self) -> Path:
        return self.bench.folder / "job.env"

    def start(self, **variables: str) -> subprocess.Popen[str]:
        """Start run.sh as the unit does."""
        rendered = render_user_data({**self.variables, **variables})
        lines = rendered.split("<<'TORCHLIFT_JOB_ENV'\n")[1].split("\nTORCHLIFT_JOB_ENV\n")[0]
        self.environment_file.write_text(lines + "\n")
        return subprocess.Popen(
            ["bash", str(REPO_ROOT / "hosts/instance_job/run.sh")],
            env={**self.bench.environment, "TORCHLIFT_ENV_FILE": str(self.environment_file)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, **variables: str) -> str:
        process = self.start(**variables)
        output, _ = process.communicate(timeout=250)
        require_sound(output)
        return output

    def capacity(self) -> tuple[int, int]:
        """Return (desired capacity, number of instances)."""
        found = self.bench.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[self.group])
        group = found["AutoScalingGroups"][0]
        return group["DesiredCapacity"], len(group["Instances"])

    def failures(self) -> list[str]:
        """Lines of the job's log that raise its alarm."""
        found = self.bench.client("logs").filter_log_events(logGroupName=self.variables["TORCHLIFT_LOG_GROUP"])
        return [event["message"] for event in found["events"] if FAILURE_LINE in event["message"]]

    def docker_calls(self) -> list[str]:
        return (self.bench.folder / "docker.log").read_text().splitlines()


def make_host(bench: Workbench, receiver: Receiver) -> Host:
    """An instance in a group of moto, and the programs that an AMI brings."""
    ec2, autoscaling, logs = (bench.client(name) for name in ("ec2", "autoscaling", "logs"))
    subnet = ec2.describe_subnets()["Subnets"][0]
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    unique = uuid.uuid4().hex[:8]
    ec2.create_launch_template(
        LaunchTemplateName=unique, LaunchTemplateData={"ImageId": image, "InstanceType": "g5.xlarge"}
    )
    group = f"torchlift-test-{unique}"
    autoscaling.create_auto_scaling_group(
        AutoScalingGroupName=group,
        MinSize=0,
        MaxSize=1,
        DesiredCapacity=1,
        LaunchTemplate={"LaunchTemplateName": unique, "Version": "1"},
        VPCZoneIdentifier=subnet["SubnetId"],
    )
    instances = autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[group])["AutoScalingGroups"][0]
    logs.create_log_group(logGroupName=f"/jobs/{unique}")
    instance = instances["Instances"][0]["InstanceId"]
    return describe_host(bench, receiver, group=group, instance=instance, log_group=f"/jobs/{unique}")


def describe_host(bench: Workbench, receiver: Receiver, *, group: str, instance: str, log_group: str) -> Host:
    """The job's environment, and recorders for Docker, the GPUs and systemd."""
    bench.program("docker", f'export TEST_LOG="{bench.folder}/docker.log"{DOCKER}')
    bench.program("nvidia-smi", "echo a GPU")
    bench.program("systemctl", f'printf "%s\\n" "$*" >>"{bench.folder}/systemctl.log"')
    variables = {
        name: value
        for name, value in bench.environment.items()
        if name.startswith("TORCHLIFT_") or name == "AWS_REGION"
    }
    variables |= {
        "TORCHLIFT_IMAGE": IMAGE,
        "TORCHLIFT_GROUP": group,
        "TORCHLIFT_HANDLE": receiver.url,
        "TORCHLIFT_CHECKPOINTS": f"s3://{bench.bucket}/checkpoints/test-job/0123456789abcdef/",
        "TORCHLIFT_DEADLINE_SECONDS": "3600",
        "TORCHLIFT_ROOT_GIB": "1",
        "TORCHLIFT_LOG_GROUP": log_group,
        "TORCHLIFT_INSTANCE_ID": instance,
        "TORCHLIFT_RUN_AS": f"{os.getuid()}:{os.getgid()}",
        "TORCHLIFT_COMMAND": "echo trained >output/weights; echo 'it''s done'",
    }
    return Host(bench=bench, group=group, instance=instance, variables=variables)


def make_quick_host(bench: Quick, receiver: Receiver) -> Host:
    """An instance for sweeps: its group and its log take whatever they are told."""
    # Once: a counter may be in its place later.
    if not (bench.folder / "hidden").exists() and "aws.log" not in (bench.bin / "aws").read_text():
        store = (bench.bin / "aws").read_text()
        recorder = f'case "$1" in logs | autoscaling) echo "$*" >>"{bench.folder}/aws.log"; exit 0 ;; esac'
        bench.program("aws", f"{recorder}\n{store}")
    return describe_host(bench, receiver, group="group", instance="i-0123456789abcdef0", log_group="/jobs/test")


def times_ended(host: Host) -> int:
    """How often a quick host took its instance out of the group."""
    log = host.bench.folder / "aws.log"
    return log.read_text().count("terminate-instance") if log.exists() else 0


def boot(host: Host, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the rendered user data with the file system's root in the test's folder."""
    script = host.bench.folder / "user_data.sh"
    script.write_text(render_user_data({**host.variables, **variables}))
    return subprocess.run(
        ["bash", str(script)],
        env={**host.bench.environment, "TORCHLIFT_ROOT": str(host.bench.folder / "root")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        # What takes the host with it must not take the tests.
        start_new_session=True,
    )


def write_bundle(bench: Workbench) -> str:
    """Put what the boot script needs of the source bundle into the bucket; its URI."""
    bundle = bench.folder / "bundle.zip"
    with zipfile.ZipFile(bundle, "w") as archive:
        for name in ("hosts/instance_job/run.sh", "hosts/instance_job/torchlift-job.service", "scripts/run_job.sh"):
            archive.write(REPO_ROOT / name, name)
    bench.put("assets/bundle.zip", bundle.read_bytes())
    return f"s3://{bench.bucket}/assets/bundle.zip"

"""A question-answering fleet as CloudFormation would make it: images, models.json, template, group, load balancer."""

from __future__ import annotations

import base64
import http.client
import json
import shlex
import subprocess
import sys
import zipfile
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from stand_in.executor.direct_image import documents
from stand_in.hooks import Answer, Call
from tests.executor.conftest import REGION, ROOT, World

HASHES = ("0123456789abcdef", "fedcba9876543210")
BUCKET = "artifacts"
REGISTRY = f"123456789012.dkr.ecr.{REGION}.amazonaws.com"
IMAGES = {
    "TORCHLIFT_SERVING_IMAGE": "question-answering-serving",
    "TORCHLIFT_NGINX_IMAGE": "nginx",
    "TORCHLIFT_MONITOR_IMAGE": "neuron-monitor",
}


@dataclass
class Signals:
    """What CloudFormation was told; stands in the place of its API."""

    received: list[dict[str, str]] = field(default_factory=list)

    def answer(self, _: Any, call: Call) -> Answer:
        assert call.action == "SignalResource"
        self.received.append(dict(parse_qsl(call.body.decode())))
        return Answer(status=200, body=b"<SignalResourceResponse/>", headers={"Content-Type": "text/xml"})

    def statuses(self) -> list[str]:
        return [one["Status"] for one in self.received]


@dataclass
class Fleet:
    """A fleet of `world`; `address` is that of its load balancer."""

    world: World
    signals: Signals
    address: str = ""
    target_group: str = ""
    load_balancer: str = ""

    def publish(self, folder: Path, hash: str) -> None:
        """A traced model, as the trace job publishes it."""
        manifest = self.world.executor.site.state_dir / f"{hash}.json"
        manifest.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [sys.executable, str(ROOT / "scripts/manifest.py"), "make", str(folder), str(manifest)],
            env={"TORCHLIFT_JOB": "question-answering-trace", "TORCHLIFT_HASH": hash}, check=True, timeout=60,
        )  # fmt: skip
        prefix = f"neuron/question-answering/{hash}/"
        for path in [one for one in folder.rglob("*") if one.is_file()]:
            self.world.put(BUCKET, prefix + str(path.relative_to(folder)), path.read_bytes())
        self.world.put(BUCKET, f"{prefix}manifest.json", manifest.read_bytes())

    def list_models(self, *models: tuple[str, str]) -> None:
        """Write models.json with (name, source)."""
        listed = [{"name": name, "source": source} for name, source in models]
        self.world.put(BUCKET, "fleet/models.json", json.dumps({"schema": 1, "models": listed}).encode())

    def push_images(self) -> None:
        ecr = self.world.client("ecr")
        variables = {
            "TORCHLIFT_PLATFORM": "linux/amd64",
            "BASE_IMAGE": "b",
            "TORCHLIFT_HASH": "h",
            "TORCHLIFT_IMAGE_DIR": "d",
        }
        for repository in IMAGES.values():
            ecr.create_repository(repositoryName=repository)
            ecr.put_image(repositoryName=repository, imageTag="a1", imageManifest=documents(variables)[1].decode())

    def template(self, **variables: str) -> dict[str, str]:
        """A launch template's data."""
        source = ROOT / "hosts/inferentia"
        archive = self.world.executor.site.state_dir / "bundle.zip"
        archive.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(archive, "w") as packed:
            for path in [*source.iterdir(), *(ROOT / "scripts").iterdir()]:
                packed.write(path, path.relative_to(ROOT))
        given = {
            **{name: f"{REGISTRY}/{repository}:a1" for name, repository in IMAGES.items()},
            "TORCHLIFT_SOURCE": self.world.put(BUCKET, "assets/bundle.zip", archive.read_bytes()),
            "TORCHLIFT_DEPLOYMENT": "test",
            "TORCHLIFT_CORES": "2",
            "TORCHLIFT_CORES_PER_DEVICE": "2",
            "TORCHLIFT_MODELS": f"s3://{BUCKET}/fleet/models.json",
            "TORCHLIFT_LOG_GROUP": "/fleet",
            "TORCHLIFT_STACK": "Torchlift-test-Inferentia",
            "TORCHLIFT_RESOURCE": "FleetGroup",
            "TORCHLIFT_ROOT_GIB": "100",
            "AWS_REGION": REGION,
            **variables,
        }
        lines = "\n".join(f"{name}={shlex.quote(value)}" for name, value in given.items())
        text = (source / "user_data.sh").read_text().replace("@FLEET_ENVIRONMENT@", lines)
        user_data = base64.b64encode(text.encode()).decode()
        return {"ImageId": "ami-12c6146b", "InstanceType": "t3.micro", "UserData": user_data}

    def create(self, **variables: str) -> None:
        """Load balancer, target group, listener, launch template and a group of one."""
        ec2, elb = self.world.client("ec2"), self.world.client("elbv2")
        subnets = [one["SubnetId"] for one in ec2.describe_subnets()["Subnets"]][:2]
        vpc = ec2.describe_subnets()["Subnets"][0]["VpcId"]
        made = elb.create_load_balancer(Name="fleet", Subnets=subnets, Scheme="internal")["LoadBalancers"][0]
        self.address, self.load_balancer = made["DNSName"], made["LoadBalancerArn"]
        target = elb.create_target_group(Name="fleet", Protocol="HTTP", Port=8080, VpcId=vpc)["TargetGroups"][0]
        self.target_group = target["TargetGroupArn"]
        elb.create_listener(
            LoadBalancerArn=self.load_balancer, Protocol="HTTP", Port=80,
            DefaultActions=[{"Type": "forward", "TargetGroupArn": self.target_group}],
        )  # fmt: skip
        ec2.create_launch_template(
            LaunchTemplateName="fleet",
            LaunchTemplateData=self.template(**variables),
        )
        self.world.client("autoscaling").create_auto_scaling_group(
            AutoScalingGroupName="fleet", MinSize=1, MaxSize=2, DesiredCapacity=1, VPCZoneIdentifier=",".join(subnets),
            LaunchTemplate={"LaunchTemplateName": "fleet", "Version": "$Latest"}, TargetGroupARNs=[self.target_group],
            Tags=[{"Key": "torchlift:job", "Value": "question-answering-fleet", "PropagateAtLaunch": True}],
        )  # fmt: skip

    def state(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.world.executor.state()["fleets"]
        return found

    def ask(self, method: str, path: str, body: Any = None, *, address: str = "") -> tuple[int, Any]:
        """(status, JSON) of one request."""
        with closing(http.client.HTTPConnection(address or self.address, timeout=60)) as connection:
            data = json.dumps(body).encode() if body is not None else None
            connection.request(method, path, data, {"Content-Type": "application/json"} if data else {})
            response = connection.getresponse()
            return response.status, json.loads(response.read())

"""The question-answering fleet: real servers and nginx behind what stands for the load balancer."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from model_code.question_answering import trace
from stand_in.executor import fleet_host
from tests.executor.conftest import World, eventually, listening_addresses
from tests.executor.fleet import BUCKET, HASHES, Fleet, Signals
from tests.model_code.question_answering.tiny_qa import questions, trace_arguments, write_model

BAKED = [f"/opt/torchlift/models/{hash}" for hash in HASHES]
ONE = {"question": "where does it lie?", "context": "the old bridge lies over the river"}
BOOT_SECONDS = 120


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two models with other weights."""
    base = tmp_path_factory.mktemp("fleet")
    for seed in (0, 1):
        arguments = trace_arguments(write_model(base / f"model-{seed}", seed=seed), base / f"traced-{seed}")
        assert trace.main(arguments) == 0
    return [base / "traced-0", base / "traced-1"]


@pytest.fixture
def fleet(world: World, traced: list[Path], monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """Not created yet."""
    signals = Signals()
    monkeypatch.setattr(sys.modules["stand_in.cloudformation.protocol"], "answer", signals.answer, raising=False)
    fleet = Fleet(world, signals)
    world.put(BUCKET, "first", b"")
    for folder, hash in zip(traced, HASHES, strict=True):
        fleet.publish(folder, hash)
    fleet.list_models(("model_0", BAKED[0]))
    fleet.push_images()
    return fleet


@contextmanager
def traffic(fleet: Fleet, *, address: str = "", clients: int = 4) -> Iterator[list[int]]:
    """Clients that ask without pause until the block ends; statuses of what came back."""
    statuses: list[int] = []
    end = threading.Event()

    def client(number: int) -> None:
        for question, context in questions(100_000, longest=40, seed=number):
            if end.is_set():
                return
            body = {"question": question, "context": context}
            statuses.append(fleet.ask("POST", "/predict", body, address=address)[0])

    with ThreadPoolExecutor(clients) as pool:
        running = [pool.submit(client, number) for number in range(clients)]
        try:
            yield statuses
        finally:
            end.set()
        for one in running:
            one.result()


def in_service(fleet: Fleet) -> list[str]:
    return [one["instance"] for one in fleet.state() if one["state"] == "in service"]


def test_a_fleet_serves_recovers_follows_its_models_and_ends(fleet: Fleet, world: World) -> None:
    fleet.create()
    assert fleet.ask("GET", "/healthz")[0] == 503, "the load balancer answers, without a target"
    eventually(fleet.signals.statuses, BOOT_SECONDS)
    assert fleet.signals.statuses() == ["SUCCESS"], fleet.state()
    (instance,) = fleet.state()
    assert instance["instance"] == fleet.signals.received[0]["UniqueId"]
    assert fleet.signals.received[0]["StackName"] == "Torchlift-test-Inferentia"
    assert instance["proxy"].startswith("nginx"), "the real one, where there is one"

    # Both cores answer, and each by its prefix.
    cores = Counter(fleet.ask("POST", "/predict", ONE)[1]["core"] for _ in range(20))
    assert set(cores) == {0, 1}
    for core in (0, 1):
        status, answer = fleet.ask("GET", f"/predictions_neuron_core_{core}/model_0?seq_0=where&seq_1=by%20the%20river")
        assert (status, list(answer)) == (200, ["detail"])
        assert fleet.ask("GET", f"/cores/{core}/models")[1]["core"] == core
    assert fleet.ask("GET", "/predictions_neuron_core_2/model_0")[0] == 404

    # On loopback only, all of them.
    for process in world.executor.state()["processes"]:
        for addresses in listening_addresses(psutil.Process(process["pid"])).values():
            assert all(address.startswith("127.0.0.1:") for address in addresses), process

    # A server is killed under load: it is back, and of the requests only those that were at it failed, with an answer.
    host = instance["url"].removeprefix("http://")
    with traffic(fleet, address=host) as statuses:
        eventually(lambda: len(statuses) > 20)
        os.kill(instance["cores"][1]["pid"], signal.SIGKILL)
        killed = time.monotonic()
        eventually(lambda: fleet.state()[0]["cores"][1]["restarts"] == 1, 30)
        eventually(lambda: fleet.ask("GET", "/cores/1/readyz", address=host)[0] == 200, 60)
        print(f"back after {time.monotonic() - killed:.1f} s")
        before = len(statuses)
        eventually(lambda: len(statuses) > before + 20)
    assert set(statuses) <= {200, 502}
    assert Counter(statuses)[502] <= 4, "no more than clients that had a request there"

    # models.json is followed under traffic.
    with traffic(fleet) as statuses:
        eventually(lambda: len(statuses) > 10)
        fleet.list_models(("model_0", BAKED[0]), ("better", f"s3://{BUCKET}/neuron/question-answering/{HASHES[1]}/"))
        eventually(lambda: {len(fleet.ask("GET", f"/cores/{core}/models")[1]["models"]) for core in (0, 1)} == {2}, 60)
        before = len(statuses)
        eventually(lambda: len(statuses) > before + 10)
    assert set(statuses) == {200}
    assert {fleet.ask("POST", "/predict", ONE)[1]["model"] for _ in range(8)} == {"model_0", "better"}

    world.client("autoscaling").delete_auto_scaling_group(AutoScalingGroupName="fleet", ForceDelete=True)
    eventually(lambda: not fleet.state() and not world.executor.state()["processes"], 60)
    world.client("elbv2").delete_load_balancer(LoadBalancerArn=fleet.load_balancer)
    host, _, port = fleet.address.partition(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=5)


def test_an_update_starts_the_new_before_it_ends_the_old(fleet: Fleet, world: World) -> None:
    """What CloudFormation's rolling update does: one more, wait for its signal, take the old one out."""
    fleet.create(TORCHLIFT_CORES="1")
    eventually(fleet.signals.statuses, BOOT_SECONDS)
    (old,) = in_service(fleet)
    world.client("ec2").create_launch_template_version(
        LaunchTemplateName="fleet", LaunchTemplateData=fleet.template(TORCHLIFT_CORES="2")
    )
    autoscaling = world.client("autoscaling")
    with traffic(fleet, clients=2) as statuses:
        autoscaling.set_desired_capacity(AutoScalingGroupName="fleet", DesiredCapacity=2)
        eventually(lambda: len(fleet.signals.statuses()) == 2, BOOT_SECONDS)
        autoscaling.terminate_instance_in_auto_scaling_group(InstanceId=old, ShouldDecrementDesiredCapacity=True)
        eventually(lambda: len(fleet.state()) == 1 and old not in in_service(fleet), 60)
        before = len(statuses)
        eventually(lambda: len(statuses) > before + 10)
    assert set(statuses) == {200}
    assert fleet.ask("GET", "/cores")[1] == {"cores": [0, 1]}


def test_without_nginx_a_balancer_takes_its_place(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_host, "find_nginx", lambda: None)
    fleet.create()
    eventually(fleet.signals.statuses, BOOT_SECONDS)
    assert fleet.signals.statuses() == ["SUCCESS"]
    assert fleet.state()[0]["proxy"] == "a loopback balancer (there is no nginx)"
    assert {fleet.ask("POST", "/predict", ONE)[1]["core"] for _ in range(8)} == {0, 1}
    assert fleet.ask("GET", "/predictions_neuron_core_1/model_0")[0] == 200
    assert fleet.ask("GET", "/cores/1/models")[1]["core"] == 1
    assert fleet.ask("GET", "/cores/2/models")[0] == 404


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        (
            {"TORCHLIFT_NGINX_IMAGE": "123456789012.dkr.ecr.eu-west-1.amazonaws.com/nginx:other"},
            "nginx:other not found",
        ),
        ({"TORCHLIFT_SOURCE": f"s3://{BUCKET}/nothing.zip"}, "cannot fetch s3://artifacts/nothing.zip"),
        ({"TORCHLIFT_CORES": "24"}, "24 cores are more than this machine can stand for"),
        ({"TORCHLIFT_QUEUE_ROWS": "many"}, "TORCHLIFT_QUEUE_ROWS='many': expected a whole number"),
    ],
)
def test_a_boot_that_fails_is_signalled(fleet: Fleet, world: World, variables: dict[str, str], reason: str) -> None:
    fleet.create(**variables)
    eventually(fleet.signals.statuses, BOOT_SECONDS)
    assert fleet.signals.statuses() == ["FAILURE"]
    assert fleet.state()[0]["state"] == "failed"
    assert reason in world.job("question-answering-fleet")["reason"]
    assert fleet.ask("POST", "/predict", ONE)[0] == 503


def test_a_model_that_was_never_traced_is_named(fleet: Fleet, world: World) -> None:
    fleet.list_models(("model_0", "/opt/torchlift/models/1111111111111111"))
    fleet.create()
    eventually(fleet.signals.statuses, BOOT_SECONDS)
    assert fleet.signals.statuses() == ["FAILURE"]
    assert "the serving image would lack its model" in world.job("question-answering-fleet")["reason"]

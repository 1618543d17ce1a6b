"""`docker`, for the scripts that builds and hosts run: buildah builds, podman runs, a registry on loopback keeps.

Only what those scripts use; anything else is refused. What a machine like this cannot do is said on standard error:
devices that are not there, and limits that it may not raise. Health checks need systemd here, and are left out.

Environment: TORCHLIFT_ENGINE (the engine's folder), TORCHLIFT_BASES (another engine's, for look-alikes; may be empty),
TORCHLIFT_REGISTRY (host:port of the registry), and the AWS variables of the stand-in, to which pushed manifests and the
lines of `--log-driver awslogs` go.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import platform
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import boto3

from stand_in.images.engine import Engine, control_group
from stand_in.images.lookalikes import look_alike

REGISTRY_ACCOUNT = "763104351884"
DOCKER_SCHEMA_2 = "application/vnd.docker.distribution.manifest.v2+json"
PASSED_ON = (
    *("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    *("TORCHLIFT_DEVICE", "OMP_WAIT_POLICY"),
)
"""What a container gets from the instance metadata service on AWS: where it is, and the role's credentials; what it
finds of devices by itself; and how its threads wait, where they share the cores with others'."""

FLAGS = ("--rm", "--detach", "--interactive", "--read-only")
"""Options of `docker run` without a value, of those that our scripts use."""
VALUED = (
    *("--cap-drop", "--device", "--entrypoint", "--env", "--gpus", "--group-add", "--ipc", "--log-driver", "--log-opt"),
    *("--memory", "--memory-swap", "--name", "--network", "--pids-limit", "--security-opt", "--tmpfs", "--ulimit"),
    *("--user", "--volume", "--workdir"),
)


def main(arguments: list[str]) -> int:
    """One call of `docker`; its exit status."""
    command, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    bases = os.environ.get("TORCHLIFT_BASES")
    engine = Engine(Path(os.environ["TORCHLIFT_ENGINE"]), bases=Path(bases) if bases else None)
    if command == "login":
        sys.stdin.read()
        print("Login Succeeded")
        return 0
    if command == "build":
        return build(engine, rest)
    if command == "push":
        return push(engine, rest[-1])
    if command == "pull":
        return pull(engine, rest[-1])
    if command == "run":
        return run(engine, rest)
    if command in ("stop", "rm", "kill", "logs", "ps", "inspect", "exec", "wait", "port"):
        return subprocess.call(["podman", command, *rest], env={**os.environ, **engine.environment()})
    print(f"docker: '{command}' is not among what the stand-in does", file=sys.stderr)
    return 1


def build(engine: Engine, arguments: list[str]) -> int:
    """`docker build`: on the look-alike of the base image, labelled with the platform that was asked for."""
    parser = argparse.ArgumentParser(prog="docker build")
    parser.add_argument("--platform", required=True)
    parser.add_argument("--build-arg", action="append", default=[])
    parser.add_argument("--file", required=True, type=Path)
    parser.add_argument("--tag", required=True)
    parser.add_argument("context", type=Path)
    wanted = parser.parse_args(arguments)
    values = dict(item.split("=", 1) for item in wanted.build_arg)
    if REGISTRY_ACCOUNT in values.get("BASE_IMAGE", ""):
        repository = values["BASE_IMAGE"].rsplit("/", 1)[-1].split(":")[0]
        values["BASE_IMAGE"] = look_alike(engine, repository, base=os.environ)
        print(f"stand-in: {repository} is a look-alike of this machine's architecture")
    system, _, architecture = wanted.platform.partition("/")
    engine.build(wanted.context, dockerfile=wanted.file, tag=wanted.tag, build_args=values, base=os.environ)
    if architecture != {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]:
        made = engine.call("buildah", "from", "--pull-never", wanted.tag, base=os.environ).strip()
        engine.call("buildah", "config", "--os", system, "--arch", architecture, made, base=os.environ)
        engine.call("buildah", "commit", "--format", "docker", "--rm", made, wanted.tag, base=os.environ)
    return 0


def push(engine: Engine, image: str) -> int:
    """`docker push`: the layers to the registry, the manifest as the registry has it to the stand-in's ECR."""
    target = _local(image)
    # Compressed as Docker does, but less: the registry is on loopback, and gone with the test.
    options = ("--tls-verify=false", "--format", "v2s2", "--compression-format", "gzip", "--compression-level", "1")
    with (engine.folder / "push.lock").open("w") as lock:
        # One after the other: layers that another image has are in the registry then, and not compressed again.
        fcntl.flock(lock, fcntl.LOCK_EX)
        engine.call("buildah", "push", *options, image, f"docker://{target}", base=os.environ)
    raw = engine.call("skopeo", "inspect", "--raw", "--tls-verify=false", f"docker://{target}", base=os.environ)
    registry, _, rest = image.partition("/")
    repository, _, tag = rest.rpartition(":")
    client: Any = boto3.client("ecr", region_name=registry.split(".")[3])
    with suppress(client.exceptions.ImageAlreadyExistsException):
        client.put_image(
            registryId=registry.split(".")[0],
            repositoryName=repository,
            imageTag=tag,
            imageManifest=raw,
            imageManifestMediaType=json.loads(raw)["mediaType"],
        )
    print(f"pushed {image} to {target}")
    return 0


def pull(engine: Engine, image: str) -> int:
    """`docker pull`: an image that was pushed before."""
    engine.call("podman", "pull", "--quiet", "--tls-verify=false", f"docker://{_local(image)}", base=os.environ)
    engine.call("podman", "tag", _local(image), image, base=os.environ)
    print(image)
    return 0


def _local(image: str) -> str:
    return f"{os.environ['TORCHLIFT_REGISTRY']}/{image.partition('/')[2]}"


def run(engine: Engine, arguments: list[str]) -> int:
    """`docker run` in the foreground or with --detach."""
    options, image = _until_the_image(arguments)
    passed_on: list[str] = []
    log: dict[str, str] = {}
    driver = ""
    for name, value in options:
        if name == "--log-driver":
            driver = value
        elif name == "--log-opt":
            key, _, text = value.partition("=")
            log[key] = text
        elif name in ("--ulimit", "--gpus") or (name == "--device" and not Path(value.split(":")[0]).exists()):
            print(f"stand-in: no {name} {value}", file=sys.stderr)
        else:
            passed_on += [name] if name in FLAGS else [f"{name}={value}"]
    passed = [item for name in PASSED_ON if name in os.environ for item in ("--env", name)]
    group = f"--cgroup-parent=/{control_group(engine.folder)}"
    command = ["podman", "run", "--pull=never", "--no-healthcheck", group, *passed, *passed_on, *image]
    environment = {**os.environ, **engine.environment()}
    if driver != "awslogs":
        return subprocess.call(command, env=environment, stdin=subprocess.DEVNULL)
    return _with_log(command, environment, log)


def _until_the_image(arguments: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Options with their values, and from the image on what is not Docker's to read."""
    options: list[tuple[str, str]] = []
    words = iter(arguments)
    for word in words:
        if not word.startswith("-"):
            return options, [word, *words]
        name, joined, value = word.partition("=")
        if name not in (*FLAGS, *VALUED):
            sys.exit(f"docker run: '{name}' is not among what the stand-in does")
        options.append((name, value if joined or name in FLAGS else next(words, "")))
    return options, []


def _with_log(command: list[str], environment: dict[str, str], options: dict[str, str]) -> int:
    """Show what the container prints, and send it to CloudWatch Logs as Docker's driver does."""
    client: Any = boto3.client("logs", region_name=options["awslogs-region"])
    names = {"logGroupName": options["awslogs-group"], "logStreamName": options["awslogs-stream"]}
    with suppress(client.exceptions.ResourceAlreadyExistsException):
        client.create_log_stream(**names)
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdout is not None
    waiting: list[dict[str, Any]] = []
    sent = time.monotonic()
    for line in process.stdout:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
        text = line.decode(errors="replace").rstrip("\n")
        if text:
            waiting.append({"timestamp": int(time.time() * 1000), "message": text})
        if waiting and time.monotonic() - sent > 1:
            client.put_log_events(**names, logEvents=waiting)
            waiting, sent = [], time.monotonic()
    if waiting:
        client.put_log_events(**names, logEvents=waiting)
    return process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

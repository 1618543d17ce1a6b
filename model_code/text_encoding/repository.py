"""Triton model repositories of a multi-model endpoint: one archive a model, all from one engine, checked before upload.

`<name>.tar.gz` holds one folder, `<name>/config.pbtxt`, `<name>/1/model.plan` and `<name>/engine.json`: SageMaker
unpacks it to /opt/ml/models/<hash>/model, and Triton takes the one folder in there for the model. The same engine gives
the same bytes. Standard library, protobuf and Triton's message types only.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from model_code import archive
from model_code.text_encoding import engine as engines
from model_code.text_encoding import model_config
from model_code.text_encoding.engine import Engine, EngineError
from model_code.text_encoding.model_config import Config, ConfigError

PLAN = "model.plan"
CPU_MODEL = Path(__file__).with_name("cpu_model.py")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")


class RepositoryError(ValueError):
    """Models that cannot be made, or an archive that would not serve; the message names every reason."""


def main(argv: list[str] | None = None) -> int:
    """Make the archives; returns the exit status. What the user can put right is one line on stderr."""
    parser = argparse.ArgumentParser(
        prog="python3 -m model_code.text_encoding.repository", description="Make one archive a model from an engine."
    )
    parser.add_argument("--engine", required=True, type=Path, help="folder with model.plan and engine.json")
    parser.add_argument("--output", required=True, type=Path, help="folder for the archives")
    parser.add_argument("--prefix", default="bert", help="models are <prefix>-0, <prefix>-1, …")
    parser.add_argument("--models", type=int, default=1, help="how many")
    parser.add_argument("--max-batch", type=int, help="largest batch of one execution (default: the engine's)")
    parser.add_argument("--preferred", type=int, nargs="*", default=[], help="batch sizes to aim at")
    parser.add_argument("--queue-delay-us", type=int, default=0, help="how long a request waits for others")
    parser.add_argument("--instances", type=int, default=1, help="executions at the same time on the GPU")
    options = parser.parse_args(argv)
    try:
        engine = engines.read(options.engine / engines.FILE)
        for name in names(options.prefix, options.models):
            config = model_config.make(
                name, engine, max_batch=options.max_batch, preferred=options.preferred,
                delay_us=options.queue_delay_us, instances=options.instances,
            )  # fmt: skip
            written = write(options.output, options.engine, config)
            print(f"{written}: sha256 {archive.content_sha256(written)}")
    except (RepositoryError, ConfigError, EngineError, archive.ArchiveError, OSError) as error:
        print(f"repository: {error}", file=sys.stderr)
        return 2
    return 0


def names(prefix: str, count: int) -> list[str]:
    """Names of `count` models. Raises RepositoryError."""
    if count < 1:
        raise RepositoryError(f"{count} models: at least 1 is needed")
    return [check_name(f"{prefix}-{number}") for number in range(count)]


def check_name(name: str) -> str:
    """`name` itself when a model may be called so. Raises RepositoryError."""
    if NAME.fullmatch(name) is None:
        raise RepositoryError(f"'{name}': a model's name has letters, digits, '-' and '_', at most 63")
    return name


def write(output: Path, engine_folder: Path, config: Config) -> Path:
    """Write and check `<name>.tar.gz` for the engine in `engine_folder`; returns its path, leaves nothing on failure.

    Raises RepositoryError or ArchiveError.
    """
    name = str(config.name)
    files: dict[str, archive.Content] = {
        f"{name}/config.pbtxt": model_config.to_text(config).encode(),
        f"{name}/1/{PLAN}": engine_folder / PLAN,
        f"{name}/{engines.FILE}": engine_folder / engines.FILE,
    }
    target = output / f"{name}.tar.gz"
    archive.write(target, files)
    try:
        check(target)
    except (RepositoryError, archive.ArchiveError):
        target.unlink()
        raise
    return target


def pack(target: Path, folder: Path) -> Path:
    """Write the archive `target`, `<name>.tar.gz`, of a model's folder, or of a repository with that one model.

    The model gets the archive's name, in config.pbtxt too: two copies of one folder never share a name. What is in the
    folder is not checked: `check` does that. Raises RepositoryError, ConfigError or ArchiveError.
    """
    name = target.name.removesuffix(".tar.gz")
    inner = [path for path in sorted(folder.iterdir()) if path.is_dir()] if folder.is_dir() else []
    if not (folder / "config.pbtxt").is_file():
        if len(inner) != 1 or not (inner[0] / "config.pbtxt").is_file():
            raise RepositoryError(f"{folder}: neither a model's folder, with config.pbtxt, nor one around it")
        folder = inner[0]
    config = model_config.parse((folder / "config.pbtxt").read_text(encoding="utf-8"))
    config.name = name
    files: dict[str, archive.Content] = {
        f"{name}/{path.relative_to(folder).as_posix()}": path for path in folder.rglob("*") if path.is_file()
    }
    archive.write(target, files | {f"{name}/config.pbtxt": model_config.to_text(config).encode()})
    return target


def check(
    path: Path, *, name: str = "", tensorrt: str = "", compute_capability: str = "", gpu_memory: int = 0
) -> Engine:
    """Check an archive before it is uploaded; returns its engine.

    :param name: what the model is to be called; the archive's own name by default
    :param tensorrt: TensorRT version of the serving image; empty: not compared
    :param compute_capability: that of the endpoint's GPU, such as `8.6`; empty: not compared
    :param gpu_memory: memory of the endpoint's GPU in bytes; 0: not compared
    Raises RepositoryError with every reason, ArchiveError for a damaged file.
    """
    name = name or path.name.removesuffix(".tar.gz")
    with tempfile.TemporaryDirectory() as work:
        root = Path(work) / "model"
        members = archive.unpack(path, root)
        engine, found = _check(root, members, name=name)
        plan = root / name / "1" / PLAN
        if gpu_memory and plan.is_file() and plan.stat().st_size > gpu_memory:
            found.append(f"the plan has {plan.stat().st_size:,} bytes: the endpoint's GPU has {gpu_memory:,}")
    if engine is not None:
        if tensorrt and not engines.same_version(engine.tensorrt, tensorrt):
            found.append(f"the engine was built by TensorRT {engine.tensorrt}: the serving image has {tensorrt}")
        if compute_capability and engine.compute_capability != compute_capability:
            found.append(
                f"the engine was built on a GPU of compute capability {engine.compute_capability} ({engine.gpu}): "
                f"the endpoint's has {compute_capability}"
            )
    if found or engine is None:
        raise RepositoryError(f"{path.name}: " + "; ".join(found))
    return engine


def check_for_cpu(path: Path, *, name: str = "") -> None:
    """Check an archive as `write_for_cpu` makes it. Raises RepositoryError with every reason, or ArchiveError."""
    name = name or path.name.removesuffix(".tar.gz")
    with tempfile.TemporaryDirectory() as work:
        root = Path(work) / "model"
        folder, config, found = _opened(root, archive.unpack(path, root), name=name)
        for file in ("model.py", "model.onnx") if folder is not None else ():
            if not (root / name / "1" / file).is_file():
                found.append(f"{name}/1/{file} is missing")
    if config is not None and config.backend != "python":
        found.append(f"backend is '{config.backend or config.platform}': without a GPU it is 'python'")
    if found:
        raise RepositoryError(f"{path.name}: " + "; ".join(found))


def _check(root: Path, members: Sequence[str], *, name: str) -> tuple[Engine | None, list[str]]:
    """The engine, if it can be read, and what is wrong inside the archive."""
    folder, config, found = _opened(root, members, name=name)
    if folder is None or config is None:
        return None, found
    try:
        engine = engines.read(folder / engines.FILE)
    except EngineError as error:
        return None, [*found, str(error).replace(f"{root}/", "")]
    return engine, found + model_config.problems(config, engine) + _plan_problems(folder, engine)


def _opened(root: Path, members: Sequence[str], *, name: str) -> tuple[Path | None, Config | None, list[str]]:
    """The one folder of an unpacked archive and its config, if it can be read, and what is wrong with either."""
    tops = sorted({member.split("/")[0] for member in members})
    if len(tops) != 1 or not (root / tops[0]).is_dir():
        held = ", ".join(tops) or "nothing"
        return None, None, [f"its root holds {held}: it must hold the model's folder and nothing else"]
    folder = root / tops[0]
    found = [] if tops[0] == name else [f"its folder is '{tops[0]}': it must have the model's name, '{name}'"]
    if not (folder / "config.pbtxt").is_file():
        return folder, None, [*found, f"{tops[0]}/config.pbtxt is missing"]
    try:
        config = model_config.parse((folder / "config.pbtxt").read_text(encoding="utf-8"))
    except ConfigError as error:
        return folder, None, [*found, str(error)]
    if config.name != tops[0]:
        found.append(f"config.pbtxt names the model '{config.name}': its folder is '{tops[0]}'")
    return folder, config, found


def _plan_problems(folder: Path, engine: Engine) -> list[str]:
    plan = folder / "1" / PLAN
    if not plan.is_file():
        return [f"{folder.name}/1/{PLAN} is missing"]
    found = []
    with plan.open("rb") as file:
        head = file.read(28)
    try:
        version = engines.plan_version(head)
        if not engines.same_version(version, engine.tensorrt):
            found.append(f"the plan was written by TensorRT {version}: engine.json says {engine.tensorrt}")
    except EngineError as error:
        found.append(f"1/{PLAN}: {error}")
    digest = archive.content_sha256(plan)
    if digest != engine.plan_sha256:
        found.append(f"1/{PLAN} is not the plan that engine.json describes (sha256 {digest[:12]}…)")
    return found


def for_cpu(config: Config) -> tuple[Config, str]:
    """The config that serves the same model by ONNX Runtime on a CPU, and its difference from the shipped one."""
    derived = type(config)()
    derived.CopyFrom(config)
    derived.ClearField("platform")
    derived.backend = "python"
    derived.ClearField("instance_group")
    derived.instance_group.add(count=1, kind="KIND_CPU")
    shipped, local = (model_config.to_text(one).splitlines() for one in (config, derived))
    difference = difflib.unified_diff(shipped, local, f"{config.name}/config.pbtxt", "on the CPU", lineterm="", n=0)
    return derived, "\n".join(difference)


def write_for_cpu(output: Path, onnx_file: Path, config: Config) -> tuple[Path, str]:
    """Write `<name>.tar.gz` for Triton's Python backend on a CPU: the shipped config derived, the ONNX file itself.

    Returns its path and the difference between the configs. For the local run: no endpoint on AWS serves it.
    """
    derived, difference = for_cpu(config)
    name = str(config.name)
    target = output / f"{name}.tar.gz"
    archive.write(
        target,
        {
            f"{name}/config.pbtxt": model_config.to_text(derived).encode(),
            f"{name}/1/model.py": CPU_MODEL,
            f"{name}/1/model.onnx": onnx_file,
        },
    )
    return target, difference


if __name__ == "__main__":
    sys.exit(main())

"""Compile a module and load it again: on NeuronCores (torch_neuronx) or on the CPU (TorchScript)."""

from __future__ import annotations

import importlib.metadata
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch

Runnable = Callable[..., "tuple[torch.Tensor, torch.Tensor]"]


class BackendError(RuntimeError):
    """A backend that is not installed here, or a file that it cannot run."""


class Backend(Protocol):
    """How a module becomes a file and runs again."""

    @property
    def name(self) -> str:
        """The name in model.json."""
        ...

    @property
    def packages(self) -> tuple[str, ...]:
        """Whose versions matter to what is compiled."""
        ...

    @property
    def one_file(self) -> bool:
        """Whether one compiled file runs every shape."""
        ...

    @property
    def default_compiler_args(self) -> tuple[str, ...]:
        """Always passed to the compiler."""
        ...

    def runs_here(self) -> bool:
        """Whether this machine can run what `compile` makes."""
        ...

    def compile(
        self, module: torch.nn.Module, example: tuple[torch.Tensor, ...], path: Path, *, compiler_args: Sequence[str]
    ) -> None:
        """Compile for exactly the shapes of `example` and write the file. Raises BackendError."""
        ...

    def load(self, path: Path) -> Runnable:
        """The callable in the file. Raises BackendError."""
        ...


class CpuBackend:
    """TorchScript: traced and frozen; optimized for the processor when it is loaded."""

    name: str = "cpu"
    packages: tuple[str, ...] = ("torch",)
    one_file: bool = True
    default_compiler_args: tuple[str, ...] = ()

    def runs_here(self) -> bool:
        """Always."""
        return True

    def compile(
        self, module: torch.nn.Module, example: tuple[torch.Tensor, ...], path: Path, *, compiler_args: Sequence[str]
    ) -> None:
        """See Backend."""
        if compiler_args:
            raise BackendError(f"the cpu backend takes no compiler arguments, and was given {list(compiler_args)}")
        with torch.inference_mode(), _quiet():
            traced = torch.jit.trace(module, example, check_trace=False)  # type: ignore[no-untyped-call]
            torch.jit.save(torch.jit.freeze(traced), str(path))

    def load(self, path: Path) -> Runnable:
        """See Backend."""
        try:
            # Weights are packed for this processor, so that is done here and not in the file.
            with _quiet():
                frozen = torch.jit.load(str(path), map_location="cpu")  # type: ignore[no-untyped-call]
                loaded: Runnable = torch.jit.optimize_for_inference(frozen)
        except RuntimeError as error:
            raise BackendError(f"{path}: cannot be loaded: {str(error).strip().splitlines()[0]}") from error
        return loaded


class NeuronBackend:
    """torch_neuronx: ahead-of-time compilation on any machine for the cores of Inf2; runs on a NeuronCore only."""

    name: str = "neuronx"
    packages: tuple[str, ...] = ("torch", "torch-neuronx", "neuronx-cc")
    one_file: bool = False
    default_compiler_args: tuple[str, ...] = ("--target", "inf2")

    def runs_here(self) -> bool:
        """Whether there is a Neuron device."""
        return Path("/dev/neuron0").exists()

    def compile(
        self, module: torch.nn.Module, example: tuple[torch.Tensor, ...], path: Path, *, compiler_args: Sequence[str]
    ) -> None:
        """See Backend."""
        neuronx = _torch_neuronx()
        # cpu_backend: compiling needs no Neuron device, so a build machine without one does it.
        traced = neuronx.trace(module, example, compiler_args=list(compiler_args), cpu_backend=True)
        torch.jit.save(traced, str(path))

    def load(self, path: Path) -> Runnable:
        """See Backend."""
        _torch_neuronx()  # registers the operators that the file calls
        if not self.runs_here():
            raise BackendError(f"{path}: runs on a NeuronCore only, and there is no /dev/neuron0 here")
        loaded: Runnable = torch.jit.load(str(path))  # type: ignore[no-untyped-call]
        return loaded


BACKENDS: dict[str, Backend] = {"neuronx": NeuronBackend(), "cpu": CpuBackend()}


def backend(name: str) -> Backend:
    """A backend by name. Raises BackendError."""
    if name not in BACKENDS:
        raise BackendError(f"backend {name!r}: there are {', '.join(BACKENDS)}")
    return BACKENDS[name]


def versions(packages: Sequence[str]) -> dict[str, str]:
    """{package: version} of those that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _torch_neuronx() -> Any:
    try:
        import torch_neuronx
    except ImportError as error:  # the package of that name on PyPI is a placeholder that raises ImportError, too
        raise BackendError(
            "the neuronx backend needs torch_neuronx and neuronx-cc from the AWS Neuron repository (the package on "
            "PyPI is an empty placeholder); run this in an AWS Deep Learning Container pytorch-inference-neuronx, or "
            "choose --backend cpu"
        ) from error
    return torch_neuronx


class _quiet(warnings.catch_warnings):
    """Tracing warns of values that become constants (checked by the parity test), and that TorchScript is old."""

    def __enter__(self) -> Any:
        entered = super().__enter__()
        warnings.simplefilter("ignore")
        return entered

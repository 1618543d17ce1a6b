"""The processes of one training: one alone, or those that torchrun started, on GPUs or CPU cores."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import distributed

# How long another rank's complaint waits for the first one's, about the same thing.
PATIENCE_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """This process among its peers: `rank` of `count`, computing on `device`."""

    rank: int
    count: int
    device: torch.device

    @classmethod
    def join(cls) -> Ranks:
        """Meet the peers that torchrun's environment names, over nccl (GPUs) or gloo; else be alone."""
        gpu = torch.cuda.is_available()
        if "RANK" not in os.environ:
            return cls(rank=0, count=1, device=torch.device("cuda", 0) if gpu else torch.device("cpu"))
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
        if gpu:
            torch.cuda.set_device(device)
        distributed.init_process_group("nccl" if gpu else "gloo")
        return cls(rank=distributed.get_rank(), count=distributed.get_world_size(), device=device)

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes files and prints."""
        return self.rank == 0

    def has_bf16(self) -> bool:
        """Whether this processor multiplies bfloat16 matrices; emulated, that is slower than float32."""
        if self.device.type == "cuda":
            return bool(torch.cuda.is_bf16_supported(including_emulation=False))
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())

    def print(self, line: str) -> None:
        """Print once for all ranks, at once."""
        if self.first:
            print(line, flush=True)

    def complain(self, line: str, *, ending: Callable[[], bool]) -> None:
        """Say on stderr why this rank fails, unless the first one fails too: then that one says it.

        :param ending: whether the launcher is already ending this rank, as it does when another one failed
        """
        limit = time.monotonic() + PATIENCE_S
        while not self.first and time.monotonic() < limit:
            if ending():
                return
            time.sleep(0.05)
        print(line, file=sys.stderr, flush=True)

    def sum(self, values: torch.Tensor) -> torch.Tensor:
        """The sum over all ranks, on every rank; `values` is left alone."""
        total = values.clone()
        if self.count > 1:
            distributed.all_reduce(total)
        return total

    def wait(self) -> None:
        """Until every rank is here."""
        if self.count > 1:
            distributed.barrier()

    def leave(self) -> None:
        """End the group; a rank that fails leaves without waiting."""
        if distributed.is_initialized():
            distributed.destroy_process_group()

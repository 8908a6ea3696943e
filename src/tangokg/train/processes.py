"""Several processes train one model: each has all weights and a share of the windows of every step."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.nn.functional import all_reduce
from torch.nn.modules.batchnorm import _BatchNorm

from tangokg.decode import Decoder
from tangokg.errors import ConfigError, TrainingError
from tangokg.shards import meet

PATIENCE = timedelta(hours=12)  # the others wait while the first process measures; one that dies is noticed at once


@dataclass(frozen=True)
class Group:
    """The rank of this process and the number of processes. Sums over all of them are the same in each."""

    rank: int = 0
    size: int = 1
    divides_entities: bool = False  # each process computes all windows for its own entities; else windows are divided

    @property
    def divides_windows(self) -> bool:
        """Whether each process computes some windows of a step."""
        return self.size > 1 and not self.divides_entities

    @property
    def first(self) -> bool:
        """Whether this is the process that writes."""
        return self.rank == 0

    def share(self, count: int) -> slice:
        """The rows of ``count`` that this process takes; all of them if there are fewer rows than processes."""
        return slice(self.rank, None, self.size) if self.size <= count and not self.divides_entities else slice(None)

    def weight(self, count: int, part: int, total: int) -> float:
        """The weight of the mean over ``part`` queries in that over ``total``, with rows shared as by :meth:`share`."""
        return part / max(1, total) if self.size <= count else 1 / self.size

    def add_gradients(self, parameters: list[nn.Parameter], loss: Tensor) -> Tensor:
        """Sum the gradients over all processes in place, in one message with the loss, whose sum is returned.

        A parameter that no process used keeps no gradient. Where each process has the whole gradient already, the mean
        is taken: on a GPU they differ by rounding, and the weights must not.
        """
        if self.size == 1:
            return loss
        used = loss.new_tensor([parameter.grad is not None for parameter in parameters])
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        flat = torch.cat([*(grad.flatten() for grad in grads), used, loss.reshape(1)])
        meet(lambda: distributed.all_reduce(flat))
        if self.divides_entities:
            flat /= self.size
        *sums, used, total = flat.split([*(grad.numel() for grad in grads), len(parameters), 1])
        for parameter, sum_, users in zip(parameters, sums, used.tolist(), strict=True):
            parameter.grad = sum_.view_as(parameter) if users else None
        loss_sum: Tensor = total[0]
        return loss_sum

    def largest(self, number: int) -> int:
        """The largest of the processes' numbers."""
        return int(self._reduce(torch.tensor(number), distributed.ReduceOp.MAX))

    def mean(self, value: float, weight: int) -> float:
        """The weighted mean of the processes' values."""
        if self.size == 1:
            return value
        total, weights = self._reduce(torch.tensor([value * weight, weight], dtype=torch.float64)).tolist()
        return float(total / weights)

    def wait(self) -> None:
        """Wait until all processes have arrived."""
        self.largest(0)

    def _reduce(self, numbers: Tensor, operation: Any = distributed.ReduceOp.SUM) -> Tensor:
        if self.size > 1:
            meet(lambda: distributed.all_reduce(numbers, operation))
        return numbers


ALONE = Group()


def place() -> tuple[int, int, int]:
    """Rank of this process, number of processes, and rank on this machine, as set by torchrun or Slurm's srun."""
    for names in (("RANK", "WORLD_SIZE", "LOCAL_RANK"), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID")):
        if all(name in os.environ for name in names):
            rank, size, local = (int(os.environ[name]) for name in names)
            return rank, size, local
    return 0, 1, 0


def to_start(devices: int | None, nodes: int | None, rendezvous: str | None) -> bool:
    """Whether this command has to start the requested processes; checks the options if they run already."""
    size = place()[1]
    if size > 1:
        each = devices or size // (nodes or 1)
        if each * (nodes or size // each) != size:
            options = f"--devices {devices or 1} and --nodes {nodes or 1}"
            raise ConfigError(f"{options}: torchrun or Slurm started {size} processes. Leave the options out.")
        return False
    if rendezvous is not None and (nodes or 1) == 1:
        raise ConfigError("--rendezvous is the meeting point of several machines: give --nodes N with it.")
    if (nodes or 1) > 1 and rendezvous is None:
        raise ConfigError(
            f"--nodes {nodes}: give the same command on each machine, with --rendezvous HOST:PORT, one of the machines "
            f"and a free port of it. Where torchrun or Slurm starts the processes, leave --nodes out."
        )
    if rendezvous is not None and not re.fullmatch(r"\[?[^\s/]+:\d+", rendezvous):
        raise ConfigError(f"--rendezvous {rendezvous!r}: expected HOST:PORT, such as node1:29400.")
    return (devices or 1) > 1 or (nodes or 1) > 1


def start(words: Sequence[str], devices: int | None, nodes: int = 1, rendezvous: str | None = None) -> int:
    """Run this command in so many processes on this machine; returns the exit status of the first that failed, or 0.

    ``devices`` None: one for each GPU. Of several ``nodes`` each runs this command, and they meet at ``rendezvous``.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    devices = devices or max(1, torch.cuda.device_count())
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // devices)))
    endpoint = rendezvous or "127.0.0.1:0"
    config = LaunchConfig(
        nodes, nodes, devices, rdzv_backend="c10d", rdzv_endpoint=endpoint, run_id="tango", max_restarts=0
    )
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # each process says its own
    try:
        elastic_launch(config, sys.executable)("-m", "tangokg.cli", *words)
    except ChildFailedError as failed:
        codes = [failure.exitcode for failure in failed.failures.values()]
        if max(codes) > 0:
            return max(codes)
        raise TrainingError(f"a process was ended by signal {-min(codes)}; go on with --resume.") from None
    except SignalException as stop:
        return 128 + stop.sigval
    return 0


@contextmanager
def joined() -> Iterator[Group]:
    """The group in which torchrun or Slurm started this process, or a group of one. It is left at the end."""
    if distributed.is_initialized():
        yield Group(distributed.get_rank(), distributed.get_world_size())
        return
    rank, size, local = place()
    if size == 1:
        yield ALONE
        return
    if "MASTER_ADDR" not in os.environ:
        os.environ |= _meeting_place(os.environ) | dict(os.environ)
    if torch.cuda.is_available():
        torch.cuda.set_device(local % torch.cuda.device_count())
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    distributed.init_process_group(backend, rank=rank, world_size=size, timeout=PATIENCE)
    try:
        yield Group(rank, size)
    finally:
        distributed.destroy_process_group()


def _meeting_place(slurm: Mapping[str, str]) -> dict[str, str]:
    """The meeting point of the tasks of a Slurm step: its first node, at a port that other steps do not use."""
    from lightning.fabric.plugins.environments.slurm import SLURMEnvironment

    nodes = slurm.get("SLURM_STEP_NODELIST") or slurm.get("SLURM_JOB_NODELIST", "127.0.0.1")
    port = 15_000 + (int(slurm.get("SLURM_JOB_ID", 0)) + 101 * int(slurm.get("SLURM_STEP_ID", 0))) % 15_000
    return {"MASTER_ADDR": SLURMEnvironment.resolve_root_node_address(nodes), "MASTER_PORT": str(port)}


class SharedBatchNorm(_BatchNorm):
    """Batch normalisation by the mean and variance over all processes; with ``per_process``, over this process only."""

    per_process = False

    def _check_input_dim(self, x: Tensor) -> None:
        """Any number of dimensions; channels are the second."""

    def forward(self, x: Tensor) -> Tensor:
        if self.per_process or not self.training:
            return super().forward(x)
        others = [dim for dim in range(x.dim()) if dim != 1]
        count = all_reduce(x.new_tensor(x.numel() // x.shape[1]))
        mean = all_reduce(x.sum(others, keepdim=True)) / count
        centred = x - mean
        variance = all_reduce(centred.square().sum(others, keepdim=True)) / count
        self._keep(mean.detach().flatten(), (variance * count / (count - 1).clamp(min=1)).detach().flatten())
        shape = mean.shape
        normal: Tensor = centred * torch.rsqrt(variance + self.eps)
        return normal * self.weight.view(shape) + self.bias.view(shape)

    def _keep(self, mean: Tensor, variance: Tensor) -> None:
        """Move the running statistics, which evaluation uses."""
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.momentum is not None
        self.running_mean.lerp_(mean.to(self.running_mean), self.momentum)
        self.running_var.lerp_(variance.to(self.running_var), self.momentum)
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)


def share_batch_norms(model: nn.Module, group: Group) -> list[SharedBatchNorm]:
    """Make the batch normalisations of a model's decoder sum over all processes; weights and names stay.

    Normalisations over entities see the same data in each process, and stay as they are.
    """
    shared: list[SharedBatchNorm] = []
    for decoder in (module for module in model.modules() if isinstance(module, Decoder) and group.divides_windows):
        for module in decoder.modules():
            if isinstance(module, _BatchNorm):
                module.__class__ = SharedBatchNorm
            if isinstance(module, SharedBatchNorm):
                shared.append(module)
    return shared

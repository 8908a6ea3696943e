"""Check before a run starts that it fits into memory, and control how much memory the allocator keeps."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import NamedTuple

import torch

from tangokg.errors import MemoryShort
from tangokg.models.protocol import Model
from tangokg.snapshots.timeline import Timeline
from tangokg.train.settings import TrainSettings

LITTLE = 0.3  # of all memory: if less is free, freed blocks go back to the system


class Needed(NamedTuple):
    """Roughly how many bytes a training process needs."""

    weights: int  # with gradients, two moments and the best weights
    scores: int  # of the part of a step that is computed at once
    questions: int  # of a step, beside their scores
    history: int  # sorted facts

    @property
    def fixed(self) -> int:
        """The memory needed however few scores are computed at once."""
        return self.weights + self.questions + self.history


def needed_bytes(model: Model, timeline: Timeline, train: TrainSettings, processes: int = 1) -> Needed:
    """Estimate the memory that training takes; several processes divide the windows, or the entities.

    Scores of a model whose loss is computed in parts take no more than ``score_memory``, or those of one question.
    """
    divides = train.shard_entities and processes > 1 and bool(model.divided)
    sizes = {name: p.numel() * p.element_size() for name, p in model.named_parameters()}
    weights = sum(size // (processes if divides and name in model.divided else 1) for name, size in sizes.items())
    largest = timeline.offset.diff().topk(min(train.batch_windows, len(timeline))).values.sum() if len(timeline) else 0
    questions = -(-int(train.batch_queries or largest) // (1 if divides else processes))
    held = model.held(timeline)
    each = -(-held.scores // (processes if divides else 1))
    scores = each * questions
    if model.in_parts and train.score_memory:
        scores = min(scores, max(each, int(train.score_memory * 2**30)))
    return Needed(5 * weights, scores, held.question * questions, held.edge * int(timeline.num_edges.sum()))


def free_bytes(device: torch.device) -> int | None:
    """Free memory in bytes; None if the system does not report it."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return _meminfo("MemAvailable") if device.type == "cpu" else None


def _meminfo(name: str) -> int | None:
    """A row of ``/proc/meminfo`` in bytes; None if it is missing."""
    meminfo = Path("/proc/meminfo")
    if not meminfo.exists():
        return None
    lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
    return int(lines[name].split()[0]) * 1024 if name in lines else None


def check_memory(
    model: Model, timeline: Timeline, train: TrainSettings, device: torch.device, processes: int = 1
) -> None:
    """Raise an error for a run that cannot fit, with what takes the memory and what to change."""
    needed, free = needed_bytes(model, timeline, train, processes), free_bytes(device)
    need = sum(needed)
    if free is None or need <= free:
        return
    fewer = f"fewer windows a step (--set batch_windows=1, now {train.batch_windows}), "
    if model.in_parts:
        room = 0.8 * (free - needed.fixed) / 2**30
        fewer = f"less memory for scores (--set score_memory={room:.2g}, now {train.score_memory:.2g}), "
        if room <= 0:  # the scores alone are not too many
            fewer = "fewer windows a step (--set batch_windows=1), " if needed.weights + needed.history < free else ""
    elif train.batch_queries:
        quarter = max(1, train.batch_queries // 4)
        fewer = f"fewer questions a step (--set batch_queries={quarter}, now {train.batch_queries}), "
    parts = ", ".join(f"{size / 2**30:.1f} for {name}" for name, size in needed._asdict().items())
    raise MemoryShort(
        f"this run needs about {need / 2**30:.1f} GiB on {device}, and {free / 2**30:.1f} GiB are free. "
        f"It needs {parts}. Take {fewer}a smaller state (--set dim=100), or a coarser time unit, so that a snapshot "
        f"holds fewer facts at once."
    )


def give_memory_back(device: torch.device) -> bool:
    """Return freed blocks to the system if little of its memory is left; returns whether this was done."""
    free, total = (_meminfo(name) for name in ("MemAvailable", "MemTotal"))
    if device.type != "cpu" or free is None or total is None or free > LITTLE * total:
        return False
    try:
        return bool(ctypes.CDLL(None).malloc_trim(0))
    except (OSError, AttributeError):
        return False


def keep_freed_memory() -> None:
    """Tell glibc to keep large freed blocks: it would return each to the system and fault its pages in again.

    This saves 20 to 70 % of the time of large operations on a CPU (measured), and does nothing on other systems. It
    changes the whole process, so only commands and worker processes call it, never a function of the library.
    """
    if sys.platform != "linux":
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(-4, 0)  # M_MMAP_MAX: no block of its own for each large request
    mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD: give nothing back in between

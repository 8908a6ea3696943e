"""Check before a run starts that it fits into memory; and control what the allocator keeps."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import torch

from tangokg.errors import MemoryShort
from tangokg.models.protocol import Model
from tangokg.snapshots.timeline import Timeline
from tangokg.train.settings import TrainSettings

LITTLE = 0.3  # of all memory: if less is free, freed blocks go back to the system


def needed_bytes(model: Model, timeline: Timeline, train: TrainSettings) -> tuple[int, int]:
    """Bytes of weights, gradients, two moments and the best weights; and of the scores of the largest step twice.

    Scores of a model whose loss is computed in parts take no more than ``score_memory``, or those of one question.
    """
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    largest = timeline.offset.diff().topk(min(train.batch_windows, len(timeline))).values.sum() if len(timeline) else 0
    each = 2 * next((p.element_size() for p in model.parameters()), 4) * timeline.num_entities
    scores = each * int(train.batch_queries or largest)
    if model.in_parts and train.score_memory:
        scores = min(scores, max(each, int(train.score_memory * 2**30)))
    return 5 * weights, scores


def free_bytes(device: torch.device) -> int | None:
    """Free memory in bytes; None where the system does not say."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return _meminfo("MemAvailable") if device.type == "cpu" else None


def _meminfo(name: str) -> int | None:
    """A row of ``/proc/meminfo`` in bytes; None where there is none."""
    meminfo = Path("/proc/meminfo")
    if not meminfo.exists():
        return None
    lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
    return int(lines[name].split()[0]) * 1024 if name in lines else None


def check_memory(model: Model, timeline: Timeline, train: TrainSettings, device: torch.device) -> None:
    """Raise before a run that cannot fit, with what to change."""
    (weights, scores), free = needed_bytes(model, timeline, train), free_bytes(device)
    need = weights + scores
    if free is None or need <= free:
        return
    fewer = f"fewer windows a step (--set batch_windows=1, now {train.batch_windows}), "
    if model.in_parts:
        room = 0.8 * (free - weights) / 2**30
        fewer = f"less memory for scores (--set score_memory={room:.2g}, now {train.score_memory:.2g}), "
        fewer *= room > 0  # else the weights alone are too many
    elif train.batch_queries:
        quarter = max(1, train.batch_queries // 4)
        fewer = f"fewer questions a step (--set batch_queries={quarter}, now {train.batch_queries}), "
    raise MemoryShort(
        f"this run needs about {need / 2**30:.1f} GiB on {device}, and {free / 2**30:.1f} GiB are free. "
        f"Take {fewer}a smaller state (--set dim=100), or a coarser time unit, so that a snapshot holds "
        f"fewer facts at once."
    )


def give_memory_back(device: torch.device) -> bool:
    """Return freed blocks to the system where little of its memory is left; whether that was done."""
    free, total = (_meminfo(name) for name in ("MemAvailable", "MemTotal"))
    if device.type != "cpu" or free is None or total is None or free > LITTLE * total:
        return False
    try:
        return bool(ctypes.CDLL(None).malloc_trim(0))
    except (OSError, AttributeError):
        return False


def keep_freed_memory() -> None:
    """Tell glibc to keep large freed blocks: it would return each to the system and fault its pages in again.

    Measured 20 to 70 % of the time of large operations on CPU. Does nothing on other systems. It changes the whole
    process, so that commands and worker processes call it, and no function of the library does.
    """
    if sys.platform != "linux":
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(-4, 0)  # M_MMAP_MAX: no block of its own for each large request
    mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD: give nothing back in between

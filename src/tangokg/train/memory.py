"""How much memory a run will take, told before it starts; and an allocator that keeps what it has."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import torch

from tangokg.errors import MemoryShort
from tangokg.models.protocol import Model
from tangokg.snapshots.timeline import Timeline

LITTLE = 0.3  # of all memory: where less is free, what was kept is given back
SIGNS = ("out of memory", "alloc_failed", "can't allocate memory", "not enough memory")  # the last on Windows


def needed_bytes(model: Model, timeline: Timeline, batch_windows: int, batch_queries: int = 0) -> int:
    """Weights, gradients, two moments and the best weights; the scores of the largest step, held twice."""
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    largest = timeline.offset.diff().topk(min(batch_windows, len(timeline))).values.sum() if len(timeline) else 0
    largest = batch_queries or largest
    size = next((p.element_size() for p in model.parameters()), 4)
    return 5 * weights + 2 * size * int(largest) * timeline.num_entities


def free_bytes(device: torch.device) -> int | None:
    """Memory that can still be taken, where the system tells."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return _told_by_the_system("MemAvailable") if device.type == "cpu" else None


def _told_by_the_system(name: str) -> int | None:
    """A row of the system's table of memory, in bytes, where there is one."""
    meminfo = Path("/proc/meminfo")
    if not meminfo.exists():
        return None
    lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
    return int(lines[name].split()[0]) * 1024 if name in lines else None


def check_memory(
    model: Model, timeline: Timeline, batch_windows: int, device: torch.device, batch_queries: int = 0
) -> None:
    """Raise before the run where it cannot fit, with what to change."""
    need, free = needed_bytes(model, timeline, batch_windows, batch_queries), free_bytes(device)
    if free is not None and need > free:
        fewer = f"windows a step (--set batch_windows=1, now {batch_windows})"
        if batch_queries:
            fewer = f"questions a step (--set batch_queries={max(1, batch_queries // 4)}, now {batch_queries})"
        raise MemoryShort(
            f"this run needs about {need / 2**30:.1f} GiB on {device}, and {free / 2**30:.1f} GiB are free. "
            f"Take fewer {fewer}, a smaller state (--set dim=100), or a coarser time unit, so that a snapshot holds "
            f"fewer facts at once."
        )


def lacks_memory(error: BaseException) -> bool:
    """Whether an error, of ours, of Python, of torch or of a GPU's libraries, says that memory ran out."""
    if isinstance(error, (MemoryShort, MemoryError, torch.OutOfMemoryError)):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(sign in text for sign in SIGNS)


def give_memory_back(device: torch.device) -> bool:
    """Return what :func:`keep_freed_memory` kept, and whether that was done: where little of the machine's is left."""
    free, total = (_told_by_the_system(name) for name in ("MemAvailable", "MemTotal"))
    if device.type != "cpu" or free is None or total is None or free > LITTLE * total:
        return False
    try:
        return bool(ctypes.CDLL(None).malloc_trim(0))
    except (OSError, AttributeError):
        return False


def keep_freed_memory() -> None:
    """Tell glibc to keep large freed blocks: it would return each to the system and fault its pages in again.

    Measured 20 to 70 % of the time of large operations on CPU. Does nothing on other systems.
    """
    if sys.platform != "linux":
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(-4, 0)  # M_MMAP_MAX: no block of its own for each large request
    mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD: give nothing back in between

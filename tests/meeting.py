"""Processes that are threads: they meet at a barrier, where torch would send messages."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any, TypeVar

import pytest
import torch
from torch import Tensor, distributed

from tangokg.shards import Shard

Result = TypeVar("Result")


class Meeting:
    """Collective operations of some threads; ``sent`` counts the numbers that one of them gives to sums."""

    def __init__(self, size: int) -> None:
        self.barrier, self.given, self.sent = Barrier(size, timeout=60), dict[int, Tensor](), 0

    def all_reduce(self, x: Tensor, operation: Any = distributed.ReduceOp.SUM) -> None:
        place = self.barrier.wait()
        self.given[place] = x.clone()
        if place == 0:
            self.sent += x.numel()
        self.barrier.wait()
        every = torch.stack([self.given[i] for i in range(self.barrier.parties)])
        x.copy_(every.sum(0) if operation == distributed.ReduceOp.SUM else every.amax(0))
        self.barrier.wait()


def together(
    size: int, count: int, call: Callable[[Shard], Result], monkeypatch: pytest.MonkeyPatch
) -> tuple[list[Result], Meeting]:
    """What each of some processes makes of its shard of so many rows."""
    meeting = Meeting(size)
    monkeypatch.setattr(distributed, "all_reduce", meeting.all_reduce)
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(call, [Shard(rank, size, count) for rank in range(size)])), meeting

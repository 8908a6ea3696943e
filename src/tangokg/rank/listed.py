"""Candidates listed for each query: those that a filter leaves out, or those that alone are ranked."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tangokg.quads.values import Ids
from tangokg.rank.ranks import Pairs
from tangokg.snapshots.ranges import expand


@dataclass(frozen=True, eq=False)
class Listed:
    """A list of candidates for each of B rankings: for row b ``o[start[b]:stop[b]]``, each once; lists may overlap.

    The pairs are written out for a few rows at a time, as all of them can be many times the facts; how many there
    are is known on the host, so that this waits for no device.
    """

    o: Tensor  # (E,) int64 or int32
    start: Tensor  # (B,)
    stop: Tensor  # (B,)
    before: Ids  # (B + 1,) on the host: the pairs of all rows before

    def pairs(self, first: int = 0, last: int | None = None) -> Pairs:
        """``(row, object)`` of the rows ``first .. last``, counted from ``first``."""
        last = len(self.start) if last is None else last
        total = int(self.before[last] - self.before[first])
        place, row = expand(self.start[first:last], self.stop[first:last], total)
        return row, self.o.index_select(0, place).long()


def listed(o: Tensor, start: Tensor, stop: Tensor) -> Listed:
    """For each row b the candidates ``o[start[b]:stop[b]]``."""
    zero = start.new_zeros(1)
    return Listed(o, start, stop, torch.cat([zero, (stop - start).cumsum(0)]).cpu().numpy())


def find(keys: Tensor, values: Tensor, key: Tensor) -> Listed:
    """For each row the values of those entries of the ascending ``keys`` that equal ``key[row]``."""
    return listed(values, torch.searchsorted(keys, key), torch.searchsorted(keys, key, right=True))


def dated_key(observed: Tensor, t: Tensor, s: Tensor, r: Tensor, num_entities: int, num_labels: int) -> Tensor:
    """(s, r) at time ``t``, for each row, as one number ascending in (t, s, r); -1 at a time not ``observed`` (T,)."""
    j = torch.searchsorted(observed, t)  # (B,)
    known = torch.cat([observed, observed.new_full((1,), torch.inf)]).index_select(0, j) == t
    return torch.where(known, (j * num_entities + s) * num_labels + r, -1)

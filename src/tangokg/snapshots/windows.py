"""The one window builder: which snapshots may be used for which target time, and the queries asked at it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tangokg.snapshots.timeline import Timeline


@dataclass(frozen=True, eq=False)
class Windows:
    """Several target times, each with the number of leading snapshots of the timeline that are known then.

    A model may look at snapshots ``0 .. known[w] - 1`` and at nothing else; ``t[known[w] - 1] < t[w]`` always.
    Single step, horizon, multi-step and a forecast at any date differ in these two columns alone.
    """

    known: Tensor  # (W,) int64
    t: Tensor  # (W,) float64, in the data's own unit

    def __len__(self) -> int:
        return len(self.t)


@dataclass(frozen=True, eq=False)
class Queries:
    """Questions (s, r, ?) asked at the target time of a window; grouped by window, ``window`` ascending."""

    window: Tensor  # (B,) int64
    s: Tensor  # (B,)
    r: Tensor  # (B,) of 2R: r + R asks for the subject
    answer: Tensor  # (B,) the true object; what training learns and ranking looks for

    def __len__(self) -> int:
        return len(self.s)

    def select(self, rows: Tensor | slice) -> Queries:
        return Queries(self.window[rows], self.s[rows], self.r[rows], self.answer[rows])


def windows_at(timeline: Timeline, target: Tensor, horizon: float = 0.0) -> Windows:
    """One window for each target snapshot; facts later than ``t - horizon`` are not known (0: all before ``t``).

    With ``horizon`` = ΔT > 0 the history ends at the last snapshot at or before ``t - ΔT``, and the last interval runs
    from there to ``t``.
    """
    t = timeline.t.index_select(0, target)
    if horizon:
        known = torch.searchsorted(timeline.t, t - horizon, right=True)
        known = torch.minimum(known, target)
    else:
        known = target
    return Windows(known, t)


def queries_at(timeline: Timeline, target: Tensor) -> Queries:
    """The edges of the target snapshots, both directions, as queries with their answers."""
    rows, window = timeline.edges_of(target)
    pick = torch.Tensor.index_select
    return Queries(window, pick(timeline.s, 0, rows), pick(timeline.r, 0, rows), pick(timeline.o, 0, rows))

"""The one window builder: the snapshots known at each target time, and the queries asked then."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from tangokg.quads.values import Ids
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

    @cached_property
    def known_on_host(self) -> Ids:
        """(W,) the same as ``known``; copied from a GPU unless :func:`windows_at` knew it already."""
        return self.known.cpu().numpy()

    def select(self, rows: slice) -> Windows:
        windows = Windows(self.known[rows], self.t[rows])
        vars(windows)["known_on_host"] = self.known_on_host[rows]
        return windows


@dataclass(frozen=True, eq=False)
class Queries:
    """Questions (s, r, ?) asked at the target time of a window; grouped by window, ``window`` ascending."""

    window: Tensor  # (B,) int64
    s: Tensor  # (B,)
    r: Tensor  # (B,) of 2R: r + R asks for the subject
    answer: Tensor  # (B,) the true object; what training learns and ranking looks for

    def __len__(self) -> int:
        return len(self.s)

    @cached_property
    def sizes(self) -> list[int]:
        """How many queries each window has, up to the last with any; computed unless :func:`queries_at` knew it."""
        ends = torch.arange(int(self.window[-1]) + 2 if len(self) else 1, device=self.window.device)
        return torch.searchsorted(self.window, ends).diff().tolist()

    def distinct(self) -> tuple[Queries, Tensor]:
        """Each (window, s, r) once, with any of its answers, and the row (B,) of each query among them."""
        labels = self.r.max() + 1 if len(self) else 1
        entities = self.s.max() + 1 if len(self) else 1
        key, row = torch.unique((self.window * entities + self.s) * labels + self.r, return_inverse=True)
        first = torch.empty_like(key).scatter_(0, row, torch.arange(len(row), device=row.device))
        return self.select(first), row

    def select(self, rows: Tensor | slice) -> Queries:
        return Queries(self.window[rows], self.s[rows], self.r[rows], self.answer[rows])


def windows_at(timeline: Timeline, target: Tensor, horizon: float = 0.0) -> Windows:
    """One window for each target snapshot; facts later than ``t - horizon`` are not known (0: all before ``t``).

    With ``horizon`` = ΔT > 0 the history ends at the last snapshot at or before ``t - ΔT``, and the last interval runs
    from there to ``t``. A ``target`` on the host saves a round trip to the GPU.
    """
    index = target.to(timeline.t.device, non_blocking=True)
    t = timeline.t.index_select(0, index)
    if not horizon:
        windows = Windows(index, t)
        vars(windows)["known_on_host"] = target.cpu().numpy()
        return windows
    known = torch.searchsorted(timeline.t, t - horizon, right=True)
    return Windows(torch.minimum(known, index), t)


def windows_ahead(timeline: Timeline, target: Tensor, ahead: Tensor) -> Windows:
    """One window for each target snapshot on the host, whose last ``ahead`` snapshots before it are not known."""
    known = (target - ahead).clamp(min=1)
    windows = Windows(known.to(timeline.t.device, non_blocking=True), windows_at(timeline, target).t)
    vars(windows)["known_on_host"] = known.numpy()
    return windows


def draw_windows(timeline: Timeline, target: Tensor, horizons: int, generator: torch.Generator) -> Windows:
    """Windows of target snapshots on the host: about half of them one step ahead, the others up to ``horizons``."""
    if horizons == 1:
        return windows_at(timeline, target)
    ahead = torch.randint(0, horizons, target.shape, generator=generator)
    return windows_ahead(timeline, target, ahead * torch.randint(0, 2, target.shape, generator=generator))


def queries_of(timeline: Timeline, rows: Tensor) -> tuple[Windows, Queries]:
    """Some edges of a timeline as queries, grouped by snapshot, and the windows that they are asked at.

    ``rows`` (B,) are row numbers of its edges, on the host, so that a GPU is not waited for.
    """
    rows = rows.sort().values
    offset = torch.from_numpy(timeline.num_edges).cumsum(0)
    target, window = torch.unique_consecutive(torch.searchsorted(offset, rows, right=True), return_inverse=True)
    index, window = (ids.to(timeline.t.device, non_blocking=True) for ids in (rows, window))
    s, r, o = (column.index_select(0, index) for column in (timeline.s, timeline.r, timeline.o))
    return windows_at(timeline, target), Queries(window, s, r, o)


def queries_at(timeline: Timeline, target: Tensor) -> Queries:
    """The edges of the target snapshots, both directions, as queries with their answers."""
    index = target.cpu().numpy()
    ends, sizes = timeline.num_edges.cumsum()[index], timeline.num_edges[index]
    rows = [slice(end - size, end) for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)]
    s, r, o = (
        torch.cat([column[:0], *(column[part] for part in rows)]) for column in (timeline.s, timeline.r, timeline.o)
    )
    lengths = torch.from_numpy(sizes).to(s.device, non_blocking=True)
    window = torch.repeat_interleave(lengths, output_size=len(s))
    queries = Queries(window, s, r, o)
    vars(queries)["sizes"] = sizes.tolist()
    return queries

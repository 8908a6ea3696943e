"""The snapshots in which each key occurs: counts and ages at any time by binary search."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from tangokg.history.occurrences import occurrences_of
from tangokg.snapshots.timeline import Timeline

FAR = 1e6  # usual gaps: longer than any history


@dataclass(frozen=True, eq=False)
class Series:
    """Distinct (key, snapshot), sorted: the past of a key is a run of rows, and its known part begins that run.

    All times are in usual gaps between snapshots.
    """

    key: Tensor  # (K,) ascending
    first: Tensor  # (K + 1,) the row where each key begins
    place: Tensor  # (E,) ascending: index of the key * T + snapshot
    j: Tensor  # (E,) the snapshot
    t: Tensor  # (E,) its time
    squares: Tensor  # (E + 1,) squared gaps to the row before within a key, summed up to each row
    least: Tensor  # (E,) the least gap of its key so far; FAR at the first
    times: Tensor  # (T,) of all snapshots

    def find(self, key: Tensor) -> Tensor:
        """(M,) the index of each key, -1 where it never occurs."""
        if not len(self.key):
            return torch.full_like(key, -1)
        at = torch.searchsorted(self.key, key).clamp(max=len(self.key) - 1)
        return torch.where(self.key[at] == key, at, -1)

    def until(self, index: Tensor, snapshot: Tensor) -> Tensor:
        """The row after the last one of each key before ``snapshot``, in their common shape; of no key, 0."""
        end = torch.searchsorted(self.place, index.clamp(min=0) * len(self.times) + snapshot.clamp(min=0))
        return torch.where(index < 0, 0, end)

    def within(self, index: Tensor, begin: Tensor, end: Tensor) -> Tensor:
        """(M,) of 0 and 1: whether each key occurs in the snapshots ``begin .. end - 1``."""
        return (self.until(index, end) > self.until(index, begin)).double()

    def at(self, column: Tensor, rows: Tensor) -> Tensor:
        """Some rows of a column (E,); anything where the series is empty or ended."""
        return column.index_select(0, rows.clamp(max=len(column) - 1)) if len(column) else column.new_zeros(len(rows))

    def start(self, index: Tensor) -> Tensor:
        return torch.where(index < 0, 0, self.first[index.clamp(min=0)])


@dataclass(frozen=True, eq=False)
class SeriesStatistics:
    """Statistics of some keys of a series, each from the snapshots ``0 .. known - 1`` and for its time ``t``."""

    count: Tensor  # (M,) int64
    recent: Tensor  # (M, W) int64, in the last snapshots, as many as each window has
    age: Tensor  # (M,) since the last; FAR where there is none
    since_first: Tensor  # (M,) likewise
    last_gap: Tensor  # (M,) between the last two; 0 with fewer
    mean_gap: Tensor  # (M,) likewise
    least_gap: Tensor  # (M,) FAR with fewer
    spread: Tensor  # (M,) standard deviation of the gaps over their mean
    last: Tensor  # (M,) the snapshot of the last; -1 where there is none


def usual_gap(t: Tensor) -> float:
    """The median gap between snapshots; 1 where there are none."""
    return float(t.diff().median()) if len(t) > 1 else 1.0


def make_series(key: Tensor, j: Tensor, times: Tensor) -> Series:
    """Sort keys (E,) that occur in the snapshots ``j`` (E,), each (key, snapshot) once."""
    distinct, of = torch.unique(key, return_inverse=True)
    place = torch.unique(of * max(len(times), 1) + j)
    index, j = place // max(len(times), 1), place % max(len(times), 1)
    t = times[j]
    gap = t.diff(prepend=t[:1])
    fresh = torch.ones_like(gap, dtype=torch.bool)
    fresh[1:] = index[1:] != index[:-1]
    first = torch.searchsorted(index, torch.arange(len(distinct) + 1))
    squares = torch.cat([gap.new_zeros(1), (gap * gap).masked_fill(fresh, 0.0).cumsum(0)])
    longest = float(times[-1] - times[0]) + 1.0 if len(times) else 1.0
    shift = 2 * longest * index  # shifted lower for each key, so that the minimum restarts there
    least = torch.cummin(gap.masked_fill(fresh, longest) - shift, 0).values + shift if len(gap) else gap
    return Series(distinct, first, place, j, t, squares, least.masked_fill(least >= longest, FAR), times)


def tell(series: Series, key: Tensor, known: Tensor, t: Tensor, windows: tuple[int, ...]) -> SeriesStatistics:
    """Counts, ages and regularity of each key; ``known`` (M,) snapshots, ``t`` (M,) in usual gaps."""
    index = series.find(key)
    start, end = series.start(index), series.until(index, known)
    count = end - start
    recent = end[:, None] - series.until(index[:, None], known[:, None] - known.new_tensor(windows))
    never, once = count <= 0, count <= 1
    rows, gaps = (end - 1).clamp(min=0), (count - 1).clamp(min=1)
    last, first, previous = (series.at(series.t, row) for row in (rows, start, (end - 2).clamp(min=0)))
    mean = ((last - first) / gaps).masked_fill(once, 0.0)
    total = series.squares[end] - series.squares[(start + 1).clamp(max=len(series.t))]
    variance = (total.masked_fill(once, 0.0) / gaps - mean * mean).clamp(min=0)
    return SeriesStatistics(
        count,
        recent,
        (t - last).masked_fill(never, FAR),
        (t - first).masked_fill(never, FAR),
        (last - previous).masked_fill(once, 0.0),
        mean,
        series.at(series.least, rows).masked_fill(once, FAR),
        (variance.sqrt() / mean.clamp(min=1e-9)).masked_fill(once, 0.0),
        series.at(series.j, rows).masked_fill(never, -1),
    )


@dataclass(frozen=True, eq=False)
class Pasts:
    """The series of a timeline from which chances are computed."""

    pair: Series  # key s * 2R + r
    subject: Series  # key s, in either role, for the reciprocal edges are there
    fact: Series  # key: the number of the fact in the occurrences of the timeline
    objects: Tensor  # (E + 1,) objects of a pair's row, summed up to each
    activity: Tensor  # (T + 1, 7) pairs active in the snapshots before each, by time modulo 7; a day has a weekday
    steps: Tensor  # (T + 1, 7) the number of these snapshots
    num_labels: int
    gap: float
    times: Tensor  # (T,) in usual gaps


def pasts_of(timeline: Timeline, gap: float) -> Pasts:
    """The series of a timeline, whose usual gap is ``gap``, derived once."""
    return timeline.derive(_make_pasts, gap)


def edges_about(timeline: Timeline, pair: Tensor) -> Tensor:
    """The rows, ascending, of the edges that determine :class:`Pasts` for the pairs s * 2R + r.

    They are those of (s, r) in either role, and the first of each subject at each time.
    """
    labels = 2 * timeline.num_relations
    other = pair - pair % labels + (pair + timeline.num_relations) % labels
    wanted = torch.isin(timeline.s * labels + timeline.r, torch.cat([pair, other]))
    j = torch.repeat_interleave(timeline.offset.diff())
    wanted[:1] = True
    wanted[1:] |= (timeline.s[1:] != timeline.s[:-1]) | (j[1:] != j[:-1])
    return wanted.nonzero()[:, 0]


def active_pairs(timeline: Timeline) -> Tensor | None:
    """(T,) how many pairs (s, r) are active in each snapshot, where it is given; None: those of the timeline count."""
    return None


def _make_pasts(timeline: Timeline, gap: float) -> Pasts:
    timeline = timeline.to(torch.device("cpu"))
    labels, times = 2 * timeline.num_relations, timeline.t / gap
    j = torch.repeat_interleave(timeline.offset.diff())
    key = timeline.s * labels + timeline.r
    pair, subject = make_series(key, j, times), make_series(timeline.s, j, times)
    row = torch.searchsorted(pair.place, pair.find(key) * len(times) + j)  # (E,) where each edge counts
    objects = torch.bincount(row, minlength=len(pair.place)).cumsum(0)
    facts = occurrences_of(timeline)
    number = torch.zeros_like(facts.j).index_fill_(0, facts.first, 1).cumsum(0) - 1
    phase = timeline.t.long() % 7
    counts = timeline.derive(active_pairs)
    active = (torch.bincount(pair.j, minlength=len(times)) if counts is None else counts).double()
    table = torch.zeros(len(times) + 1, 7, dtype=torch.float64)
    activity, steps = table.clone(), table.clone()
    activity[torch.arange(1, len(times) + 1), phase] = active
    steps[torch.arange(1, len(times) + 1), phase] = 1.0
    return Pasts(
        pair,
        subject,
        make_series(number, facts.j, times),
        torch.cat([objects.new_zeros(1), objects]),
        activity.cumsum(0),
        steps.cumsum(0),
        labels,
        gap,
        times,
    )


def recent_pairs(timeline: Timeline, known: Tensor, t: Tensor, recent: float) -> tuple[Tensor, Tensor]:
    """The pairs with a fact in the known snapshots no more than ``recent`` (data's unit) before ``t``.

    ``(window, pair)``: the number of each window of ``known`` (W,), ``t`` (W,), and s * 2R + r; in ascending order.
    """
    timeline = timeline.to(torch.device("cpu"))
    labels = 2 * timeline.num_relations
    base = max(timeline.num_entities * labels, 1)
    first = torch.minimum(torch.searchsorted(timeline.t, t - recent), known)

    @lru_cache(maxsize=1)  # neighbours often look at the same snapshots
    def distinct(begin: int, end: int) -> Tensor:
        pairs: Tensor = torch.unique(timeline.s[begin:end] * labels + timeline.r[begin:end])
        return pairs

    bounds = zip(timeline.offset[first].tolist(), timeline.offset[known].tolist(), strict=True)
    keys = [w * base + distinct(begin, end) for w, (begin, end) in enumerate(bounds)]
    key = torch.cat(keys) if keys else torch.zeros(0, dtype=torch.int64)
    return key // base, key % base

"""Models without parameters that count what happened before: the least that a learned model has to beat."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from tangokg.models.protocol import Model
from tangokg.models.sparse import sparse_scores
from tangokg.snapshots.ranges import expand
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows


@dataclass(frozen=True, eq=False)
class Occurrences:
    """The edges of a timeline sorted by (s, r), then o, then time: a fact's past is one run of rows.

    Fact f is a distinct (s, r, o); facts with the same (s, r) are neighbours.
    """

    pair: Tensor  # (F,) s * 2R + r of each fact, ascending
    o: Tensor  # (F,)
    first: Tensor  # (F,) the row of its first occurrence
    key: Tensor  # (E,) (fact, j) as one ascending number
    j: Tensor  # (E,) the snapshot of each occurrence
    t: Tensor  # (T,)
    num_entities: int
    num_labels: int  # 2R


@dataclass(frozen=True, eq=False)
class Past:
    """Objects that stood with the (s, r) of a row in the snapshots known to it, each once for a row."""

    row: Tensor  # (P,)
    o: Tensor  # (P,)
    count: Tensor  # (P,) in how many known snapshots
    last: Tensor  # (P,) the index of the latest of them
    at: Tensor  # (P,) the row of the latest occurrence


@dataclass(frozen=True, eq=False)
class Counted:
    """What a counter knows at its windows."""

    occurrences: Occurrences
    windows: Windows


def sort_occurrences(timeline: Timeline) -> Occurrences:
    """Sort all edges of a timeline; once for a timeline, see :func:`occurrences_of`."""
    labels = 2 * timeline.num_relations
    order = torch.argsort(timeline.o, stable=True)  # edges come in the order of time, and stable sorts keep it
    pair = timeline.s * labels + timeline.r
    order = order[torch.argsort(pair[order], stable=True)]
    pair, o = pair[order], timeline.o[order]
    j = torch.repeat_interleave(timeline.offset.diff())[order]
    fresh = torch.ones_like(o, dtype=torch.bool)
    fresh[1:] = (pair[1:] != pair[:-1]) | (o[1:] != o[:-1])
    fact = fresh.cumsum(0) - 1  # (E,)
    key = fact * len(timeline) + j
    first = fresh.nonzero()[:, 0]
    return Occurrences(pair[first], o[first], first, key, j, timeline.t, timeline.num_entities, labels)


def past_of(occurrences: Occurrences, pair: Tensor, known: Tensor) -> Past:
    """The past of each row: of ``pair`` (U,) in the snapshots ``0 .. known - 1`` (U,)."""
    start = torch.searchsorted(occurrences.pair, pair)
    fact, row = expand(start, torch.searchsorted(occurrences.pair, pair, right=True))
    end = torch.searchsorted(occurrences.key, fact * len(occurrences.t) + known.index_select(0, row))
    count = end - occurrences.first.index_select(0, fact)
    seen = count > 0  # the others occur only later: they must not be told from those that never do
    at = end[seen] - 1
    last = occurrences.j.index_select(0, at)
    return Past(row[seen], occurrences.o.index_select(0, fact[seen]), count[seen], last, at)


def shares(scores: Tensor) -> Tensor:
    """Scores (B, N) as shares of their sum; all candidates alike where nothing was seen."""
    total = scores.sum(1, keepdim=True)  # (B, 1)
    return torch.where(total > 0, scores / total, 1 / scores.shape[1])


_OCCURRENCES: WeakKeyDictionary[Timeline, Occurrences] = WeakKeyDictionary()  # derived; lives as long as the timeline


def occurrences_of(timeline: Timeline) -> Occurrences:
    """The sorted edges of a timeline, derived once."""
    if timeline not in _OCCURRENCES:
        with torch.inference_mode(False):  # what outlives this call must be of use in training as well
            _OCCURRENCES[timeline] = sort_occurrences(timeline)
    return _OCCURRENCES[timeline]


class Counter(Model):
    """A value for each object that stood with (s, r) before, 0 for all others (docs/maths.md, row M22)."""

    def encode(self, timeline: Timeline, windows: Windows) -> Counted:
        return Counted(occurrences_of(timeline), windows)

    def score(self, encoded: Counted, queries: Queries) -> Tensor:
        occurrences, windows = encoded.occurrences, encoded.windows
        base = occurrences.num_entities * occurrences.num_labels
        pair = queries.s * occurrences.num_labels + queries.r
        asked, of = torch.unique(queries.window * base + pair, return_inverse=True)  # many queries share (w, s, r)
        w = asked // base  # (U,)
        past = past_of(occurrences, asked % base, windows.known.index_select(0, w))
        w = w.index_select(0, past.row)  # (P,)
        value = self.value(past, w, windows, occurrences.t)
        scores = sparse_scores(past.row, past.o, value, len(asked), occurrences.num_entities)  # (U, N)
        return scores.index_select(0, of)  # (B, N)

    @abstractmethod
    def value(self, past: Past, w: Tensor, windows: Windows, times: Tensor) -> Tensor:
        """Score (P,) of each object of the past; ``w`` (P,) is its window, ``times`` (T,) those of all snapshots."""

    def probabilities(self, scores: Tensor) -> Tensor:
        return shares(scores)


class CopyLast(Counter):
    """1 for the objects of (s, r) in the last known snapshot."""

    def value(self, past: Past, w: Tensor, windows: Windows, times: Tensor) -> Tensor:
        return (past.last == windows.known.index_select(0, w) - 1).float()


class Frequency(Counter):
    """The number of known snapshots that hold (s, r, o)."""

    def value(self, past: Past, w: Tensor, windows: Windows, times: Tensor) -> Tensor:
        return past.count.float()


@dataclass(frozen=True)
class RecurrenceSettings:
    decay: float = 0.1  # a fact loses half its score in 1 / decay units of the data's time


class Recurrence(Counter):
    r"""The strict part of the recurrency baseline: the later a fact was last seen, the likelier it is.

    .. math:: x_o = 2^{\lambda (t_{last}(s, r, o) - t)}

    In float64: in single precision a fact of a few years ago would tie with one that never happened.
    """

    def __init__(self, settings: RecurrenceSettings | None = None) -> None:
        super().__init__()
        self.settings = settings or RecurrenceSettings()

    def value(self, past: Past, w: Tensor, windows: Windows, times: Tensor) -> Tensor:
        age = windows.t[:, None] - times  # (W, T) float64
        table = torch.exp2(-self.settings.decay * age).clamp(min=torch.finfo(age.dtype).tiny)
        return table[w, past.last]  # (P,); exp2 of P equal ages can differ in the last bit, and ties would be lost


COUNTERS: dict[str, type[Counter]] = {"copy-last": CopyLast, "frequency": Frequency, "recurrence": Recurrence}

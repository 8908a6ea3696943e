"""Models without parameters that count earlier facts: the baselines that a learned model must beat."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from tangokg.history import Occurrences, Past, occurrences_of, past_of
from tangokg.models.protocol import Model, Sight
from tangokg.models.sparse import sparse_scores
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows


@dataclass(frozen=True, eq=False)
class Encoded:
    """What a counter knows at its windows."""

    occurrences: Occurrences
    windows: Windows


def shares(scores: Tensor) -> Tensor:
    """Scores (B, N) as shares of their sum; uniform if nothing was seen."""
    total = scores.sum(1, keepdim=True)  # (B, 1)
    return torch.where(total > 0, scores / total, 1 / scores.shape[1])


class Counter(Model):
    """A value for each object that stood with (s, r) before, 0 for all others (docs/maths.md, row M22)."""

    def encode(self, timeline: Timeline, windows: Windows) -> Encoded:
        return Encoded(occurrences_of(timeline), windows)

    def score(self, encoded: Encoded, queries: Queries) -> Tensor:
        occurrences, windows = encoded.occurrences, encoded.windows
        base = occurrences.num_entities * occurrences.num_labels
        pair = queries.s * occurrences.num_labels + queries.r
        distinct, of = torch.unique(queries.window * base + pair, return_inverse=True)  # many queries share (w, s, r)
        w = distinct // base  # (U,)
        past = past_of(occurrences, distinct % base, windows.known.index_select(0, w))
        w = w.index_select(0, past.row)  # (P,)
        value = self.value(past, w, windows, occurrences.t)
        scores = sparse_scores(past.row, past.o, value, len(distinct), occurrences.num_entities)  # (U, N)
        return scores.index_select(0, of)  # (B, N)

    def sight(self) -> Sight:
        return Sight()

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

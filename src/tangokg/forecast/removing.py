"""The facts that may support an answer, the facts visible to a question, and the history without some facts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tangokg.history.activity import EventStatistics
from tangokg.history.totals import EventTotals, total_events
from tangokg.quads.values import Quadruples
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import Windows

BETWEEN, OWN, PATHS = 20, 10, 5  # the last facts of both, of the subject, and the last paths of two between them
LAST = 64  # facts of each partner of a subject that a question can see; no model looks at more than some of them

Fact = tuple[int, int, int, int]  # s, r, o, t
History = tuple[Timeline, int]  # and how many of its snapshots are known


def considered(known: Quadruples, a: int, b: int) -> list[Fact]:
    """The facts that may support b as an answer for a; ``known`` are in time order.

    They are the last facts between the two in either direction, the last facts of a, and both facts of the last paths
    a - x - b, a path being as old as the older of its facts.
    """
    ends = (known.s == a) | (known.o == a), (known.s == b) | (known.o == b)
    between = ((known.s == a) & (known.o == b)) | ((known.s == b) & (known.o == a))
    rows = [np.flatnonzero(between)[-BETWEEN:], np.flatnonzero(ends[0])[-OWN:]]
    last = [_last_with(known, end, mask) for end, mask in zip((a, b), ends, strict=True)]
    common = [x for x in last[0].keys() & last[1].keys() if x not in (a, b)]
    common.sort(key=lambda x: min(last[0][x], last[1][x]), reverse=True)
    rows.append(np.array([side[x] for x in common[:PATHS] for side in last], dtype=np.int64))
    columns = (column[np.concatenate(rows)].tolist() for column in (known.s, known.r, known.o, known.t))
    return list(dict.fromkeys(zip(*columns, strict=True)))


def _last_with(known: Quadruples, end: int, mask: NDArray[np.bool_]) -> dict[int, int]:
    """Entity -> the row of its last fact with ``end``; ``mask`` selects the facts of ``end``."""
    rows = np.flatnonzero(mask)
    other = np.where(known.s[rows] == end, known.o[rows], known.s[rows])
    return dict(zip(other.tolist(), rows.tolist(), strict=True))  # the later replaces the earlier


def history_without(known: Quadruples, removed: Iterable[Fact] = ()) -> History:
    """The history as if some facts had never happened, and how many of its snapshots are known.

    All recomputation goes through this function. If no fact is left, nothing of the history is known.
    """
    gone = np.zeros(len(known), dtype=bool)
    for fact in removed:
        gone |= rows_of(known, fact)
    timeline = build_timeline(known if gone.all() or not gone.any() else known.select(~gone))
    return timeline, 0 if gone.all() else len(timeline)


@dataclass(frozen=True, eq=False)
class AllEvents:
    """The events of every entity before a step, as if some facts had never happened, for models that count events.

    The totals are computed once; those for the ends of removed facts are recomputed from the remaining facts.
    """

    edges: tuple[NDArray[Any], ...]  # s, t, back, r, o
    num_relations: int
    totals: dict[tuple[bool, bool, float], EventTotals] = field(default_factory=dict)

    @classmethod
    def of(cls, timeline: Timeline, known: int) -> AllEvents:
        """Of the first ``known`` snapshots."""
        end = int(timeline.offset[known])
        s, label, o = (column[:end].cpu().numpy() for column in (timeline.s, timeline.r, timeline.o))
        t = timeline.t.long().cpu().numpy()[np.repeat(np.arange(known), timeline.num_edges[:known])]
        return cls((s, t, label // timeline.num_relations, label % timeline.num_relations, o), timeline.num_relations)

    def without(self, removed: Iterable[Fact]) -> EventStatistics:
        return partial(self._statistics, list(removed))

    def _statistics(
        self,
        removed: list[Fact],
        windows: Windows,
        window: Tensor,
        entity: Tensor,
        label: Tensor | None,
        gap: float,
        dtype: torch.dtype,
        starts: bool,
    ) -> Tensor:
        key, t = (label is not None, starts, gap), windows.t.index_select(0, window)
        if key not in self.totals:
            self.totals[key] = total_events(self.edges, *key)
        result = self.totals[key].statistics(entity, label, t, self.num_relations, dtype)
        ends = sorted({end for s, _, o, _ in removed for end in (s, o)})
        rows = torch.isin(entity, torch.tensor(ends, dtype=entity.dtype, device=entity.device)).nonzero()[:, 0]
        if not len(rows):
            return result
        left = total_events(self._left(removed, ends), *key)
        labels = None if label is None else label[rows]
        return result.index_copy(0, rows, left.statistics(entity[rows], labels, t[rows], self.num_relations, dtype))

    def _left(self, removed: list[Fact], ends: list[int]) -> tuple[NDArray[Any], ...]:
        """The edges of some entities without those of removed facts."""
        mask = np.isin(self.edges[0], ends)
        s, t, back, r, o = (column[mask] for column in self.edges)
        gone = np.zeros(len(s), dtype=bool)
        for a, relation, b, at in removed:
            this = (t == at) & (r == relation)
            gone |= this & np.where(back == 0, (s == a) & (o == b), (s == b) & (o == a))
        return tuple(column[~gone] for column in (s, t, back, r, o))


def rows_of(known: Quadruples, fact: Fact) -> NDArray[np.bool_]:
    """(F,) which rows are this fact; it may have been reported more than once."""
    s, r, o, t = fact
    rows: NDArray[np.bool_] = (known.s == s) & (known.r == r) & (known.o == o) & (known.t == t)
    return rows


def within_sight(
    known: Quadruples, subjects: Sequence[int], facts: Sequence[Fact], history: int, seen: NDArray[np.bool_]
) -> Quadruples:
    """All facts of some subjects, the last facts of their partners, the last snapshots, and all facts of newcomers.

    ``facts`` may be removed later, so one more snapshot is included for each that would be empty without them.
    """
    mask = np.isin(known.s, subjects) | np.isin(known.o, subjects)
    partners = np.unique(np.concatenate([known.s[mask], known.o[mask]]))
    keep = mask | _last_of(known, partners)
    if history:
        times = np.unique(known.t)
        keep |= known.t >= times[-min(len(times), history + 1 + _emptied(known, facts))]
    new = np.ones(known.vocab.num_entities, dtype=bool)
    new[: len(seen)] = ~seen
    return known.select(keep | new[known.s] | new[known.o])


def _emptied(known: Quadruples, facts: Sequence[Fact]) -> int:
    """The number of snapshots that hold no facts but these."""
    number = 0
    for t in {t for *_, t in facts}:
        rows = slice(*(int(np.searchsorted(known.t, t, side)) for side in ("left", "right")))
        snapshot = zip(known.s[rows].tolist(), known.r[rows].tolist(), known.o[rows].tolist(), strict=True)
        number += {fact[:3] for fact in facts if fact[3] == t} >= set(snapshot)
    return number


def _last_of(known: Quadruples, entities: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(F,) a mask of the last facts of each entity; ``known`` are in time order."""
    entity, row = (np.concatenate(both) for both in ((known.s, known.o), [np.arange(len(known))] * 2))
    wanted = np.isin(entity, entities)
    entity, row = entity[wanted], row[wanted]
    order = np.lexsort((row, entity))
    entity, row = entity[order], row[order]
    end = np.searchsorted(entity, entity, side="right")
    mask = np.zeros(len(known), dtype=bool)
    mask[row[end - np.arange(len(row)) <= LAST]] = True
    return mask

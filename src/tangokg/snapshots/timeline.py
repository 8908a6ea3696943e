"""Quadruples -> one graph for each observed time, and what changed between neighbours (docs/maths.md, rows M4, M5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from tangokg.quads.values import Ids, Quadruples
from tangokg.quads.vocabulary import Vocabulary

Derived = TypeVar("Derived")


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The edges that hold at one time, reciprocal ones included: three id columns of length E."""

    s: Tensor
    r: Tensor
    o: Tensor
    t: float


@dataclass(frozen=True, eq=False)
class Timeline:
    r"""All snapshots of a data set in time order, each a *set* of edges with its reciprocals.

    Edges of snapshot j are the rows ``offset[j] .. offset[j + 1]`` of ``s, r, o``; its transition tensor

    .. math:: T(t_j) = A(t_j) - A(t_{j-1}), \qquad T(t_0) = 0

    is the rows ``change_offset[j] .. change_offset[j + 1]`` of ``change_s, change_r, change_o, change_sign``
    (+1 formed, -1 dissolved). A relation id r stands for (s, r, o), r + R for the reciprocal (o, r + R, s).
    """

    t: Tensor  # (T,) float64, ascending
    s: Tensor  # (E,) int64, as r and o
    r: Tensor
    o: Tensor
    offset: Tensor  # (T + 1,)
    change_s: Tensor  # (C,) int64, as change_r and change_o
    change_r: Tensor
    change_o: Tensor
    change_sign: Tensor  # (C,) int64 of +1 and -1
    change_offset: Tensor  # (T + 1,)
    num_entities: int
    num_relations: int  # R, without reciprocals: edge labels run to 2R
    vocab: Vocabulary  # for models that look at names; entities beyond it have none

    def __len__(self) -> int:
        return len(self.t)

    def __getitem__(self, j: int) -> Snapshot:
        rows = slice(int(self.offset[j]), int(self.offset[j + 1]))
        return Snapshot(self.s[rows], self.r[rows], self.o[rows], float(self.t[j]))

    def transition(self, j: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """``(s, r, o, sign)`` of the entries of T(t_j) that are not zero."""
        rows = slice(int(self.change_offset[j]), int(self.change_offset[j + 1]))
        return self.change_s[rows], self.change_r[rows], self.change_o[rows], self.change_sign[rows]

    @property
    def device(self) -> torch.device:
        return self.t.device

    def before(self, t: float) -> int:
        """How many snapshots lie strictly before ``t``: what may be known when ``t`` is forecast."""
        return int(torch.searchsorted(self.t, torch.tensor(t, dtype=self.t.dtype, device=self.t.device)))

    def leading(self, number: int) -> Timeline:
        """The first ``number`` snapshots as a view: no column is copied; derived values are computed anew."""
        assert not self._given, "what was given holds for the whole history"
        edges, changes = int(self.offset[number]), int(self.change_offset[number])
        ends = {"t": number, "offset": number + 1, "change_offset": number + 1} | dict.fromkeys("sro", edges)
        ends |= dict.fromkeys(("change_s", "change_r", "change_o", "change_sign"), changes)
        cut: dict[str, Any] = {name: getattr(self, name)[:end] for name, end in ends.items()}
        return replace(self, **cut)

    def only(self, rows: Tensor) -> Timeline:
        """Some edges, by their rows in ascending order, on the same times; values set by :meth:`give` stay."""
        columns = {name: getattr(self, name).index_select(0, rows) for name in "sro"}
        timeline = replace(self, offset=torch.searchsorted(rows, self.offset), **columns)
        timeline._given.update(self._given)
        return timeline

    @property
    def is_part(self) -> bool:
        """Whether these edges are part of a history that has set values by :meth:`give`."""
        return bool(self._given)

    @cached_property
    def num_edges(self) -> Ids:
        """(T,) edges of each snapshot, on the host."""
        return self.offset.diff().cpu().numpy()

    @cached_property
    def _derived(self) -> dict[Any, Any]:
        return {}

    @cached_property
    def _given(self) -> dict[Any, Any]:
        return {}

    def give(self, build: Callable[..., Any], result: Any) -> Timeline:
        """Set what :meth:`derive` returns for ``build`` on part of a history, if it depends on the whole history."""
        self._given[build] = result
        return self

    def derive(self, build: Callable[..., Derived], *options: Any) -> Derived:
        """``build(timeline, *options)``, computed once and kept with the timeline: the one cache."""
        key = (build, *options)
        if build in self._given:
            value: Derived = self._given[build]
            return value
        if key not in self._derived:
            with torch.inference_mode(False), torch.no_grad():  # usable in training, even if evaluation came first
                self._derived[key] = build(self, *options)
        result: Derived = self._derived[key]
        return result

    def to(self, device: torch.device) -> Timeline:
        if self.t.device == device:
            return self
        columns = {f.name: getattr(self, f.name) for f in fields(self)}
        moved: dict[str, Any] = {name: v.to(device) for name, v in columns.items() if isinstance(v, Tensor)}
        timeline = replace(self, **moved)
        timeline._given.update(self._given)
        return timeline


def build_timeline(facts: Quadruples, num_entities: int | None = None, num_relations: int | None = None) -> Timeline:
    """Sort facts into snapshots: repeats dropped, reciprocals added, transitions by a look one snapshot ahead.

    An edge of snapshot j is the 64-bit key ``2 j span + number``, where its number, below ``span``, ascends with
    (s, r, o). In the transition tensor of j it is ``2 j span + number`` if it forms, ``(2 j + 1) span + number`` if it
    dissolves. So one sort of keys orders the edges, and columns exist only at the two ends.
    """
    n = facts.vocab.num_entities if num_entities is None else num_entities
    r_count = facts.vocab.num_relations if num_relations is None else num_relations
    times = torch.from_numpy(np.sort(facts.t)).unique_consecutive().numpy()
    key, change, span, pairs = sort_keys(facts, times, n, r_count)
    starts = np.arange(len(times) + 1) * (2 * span)
    number = torch.from_numpy(np.concatenate([key, change])).remainder_(span)
    pair, o = number // max(n, 1), number % max(n, 1)
    pair, labels = pair if pairs is None else pairs.index_select(0, pair), max(2 * r_count, 1)
    parts = (column.split([len(key), len(change)]) for column in (pair // labels, pair % labels, o))
    (s, change_s), (r, change_r), (o, change_o) = parts
    return Timeline(
        t=torch.from_numpy(times.astype(np.float64)),
        s=s,
        r=r,
        o=o,
        offset=torch.from_numpy(np.searchsorted(key, starts)),
        change_s=change_s,
        change_r=change_r,
        change_o=change_o,
        change_sign=torch.from_numpy(1 - 2 * (change // span % 2)),
        change_offset=torch.from_numpy(np.searchsorted(change, starts)),
        num_entities=n,
        num_relations=r_count,
        vocab=facts.vocab,
    )


def sort_keys(facts: Quadruples, times: Ids, n: int, r_count: int) -> tuple[Ids, Ids, int, Tensor | None]:
    """The keys of all edges and of all entries of the transitions, ascending, each once.

    With them comes the ``span`` of numbers ``(s labels + r) n + o``. Where there are too many of these for 64 bits,
    the pairs (s, r) that occur take the place of all, and come too.
    """
    labels, pairs = 2 * r_count, None
    pair = np.stack([facts.s * labels + facts.r, facts.o * labels + facts.r + r_count])  # (2, facts)
    if (span := max(n * labels * n, 1)) > 2**62 // (len(times) + 2):
        pairs, inverse = np.unique(pair, return_inverse=True)
        pair = inverse.reshape(pair.shape)  # which is flat before NumPy 2
        span = len(pairs) * n
    j = np.searchsorted(times, facts.t)
    keys = pair * n + np.stack([facts.o, facts.s]) + j * (2 * span)
    key = torch.from_numpy(np.sort(keys, axis=None)).unique_consecutive().numpy()
    later = key + 2 * span
    place = np.searchsorted(key, later).clip(max=len(key) - 1)
    stays = key[place] == later  # the edge stands in the next snapshot too
    forms = key >= 2 * span  # nothing at the first snapshot
    forms[place[stays]] = False
    dissolves = ~stays & (later < len(times) * 2 * span)  # nothing after the last
    change = np.sort(np.concatenate([key[forms], later[dissolves] + span]))
    return key, change, span, None if pairs is None else torch.from_numpy(pairs)


def on_times(timeline: Timeline, t: Tensor) -> Timeline:
    """The same snapshots among further times ``t`` (T,), which hold no edges."""
    at = torch.searchsorted(t, timeline.t)
    offsets = []
    for offset in (timeline.offset, timeline.change_offset):
        sizes = torch.zeros(len(t) + 1, dtype=torch.int64).index_copy_(0, at + 1, offset.diff())
        offsets.append(sizes.cumsum(0))
    return replace(timeline, t=t, offset=offsets[0], change_offset=offsets[1])

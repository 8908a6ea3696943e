"""Quadruples -> one graph for each observed time, and what changed between neighbours (docs/maths.md, rows M4, M5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from tangokg.quads.values import Ids, Quadruples
from tangokg.snapshots.keys import change_keys, number_edges, sorted_distinct, steps_of
from tangokg.snapshots.ranges import expand

if TYPE_CHECKING:
    from tangokg.snapshots.rows import ActiveRows, WindowRows

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
    r"""All snapshots of a set, one after the other in time, each a *set* of edges with its reciprocals.

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
        """The first ``number`` snapshots as a view: no column is copied, and what is derived from them is their own."""
        assert not self._given, "what was given holds for the whole history"
        edges, changes = int(self.offset[number]), int(self.change_offset[number])
        ends = {"t": number, "offset": number + 1, "change_offset": number + 1} | dict.fromkeys("sro", edges)
        ends |= dict.fromkeys(("change_s", "change_r", "change_o", "change_sign"), changes)
        cut: dict[str, Any] = {name: getattr(self, name)[:end] for name, end in ends.items()}
        return replace(self, **cut)

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

    def give(self, build: Callable[[Timeline], Any], result: Any) -> Timeline:
        """Set what :meth:`derive` returns for ``build`` on a part of a history, where only the whole can tell."""
        self._given[build] = result
        return self

    def derive(self, build: Callable[..., Derived], *options: Any) -> Derived:
        """``build(timeline, *options)``, computed once and kept with the timeline: the one cache."""
        key = (build, *options)
        if build in self._given:
            given: Derived = self._given[build]
            return given
        if key not in self._derived:
            with torch.inference_mode(False), torch.no_grad():  # usable in training, even if evaluation came first
                self._derived[key] = build(self, *options)
        result: Derived = self._derived[key]
        return result

    @property
    def active(self) -> ActiveRows:
        """The entities that each snapshot touches, numbered, and its edges by these numbers; derived once."""
        from tangokg.snapshots.rows import active_rows

        return self.derive(active_rows)

    def window_rows(self, history: int) -> WindowRows:
        """The entities that windows of ``history`` snapshots touch, numbered; derived once for each length."""
        from tangokg.snapshots.rows import window_rows

        return self.derive(window_rows, history)

    def to(self, device: torch.device) -> Timeline:
        if self.t.device == device:
            return self
        columns = {f.name: getattr(self, f.name) for f in fields(self)}
        moved: dict[str, Any] = {name: v.to(device) for name, v in columns.items() if isinstance(v, Tensor)}
        timeline = replace(self, **moved)
        timeline._given.update(self._given)
        return timeline

    def edges_of(self, snapshot: Tensor, total: int | None = None) -> tuple[Tensor, Tensor]:
        """Edge rows of several snapshots: ``(rows, owner)``, ``owner`` counting within ``snapshot``."""
        return expand(self.offset.index_select(0, snapshot), self.offset.index_select(0, snapshot + 1), total)

    def changes_of(self, snapshot: Tensor) -> tuple[Tensor, Tensor]:
        """Transition rows of several snapshots, as :meth:`edges_of`."""
        return expand(self.change_offset.index_select(0, snapshot), self.change_offset.index_select(0, snapshot + 1))


def build_timeline(facts: Quadruples, num_entities: int | None = None, num_relations: int | None = None) -> Timeline:
    """Sort facts into snapshots: repeats dropped, reciprocals added, transitions by a look one snapshot ahead.

    An edge of snapshot j is the 64-bit key ``2 j span + number``, where its number, below ``span``, ascends with
    (s, r, o). In the transition tensor of j it is ``2 j span + number`` if it forms, ``(2 j + 1) span + number`` if it
    dissolves. So one sort of keys orders the edges, and columns exist only at the two ends.
    """
    n = facts.vocab.num_entities if num_entities is None else num_entities
    r_count = facts.vocab.num_relations if num_relations is None else num_relations
    times, j = steps_of(facts.t)
    numbers, span, columns = number_edges(facts, n, r_count, most=2**62 // (len(times) + 2))
    numbers += (j * (2 * span))[:, None]
    key = sorted_distinct(numbers, j)
    del numbers, j  # what is large goes as soon as it has served
    change = change_keys(key, span, len(times))
    step = np.arange(len(times) + 1) * (2 * span)
    offset, change_offset = np.searchsorted(key, step), np.searchsorted(change, step)
    edge, entry = torch.from_numpy(key), torch.from_numpy(change)
    sign = entry.div(span, rounding_mode="floor").bitwise_and_(1).mul_(-2).add_(1)
    s, r, o = columns(edge.remainder_(2 * span))
    change_s, change_r, change_o = columns(entry.remainder_(span))
    return Timeline(
        t=torch.from_numpy(times.astype(np.float64)),
        s=s,
        r=r,
        o=o,
        offset=torch.from_numpy(offset),
        change_s=change_s,
        change_r=change_r,
        change_o=change_o,
        change_sign=sign,
        change_offset=torch.from_numpy(change_offset),
        num_entities=n,
        num_relations=r_count,
    )


def on_times(timeline: Timeline, t: Tensor) -> Timeline:
    """The same snapshots among further times ``t`` (T,), which hold no edges."""
    at = torch.searchsorted(t, timeline.t)
    offsets = []
    for offset in (timeline.offset, timeline.change_offset):
        sizes = torch.zeros(len(t) + 1, dtype=torch.int64).index_copy_(0, at + 1, offset.diff())
        offsets.append(sizes.cumsum(0))
    return replace(timeline, t=t, offset=offsets[0], change_offset=offsets[1])

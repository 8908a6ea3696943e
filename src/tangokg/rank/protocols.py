"""Evaluation protocols: a protocol is a value that says what is known and what is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from tangokg.errors import ConfigError, UnknownName
from tangokg.rank.ranks import Ranks
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows, queries_at, windows_at


def every(queries: Queries) -> Tensor:
    """Ask all queries: (B,) of true."""
    return torch.ones_like(queries.s, dtype=torch.bool)


def by_filter(ranks: Mapping[str, Ranks], itself: Tensor | None) -> Mapping[str, Ranks]:
    """Report the ranks under each filter, and no others."""
    return ranks


@dataclass(frozen=True, eq=False)
class Protocol:
    """``windows`` says what is known at each target snapshot, ``keep`` which of the queries there are asked.

    ``report`` says which ranks are reported, from those under each filter and, where each query is ranked among a list
    of its own, whether the true object stands in that list ((B,) bool).
    """

    windows: Callable[[Timeline, Tensor], Windows] = windows_at
    keep: Callable[[Queries], Tensor] = every  # (B,) bool
    report: Callable[[Mapping[str, Ranks], Tensor | None], Mapping[str, Ranks]] = by_filter

    def ask(self, timeline: Timeline, target: Tensor) -> tuple[Windows, Queries]:
        """Windows and queries of the ``target`` snapshots (indices into the timeline), on the timeline's device."""
        target = target.to(timeline.t.device)
        queries = queries_at(timeline, target)
        return self.windows(timeline, target), queries.select(self.keep(queries))


SINGLE_STEP = Protocol()  # every fact before the target time is known


def single_step(base: Protocol = SINGLE_STEP) -> Protocol:
    """The queries of ``base``, with every fact before the target time known."""
    return replace(base, windows=windows_at)


def horizon(dt: float, base: Protocol = SINGLE_STEP) -> Protocol:
    """The queries of ``base``, the same for every ``dt`` > 0 (in the data's unit); the history ends at t - dt."""
    if not 0 < dt < torch.inf:
        raise ConfigError(f"horizon: found {dt}, expected a number of time steps above 0, such as 1 or 3.")
    return replace(base, windows=partial(windows_at, horizon=dt))


def multi_step(since: float, base: Protocol = SINGLE_STEP) -> Protocol:
    """The queries of ``base``; no fact at or after the time ``since`` is known, however far ahead is asked.

    With the first time of the test part, nothing after the validation part is known. The last interval of a window runs
    from its last known snapshot to the target time.
    """

    def windows(timeline: Timeline, target: Tensor) -> Windows:
        single = windows_at(timeline, target)
        return Windows(single.known.clamp(max=timeline.before(since)), single.t)

    return replace(base, windows=windows)


def inductive(seen: Tensor, base: Protocol = SINGLE_STEP) -> Protocol:
    """Those queries of ``base`` whose fact has a subject or an object that is not ``seen`` ((N,) bool) in training."""

    def keep(queries: Queries) -> Tensor:
        known = seen.to(queries.s.device)
        newest = int(torch.maximum(queries.s.max(), queries.answer.max())) + 1 if len(queries) else 0
        known = torch.cat([known, known.new_zeros(max(0, newest - len(known)))])  # a name added since was not seen
        unseen = ~(known.index_select(0, queries.s) & known.index_select(0, queries.answer))
        return base.keep(queries) & unseen

    return replace(base, keep=keep)


def tgb(base: Protocol = SINGLE_STEP) -> Protocol:
    """Single step, with the rank of the Temporal Graph Benchmark under the name "tgb" (docs/maths.md, row M64)."""
    return replace(single_step(base), report=tgb_ranks)


def tgb_ranks(ranks: Mapping[str, Ranks], itself: Tensor | None) -> Mapping[str, Ranks]:
    r"""The ranks under each filter, and first that of TGB among the negatives :math:`C` (docs/maths.md, row M64).

    .. math:: \mathrm{rank} = 1 + \tfrac12 (|\{n \in C : x_n > x_a\}| + |\{n \in C : x_n \ge x_a\}|)

    Without lists, :math:`C` are all entities but those that are true at the time of the query: the time-aware rank.
    A list is taken as it is: true facts in it count, and a true object that stands in its own list ties with itself.
    """
    if itself is None:
        return {"tgb": ranks["time-aware"], **ranks}
    raw, tie = ranks["raw"], itself.long()
    return {"tgb": Ranks(raw.optimistic, raw.realistic + tie / 2, raw.pessimistic + tie), **ranks}


def named(name: str) -> Protocol:
    """The protocol of this name, one that needs no number: single-step or tgb."""
    if name not in PLAIN:
        hint = f"Choose one of {', '.join(PLAIN)}, or a value such as tangokg.rank.horizon(3)."
        raise UnknownName("protocol", name, PLAIN, hint=hint)
    return PROTOCOLS[name]()


def restricted(subset: Queries, base: Protocol = SINGLE_STEP) -> Protocol:
    """The queries of ``base`` that are among the distinct ``subset``."""

    def keep(queries: Queries) -> Tensor:
        if len(queries) == len(subset):
            return base.keep(queries)
        rows = torch.cat([torch.stack([q.window, q.s, q.r, q.answer], dim=1) for q in (queries, subset)])
        _, of, count = torch.unique(rows, dim=0, return_inverse=True, return_counts=True)
        both: Tensor = count.index_select(0, of[: len(queries)]) == 2
        return base.keep(queries) & both

    return replace(base, keep=keep)


PROTOCOLS: dict[str, Callable[..., Protocol]] = {
    "single-step": single_step,
    "horizon": horizon,
    "inductive": inductive,
    "multi-step": multi_step,
    "tgb": tgb,
}
PLAIN = ("single-step", "tgb")  # those that need nothing else to be said

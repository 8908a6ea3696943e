"""How often, how lately and how regularly a fact happened before a time (docs/maths.md, row M50)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tangokg.history.decay import decayed_sums, decayed_sums_at
from tangokg.history.occurrences import Occurrences, Past
from tangokg.history.runs import starts_of
from tangokg.snapshots.timeline import Timeline

SCALES = (1.0, 3.0, 10.0, 30.0, 100.0, 1000.0)  # of the decayed sums, in median gaps
NUM_STATISTICS = 2 * len(SCALES) + 6
LOG_AGE = 2 * len(SCALES) + 1  # which of them is the logarithm of the age


@dataclass(frozen=True, eq=False)
class Counted:
    """Occurrences with their decayed sums."""

    occurrences: Occurrences
    sums: Tensor | None  # (E, K); None: computed where they are asked for
    scale: Tensor  # (K,) in the data's unit
    gap: float
    dtype: torch.dtype

    def sums_at(self, rows: Tensor) -> Tensor:
        """(P, K) the decayed sums at some occurrences."""
        if self.sums is None:
            return decayed_sums_at(self.occurrences, rows, self.scale).to(self.dtype)
        return self.sums.index_select(0, rows)


def count(timeline: Timeline, of: Callable[[Timeline], Occurrences], gap: float, dtype: torch.dtype) -> Counted:
    """Decayed sums over the occurrences ``of`` a timeline; to be derived once for it."""
    return count_occurrences(of(timeline), gap, dtype, few=timeline.is_part)


def count_starts(timeline: Timeline, labelled: bool, gap: float, dtype: torch.dtype) -> Counted:
    """The same over the edges that begin a run, by s or by (s, r)."""
    return count_occurrences(starts_of(timeline, labelled, gap), gap, dtype)


def count_occurrences(occurrences: Occurrences, gap: float, dtype: torch.dtype, few: bool = False) -> Counted:
    """With ``few``, sums are computed where they are asked for: a forecast asks for the last of each fact alone."""
    scale = scales(gap, occurrences.t.device)
    sums = None if few else decayed_sums(occurrences, scale).to(dtype)
    return Counted(occurrences, sums, scale, gap, dtype)


def scales(gap: float, device: torch.device) -> Tensor:
    """(K,) those of the decayed sums, in the data's unit."""
    return gap * torch.tensor(SCALES, dtype=torch.float64, device=device)


def statistics(counted: Counted, past: Past, t: Tensor) -> Tensor:
    """Features (P, F) of each past fact at time ``t`` (P,), in the dtype of the sums (see :func:`describe`)."""
    occurrences = counted.occurrences
    last = occurrences.times.index_select(0, past.at)
    first = occurrences.times.index_select(0, occurrences.first.index_select(0, past.fact))
    return describe(counted.sums_at(past.at), past.count, first, last, t, counted.scale, counted.gap)


def last_statistics(counted: Counted, group: Tensor, known: Tensor, t: Tensor) -> Tensor:
    """Features (P, F) of groups (P,) that have one fact each, at time ``t`` (P,); zeros where none is known.

    ``known`` (P,) are the snapshots that each row knows. This does not wait for a GPU.
    """
    occurrences = counted.occurrences
    if not len(occurrences.pair):
        return torch.zeros(len(group), NUM_STATISTICS, dtype=counted.dtype, device=group.device)
    group = group.contiguous()  # or torch copies it with a warning
    fact = torch.searchsorted(occurrences.pair, group).clamp(max=len(occurrences.pair) - 1)
    first = occurrences.first.index_select(0, fact)
    end = torch.searchsorted(occurrences.key, fact * len(occurrences.t) + known)
    number = torch.where(occurrences.pair.index_select(0, fact) == group, end - first, 0)
    at = (end - 1).clamp(min=0)
    begin, last = (occurrences.times.index_select(0, row) for row in (first, at))
    sums = counted.sums_at(at)
    features = describe(sums, number, begin, torch.minimum(last, t), t, counted.scale, counted.gap)
    return torch.where((number > 0)[:, None], features, 0.0)


def describe(sums: Tensor, count: Tensor, first: Tensor, last: Tensor, t: Tensor, scale: Tensor, gap: float) -> Tensor:
    r"""Features (P, F) at time ``t`` (P,) of events that began, ended and decayed to ``sums`` (P, K) at the last.

    .. math::
        \log(1 + a_\tau), \; \frac{a_\tau}{1 + a_\tau}, \; \log(1 + n), \; \log \Delta, \;
        \frac{1}{1 + \Delta}, \; \log(1 + g), \; \min(\Delta / g, 4), \; 1

    with the decayed sum a, the number n of occurrences, the age :math:`\Delta` of the last one and their mean gap g,
    in median gaps of the training part; constant factors bring them to one size.
    """
    dtype = sums.dtype
    age = ((t - last) / gap).to(dtype)[:, None]  # (P, 1)
    left = sums * torch.exp(-age / (scale / gap).to(dtype))  # (P, K)
    n = count.to(dtype)[:, None]
    between = ((last - first) / gap).to(dtype)[:, None] / (n - 1).clamp(min=1)  # (P, 1), 0 after one occurrence
    phase = torch.where(n > 1, (age / between.clamp(min=0.5)).clamp(max=4.0), 4.0)
    others = [
        0.2 * torch.log1p(n),
        0.2 * torch.log(age.clamp(min=0.01)),
        1 / (1 + age.clamp(min=0)),
        0.3 * torch.log1p(between),
        0.5 * phase,
        torch.ones_like(n),
    ]
    return torch.cat([torch.log1p(left), left / (1 + left), *others], dim=1)


def time_code(age: Tensor) -> Tensor:
    """(..) ages in median gaps -> (.., 8): their logarithm and how much of a weight 1 is left at several scales."""
    age = age.clamp(min=0.01)
    decays = [torch.exp(-age / scale) for scale in SCALES[1:]]
    return torch.stack([0.2 * torch.log(age), 1 / (1 + age), *decays, torch.ones_like(age)], dim=-1)


TIME_CODE = 2 + len(SCALES)

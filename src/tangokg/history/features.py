"""What the past says about a pair (s, r) or a fact (s, r, o), as numbers for a regression."""

from __future__ import annotations

import torch
from torch import Tensor

from tangokg.history.series import FAR, Pasts, SeriesStatistics, tell

WINDOWS = 1, 2, 4, 8, 16, 32, 64  # snapshots
AGES = 1.5, 2.5, 3.5, 5.5, 8.5, 13.5, 21.5, 34.5, 60.5  # usual gaps
PHASES = 0.5, 0.8, 0.95, 1.1, 1.35, 2.0  # age over mean gap
REGULAR = 0.35  # spread of the gaps over their mean


def pair_features(pasts: Pasts, pair: Tensor, known: Tensor, t: Tensor) -> Tensor:
    """(M, F) of pairs s * 2R + r, from the snapshots before ``known`` (M,), for the time ``t`` (M,) in usual gaps."""
    labels = pasts.num_labels
    s, r = pair // labels, pair % labels
    other = s * labels + (r + labels // 2) % labels  # the same subject in the other role
    stats = tell(pasts.pair, pair, known, t, WINDOWS)
    back = tell(pasts.pair, other, known, t, (1, 4, 16))
    subject = tell(pasts.subject, s, known, t, (1, 8, 32))
    last = torch.cat([pasts.times, pasts.times.new_zeros(1)])[(known - 1).clamp(min=0)]
    reach = _log((t - last).clamp(min=0.25))
    rates = _rates(stats, WINDOWS, known)
    return _beside(
        rates,
        _rate(stats.count, known),
        _rate(stats.count, stats.since_first),
        _log(stats.count + 1.0),
        _ages(stats.age),
        _phases(stats),
        _due(stats, t - last, 1 / pasts.gap),
        ((stats.age - stats.last_gap).abs() < 0.5).double(),
        _rates(back, (1, 4, 16), known),
        _ages(back.age)[:, :5],
        _rates(subject, (1, 8, 32), known),
        _log(subject.age.clamp(max=200.0) + 1.0),
        _weekday(pasts, known, t),
        reach,
        reach[:, None] * rates[:, ::2],
        reach * _log(stats.age.clamp(max=200.0) + 1.0),
        reach * reach,
    )


def fact_features(pasts: Pasts, pair: Tensor, fact: Tensor, known: Tensor, t: Tensor) -> Tensor:
    """(M, F) of facts by their number (-1: never seen), each with its pair; the rest as :func:`pair_features`."""
    of_fact, of_pair = (tell(s, key, known, t, WINDOWS) for s, key in ((pasts.fact, fact), (pasts.pair, pair)))
    last = torch.cat([pasts.times, pasts.times.new_zeros(1)])[(known - 1).clamp(min=0)]
    reach = _log((t - last).clamp(min=0.25))
    again = ((of_fact.last == of_pair.last) & (of_fact.count > 0)).double()  # it stood when the pair last did
    share = _rate(of_fact.count, of_pair.count)
    return _beside(
        _rate(of_fact.recent, of_pair.recent),
        share,
        _log(of_fact.count + 1.0),
        again,
        _log(expected_objects(pasts, pair, known)),
        _ages(of_fact.age),
        _phases(of_fact),
        _due(of_fact, t - last, 1 / pasts.gap),
        reach,
        reach * again,
        reach * share,
    )


def expected_objects(pasts: Pasts, pair: Tensor, known: Tensor) -> Tensor:
    """(M,) how many objects a pair has when it has any: the mean of its last eight times, shrunk towards one."""
    index = pasts.pair.find(pair)
    start, end = pasts.pair.start(index), pasts.pair.until(index, known)
    begin = torch.maximum(start, end - 8)
    return (pasts.objects[end] - pasts.objects[begin] + 1.0) / (end - begin + 1.0)


def _beside(*parts: Tensor) -> Tensor:
    """Columns (M,) and groups of columns (M, ..) side by side."""
    return torch.cat([part if part.ndim > 1 else part[:, None] for part in parts], dim=1)


def _log(x: Tensor) -> Tensor:
    return torch.log(x.double())


def _rate(count: Tensor, total: Tensor) -> Tensor:
    """The logarithm of a share, smoothed by half a count."""
    return _log((count + 0.5) / (total.clamp(max=1e4) + 1.0))


def _rates(stats: SeriesStatistics, windows: tuple[int, ...], known: Tensor) -> Tensor:
    return _rate(stats.recent, torch.minimum(known[:, None], known.new_tensor(windows)))


def _ages(age: Tensor) -> Tensor:
    """Indicators of the class in which an age lies."""
    return _class_of(age, AGES)[:, : len(AGES)].double()


def _phases(stats: SeriesStatistics) -> Tensor:
    """Age divided by the mean gap, in classes, separately for regular and for irregular series."""
    phase = _class_of(stats.age / stats.mean_gap.clamp(min=1e-9), PHASES)
    often, regular = stats.count > 2, stats.spread < REGULAR
    return torch.cat([phase & (often & kind)[:, None] for kind in (regular, ~regular)], dim=1).double()


def _class_of(x: Tensor, borders: tuple[float, ...]) -> Tensor:
    """(M, len(borders) + 1) bool: between which borders each number lies."""
    return torch.bucketize(x, x.new_tensor(borders))[:, None] == torch.arange(len(borders) + 1, device=x.device)


def _due(stats: SeriesStatistics, reach: Tensor, step: float) -> Tensor:
    """For regular series: for how many steps it has been due, after the last known step and before it."""
    regular = (stats.count > 2) & (stats.spread < REGULAR)
    overdue = (stats.age - stats.least_gap + step) / step
    before = (overdue - reach / step)[:, None]
    since = torch.minimum(overdue, reach / step)[:, None]
    low, high = since.new_tensor(((1, 2), (2, 3), (3, 5), (5, FAR))).T - 0.5
    after = (since > low) & (since < high)
    low, high = since.new_tensor(((0.5, 2.5), (2.5, 6.5), (6.5, FAR))).T
    return (regular[:, None] & torch.cat([after, (before > low) & (before <= high)], dim=1)).double()


def _weekday(pasts: Pasts, known: Tensor, t: Tensor) -> Tensor:
    """The logarithm of the activity on this day of the week, relative to all days."""
    phase = torch.round(t * pasts.gap).long() % 7
    active, steps = pasts.activity[known], pasts.steps[known]  # (M, 7)
    usual = (active.sum(1) + 1.0) / (steps.sum(1) + 1.0)
    in_phase = active.gather(1, phase[:, None])[:, 0] + 3.0 * usual
    return _log(in_phase / ((steps.gather(1, phase[:, None])[:, 0] + 3.0) * usual))

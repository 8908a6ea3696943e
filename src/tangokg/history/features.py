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
    columns = [
        *rates,
        _rate(stats.count, known),
        _rate(stats.count, stats.since_first),
        _log(stats.count + 1.0),
        *_ages(stats.age),
        *_phases(stats),
        *_due(stats, t - last, 1 / pasts.gap),
        ((stats.age - stats.last_gap).abs() < 0.5).double(),
        *_rates(back, (1, 4, 16), known),
        *_ages(back.age)[:5],
        *_rates(subject, (1, 8, 32), known),
        _log(subject.age.clamp(max=200.0) + 1.0),
        _weekday(pasts, known, t),
        reach,
        *(reach * rates[i] for i in (0, 2, 4, 6)),
        reach * _log(stats.age.clamp(max=200.0) + 1.0),
        reach * reach,
    ]
    return torch.stack(columns, dim=1)


def fact_features(pasts: Pasts, pair: Tensor, fact: Tensor, known: Tensor, t: Tensor) -> Tensor:
    """(M, F) of facts by their number (-1: never seen), each with its pair; the rest as :func:`pair_features`."""
    of_fact, of_pair = (tell(s, key, known, t, WINDOWS) for s, key in ((pasts.fact, fact), (pasts.pair, pair)))
    last = torch.cat([pasts.times, pasts.times.new_zeros(1)])[(known - 1).clamp(min=0)]
    reach = _log((t - last).clamp(min=0.25))
    again = ((of_fact.last == of_pair.last) & (of_fact.count > 0)).double()  # it stood when the pair last did
    recent_shares = [_rate(of_fact.recent[:, i], of_pair.recent[:, i]) for i in range(len(WINDOWS))]
    share = _rate(of_fact.count, of_pair.count)
    columns = [
        *recent_shares,
        share,
        _log(of_fact.count + 1.0),
        again,
        _log(expected_objects(pasts, pair, known)),
        *_ages(of_fact.age),
        *_phases(of_fact),
        *_due(of_fact, t - last, 1 / pasts.gap),
        reach,
        reach * again,
        reach * share,
    ]
    return torch.stack(columns, dim=1)


def expected_objects(pasts: Pasts, pair: Tensor, known: Tensor) -> Tensor:
    """(M,) how many objects a pair has when it has any: the mean of its last eight times, shrunk towards one."""
    index = pasts.pair.find(pair)
    start, end = pasts.pair.start(index), pasts.pair.until(index, known)
    begin = torch.maximum(start, end - 8)
    return (pasts.objects[end] - pasts.objects[begin] + 1.0) / (end - begin + 1.0)


def _log(x: Tensor) -> Tensor:
    return torch.log(x.double())


def _rate(count: Tensor, total: Tensor) -> Tensor:
    """The logarithm of a share, smoothed by half a count."""
    return _log((count + 0.5) / (total.clamp(max=1e4) + 1.0))


def _rates(stats: SeriesStatistics, windows: tuple[int, ...], known: Tensor) -> list[Tensor]:
    return [_rate(stats.recent[:, i], known.clamp(max=w)) for i, w in enumerate(windows)]


def _ages(age: Tensor) -> list[Tensor]:
    """Indicators of the class in which an age lies."""
    place = torch.bucketize(age, age.new_tensor(AGES))
    return [(place == i).double() for i in range(len(AGES))]


def _phases(stats: SeriesStatistics) -> list[Tensor]:
    """Age divided by the mean gap, in classes, separately for regular and for irregular series."""
    phase = stats.age / stats.mean_gap.clamp(min=1e-9)
    place = torch.bucketize(phase, phase.new_tensor(PHASES))
    often, regular = stats.count > 2, stats.spread < REGULAR
    return [((place == i) & often & kind).double() for kind in (regular, ~regular) for i in range(len(PHASES) + 1)]


def _due(stats: SeriesStatistics, reach: Tensor, step: float) -> list[Tensor]:
    """For regular series: for how many steps it has been due, after the last known step and before it."""
    regular = (stats.count > 2) & (stats.spread < REGULAR)
    overdue = (stats.age - stats.least_gap + step) / step
    before = overdue - reach / step
    since = torch.minimum(overdue, reach / step)
    kinds = [regular & (since > low - 0.5) & (since < high - 0.5) for low, high in ((1, 2), (2, 3), (3, 5), (5, FAR))]
    kinds += [regular & (before > low) & (before <= high) for low, high in ((0.5, 2.5), (2.5, 6.5), (6.5, FAR))]
    return [kind.double() for kind in kinds]


def _weekday(pasts: Pasts, known: Tensor, t: Tensor) -> Tensor:
    """The logarithm of the activity on this day of the week, relative to all days."""
    phase = torch.round(t * pasts.gap).long() % 7
    active, steps = pasts.activity[known], pasts.steps[known]  # (M, 7)
    usual = (active.sum(1) + 1.0) / (steps.sum(1) + 1.0)
    in_phase = active.gather(1, phase[:, None])[:, 0] + 3.0 * usual
    return _log(in_phase / ((steps.gather(1, phase[:, None])[:, 0] + 3.0) * usual))

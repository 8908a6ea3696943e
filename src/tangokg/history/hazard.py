"""The chance that (s, r) has a fact at all: in one step, or at least once until a date."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from tangokg.history.features import fact_features, pair_features
from tangokg.history.hazard_queries import HazardQueries, ask_spans, ask_steps, evenly, log_reach
from tangokg.history.logistic import LABEL_RIDGES, Logistic, empty_logistic, fit_logistic, stored_label
from tangokg.history.occurrences import occurrences_of, past_of
from tangokg.history.series import Pasts, pasts_of, usual_gap
from tangokg.snapshots.timeline import Timeline

AHEAD = 1, 2, 4, 7, 14, 29  # snapshots left out before a target that lies further ahead than the next
SPANS = 1, 2, 4, 7, 14, 30  # usual gaps
WINDOWS = 32  # drawn from training after its first eighth, evenly, and as many at most from validation
ROWS = 50_000  # pairs to learn from
FACTS = 60_000  # facts to learn from
CALIBRATED = 40_000  # pairs to calibrate on
PAIRS = 1024  # whose facts are held at once
LEAST = 1e-4
LOOSE = 1e-6  # the ridge of a calibration
BENDS = -4.0, -2.5, -1.5, -0.7, 0.0, 0.7  # bends in the effect of the logarithm of a sum of hazards
KINDS = "next", "later", "by"  # fields of a Hazard: kinds of questions
CORRECTED = -2.5, -1.0, 0.5, 2.0  # logits where a calibration may bend


@dataclass(frozen=True, eq=False)
class Regressions:
    r"""One kind of question (docs/maths.md, row M46).

    .. math::
        g_o = \sigma(u \cdot x(s, r, o)), \quad
        z = v \cdot (x(s, r), \log \sum_o -\log(1 - g_o)), \quad
        H = \sigma(a \cdot (z, (z - k_i)_+, \log \Delta, \dots))

    with o the objects that (s, r) had before; u and v are fitted on training, a on validation. The distance in time,
    Delta, counts for later steps and for spans.
    """

    fact: Logistic
    pair: Logistic
    calibration: Logistic

    def chance(self, timeline: Timeline, pasts: Pasts, queries: HazardQueries) -> Tensor:
        """(M,) the chance that each pair has a fact; without fitted weights, how often it had one."""
        if not len(self.pair.own):
            index = pasts.pair.find(queries.pair)
            count = pasts.pair.until(index, queries.known) - pasts.pair.start(index)
            return (count + 0.5).double() / (queries.known + 1.0)
        z = self.pair.logit(self.features(timeline, pasts, queries), queries.pair, pasts.num_labels)
        return torch.sigmoid(self.calibration.logit(_correctable(pasts, queries, z)))

    def features(self, timeline: Timeline, pasts: Pasts, queries: HazardQueries) -> Tensor:
        """(M, F) features of pairs, including the summed hazards of their earlier facts."""
        total = torch.zeros(len(queries), dtype=torch.float64)
        for row, fact in _past_facts(timeline, queries):
            of = queries.select(row)
            x = fact_features(pasts, of.pair, fact, of.known, of.t)
            total.index_add_(0, row, softplus(self.fact.logit(x, of.pair, pasts.num_labels)))
        of_pair, known = pair_features(pasts, queries.pair, queries.known, queries.t), torch.log(total + LEAST)
        bent = [(known - bend).clamp(min=0.0) for bend in BENDS]
        return torch.cat([of_pair, torch.stack([known, known * log_reach(pasts, queries), *bent], dim=1)], dim=1)


@dataclass(frozen=True, eq=False)
class Hazard:
    """Chances that pairs have a fact, computed from the history alone; see :func:`fit_hazard`."""

    next: Regressions  # in the step that follows what is known
    later: Regressions  # in a step further ahead
    by: Regressions  # at least once in a span that begins where what is known ends
    fresh: Tensor  # (2R,) of a pair that never had a fact, in a step
    gap: float  # the usual one, in the data's unit
    longest: float  # usual gaps: a step no further ahead than that is the next one
    recorded: Tensor  # (len(SPANS),) how often such a span holds a step at all; ``by`` is for those that do

    def chance(self, timeline: Timeline, pair: Tensor, known: Tensor, t: Tensor, span: bool = False) -> Tensor:
        """(M,) chance that each pair s * 2R + r has a fact in the step ``t``, from the snapshots ``0 .. known - 1``.

        With ``span``: at least once in the steps from the first that is not known to ``t``, which is included.
        """
        pasts = pasts_of(timeline, self.gap)
        queries = HazardQueries(pair, known, t / self.gap, known, known)
        reach = torch.exp(log_reach(pasts, queries))
        p = self._by(timeline, pasts, queries, reach) if span else self._at(timeline, pasts, queries, reach)
        steps = (reach * self.gap).clamp(min=1.0) if span else torch.ones_like(reach)
        never = 1 - (1 - self._fresh(pair, pasts.num_labels)) ** steps
        index = pasts.pair.find(pair)
        return torch.where(pasts.pair.until(index, known) > pasts.pair.start(index), p, never)

    def _at(self, timeline: Timeline, pasts: Pasts, queries: HazardQueries, reach: Tensor) -> Tensor:
        p = torch.zeros(len(queries), dtype=torch.float64)
        soon = reach <= self.longest + 1e-9
        for regressions, rows in ((self.next, soon), (self.later, ~soon)):
            if rows.any():
                p[rows] = regressions.chance(timeline, pasts, queries.select(rows))
        return p

    def _by(self, timeline: Timeline, pasts: Pasts, queries: HazardQueries, reach: Tensor) -> Tensor:
        def in_step(of: HazardQueries) -> Tensor:
            return self._at(timeline, pasts, of, torch.exp(log_reach(pasts, of)))

        return self.until(queries, reach, lambda of: self.by.chance(timeline, pasts, of), in_step)

    def until(
        self,
        queries: HazardQueries,
        reach: Tensor,
        chance: Callable[[HazardQueries], Tensor],
        in_step: Callable[[HazardQueries], Tensor],
    ) -> Tensor:
        """(M,) from the ``chance`` in the fitted spans: interpolated between them, and never decreasing with length.

        Beyond the longest span, the chance that nothing happens decays at a constant rate. A fact ``in_step``, the
        last step of a span, is a fact in the span.
        """
        far = torch.tensor(SPANS, dtype=torch.float64)
        needed = far[: int(torch.searchsorted(far, reach.max() if len(reach) else 0.0)) + 1]
        spans = [self._ahead(queries, reach, x) for x in needed]
        p = torch.stack([chance(of) for of in spans], dim=1) * self.recorded[: len(needed)]
        p = torch.maximum(p, torch.stack([in_step(of) for of in spans], dim=1) * self.recorded[0])
        p = torch.cummax(p, dim=1).values if len(p) else p
        high = torch.searchsorted(needed, reach).clamp(1, max(len(needed) - 1, 1)).clamp(max=len(needed) - 1)
        low = (high - 1).clamp(min=0)
        share = ((reach - needed[low]) / (needed[high] - needed[low]).clamp(min=1e-9)).clamp(0.0, 1.0)
        start, end = (p.gather(1, at[:, None])[:, 0] for at in (low, high))
        within = start + share * (end - start)
        return 1 - (1 - within) ** (reach / far[-1]).clamp(min=1.0)

    @staticmethod
    def _ahead(queries: HazardQueries, reach: Tensor, length: Tensor | float) -> HazardQueries:
        return replace(queries, t=queries.t - reach + length)

    def _fresh(self, pair: Tensor, num_labels: int) -> Tensor:
        label = stored_label(pair, num_labels, len(self.fresh))
        return torch.cat([self.fresh, self.fresh.mean()[None]]).index_select(0, label)

    def tensors(self) -> dict[str, Tensor]:
        """Everything by name; :func:`hazard_from` undoes it."""
        parts = {
            f"{kind}.{f.name}": getattr(getattr(self, kind), f.name) for kind in KINDS for f in fields(Regressions)
        }
        plain = {f"{name}.{key}": tensor for name, part in parts.items() for key, tensor in vars(part).items()}
        scale = torch.tensor([self.gap, self.longest], dtype=torch.float64)
        return plain | {"fresh": self.fresh, "scale": scale, "recorded": self.recorded}


def hazard_from(tensors: dict[str, Tensor]) -> Hazard:
    """The hazard that :meth:`Hazard.tensors` describes; raises KeyError if a tensor is missing."""
    names = [f.name for f in fields(Logistic)]
    fitted = [
        Regressions(*(Logistic(*(tensors[f"{kind}.{f.name}.{name}"] for name in names)) for f in fields(Regressions)))
        for kind in KINDS
    ]
    gap, longest = tensors["scale"].tolist()
    return Hazard(fitted[0], fitted[1], fitted[2], tensors["fresh"], gap, longest, tensors["recorded"])


def fit_hazard(timeline: Timeline, train: int, valid: int) -> Hazard:
    """Fit on the first ``train`` snapshots of ``timeline``, calibrate on the next ``valid``; ignore later ones."""
    timeline = timeline.to(torch.device("cpu"))
    gap = usual_gap(timeline.t[:train])
    pasts = pasts_of(timeline, gap)
    begin, stop = min(train // 8 + 1, max(train - 1, 1)), train + valid
    parts = {"train": evenly(begin, train, WINDOWS), "valid": evenly(train, stop, WINDOWS)}
    soon = [ask_steps(timeline, pasts, target, target) for target in parts.values()]
    later = [ask_steps(timeline, pasts, *_further(target)) for target in parts.values()]
    spans = [
        ask_spans(timeline, pasts, *each(known, SPANS), end)
        for known, end in zip(parts.values(), (train, stop), strict=True)
    ]
    spans = [queries.select(queries.end > queries.begin) for queries in spans]
    fitted = [_fit_regressions(timeline, pasts, *queries, far=queries is not soon) for queries in (soon, later, spans)]
    gaps = timeline.t[:train].diff() / gap
    longest = float(gaps.quantile(0.99)) if len(gaps) else 1.0
    within = gaps <= torch.tensor(SPANS)[:, None] + 1e-9
    recorded = within.double().mean(1) if len(gaps) else torch.ones(len(SPANS), dtype=torch.float64)
    return Hazard(fitted[0], fitted[1], fitted[2], _fresh_rate(pasts, begin, train), gap, longest, recorded)


def _further(target: Tensor) -> tuple[Tensor, Tensor]:
    target, ahead = each(target, AHEAD)
    return target, (target - ahead).clamp(min=1)


def each(window: Tensor, values: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """All combinations of windows and values."""
    return window.repeat_interleave(len(values)), torch.tensor(values).repeat(len(window))


def _fit_regressions(
    timeline: Timeline, pasts: Pasts, train: HazardQueries, valid: HazardQueries, *, far: bool
) -> Regressions:
    """Fit one kind of question; with ``far``, the calibration also uses how far ahead it asks.

    For the next step it does not: each window has one distance there, and validation has few windows.
    """
    generator = torch.Generator().manual_seed(0)
    train, valid = train.sample(ROWS, generator), valid.sample(CALIBRATED, generator)
    fact = _fit_facts(timeline, pasts, train.select(torch.randperm(len(train), generator=generator)))
    regressions = Regressions(fact, empty_logistic(0), empty_logistic(0))
    x, y = regressions.features(timeline, pasts, train), train.happened(pasts)
    queries = valid if len(valid) else train
    inputs, happened = (
        (x, y) if queries is train else (regressions.features(timeline, pasts, valid), valid.happened(pasts))
    )
    best, least = regressions, torch.inf
    for ridge in LABEL_RIDGES:  # how much labels differ depends on the data
        pair = fit_logistic(x, y, train.pair % pasts.num_labels, pasts.num_labels, ridge)
        z = _correctable(pasts, queries, pair.logit(inputs, queries.pair, pasts.num_labels))
        z[:, -1] *= far  # a column of zeros has no weight
        calibration = fit_logistic(z, happened, ridge=LOOSE, toward={0: 1.0})
        loss = float(binary_cross_entropy_with_logits(calibration.logit(z), happened)) if len(z) else 0.0
        if loss < least:
            best, least = Regressions(fact, pair, calibration), loss
    return best


def _correctable(pasts: Pasts, queries: HazardQueries, z: Tensor) -> Tensor:
    """(M, F) the inputs of a calibration: a logit as a piecewise linear function, and how far ahead it asks."""
    bent = [(z - bend).clamp(min=0.0) for bend in CORRECTED]
    return torch.stack([z, *bent, log_reach(pasts, queries)], dim=1)


def _fit_facts(timeline: Timeline, pasts: Pasts, queries: HazardQueries) -> Logistic:
    """Fit on the earlier facts of some pairs, in their order, until there are enough."""
    none = queries.pair[:0]
    x, y, label, room = [fact_features(pasts, none, none, none, queries.t[:0])], [queries.t[:0]], [none], FACTS
    for row, fact in _past_facts(timeline, queries):
        of, fact = queries.select(row[:room]), fact[:room]
        x.append(fact_features(pasts, of.pair, fact, of.known, of.t))
        y.append(pasts.fact.within(fact, of.begin, of.end))
        label.append(of.pair % pasts.num_labels)
        room -= len(fact)
        if room <= 0:
            break
    return fit_logistic(torch.cat(x), torch.cat(y), torch.cat(label), pasts.num_labels)


def _past_facts(timeline: Timeline, queries: HazardQueries) -> Iterator[tuple[Tensor, Tensor]]:
    """The known facts of each pair, in pieces: rows of ``queries`` and the numbers of their facts."""
    occurrences = occurrences_of(timeline)
    for rows in torch.arange(len(queries)).split(PAIRS):
        past = past_of(occurrences, queries.pair[rows], queries.known[rows])
        yield rows[past.row], occurrences.key[past.at] // max(len(occurrences.t), 1)


def _fresh_rate(pasts: Pasts, begin: int, end: int) -> Tensor:
    """(2R,) the share of subjects without a fact of a label that have their first in a step of ``begin .. end``."""
    first = pasts.pair.j[pasts.pair.first[:-1]]  # (K,)
    new = pasts.pair.key[(begin <= first) & (first < end)] % max(pasts.num_labels, 1)
    subjects = int((pasts.subject.j[pasts.subject.first[:-1]] < end).sum())
    count = torch.bincount(new, minlength=pasts.num_labels).double()
    return ((count + 0.5) / (max(end - begin, 1) * max(subjects, 1) + 1.0)).clamp(max=0.5)

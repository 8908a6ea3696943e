"""The chance of an object if (s, r) has a fact: from the model's share, and from how often the fact came back."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tangokg.history.features import expected_objects, fact_features
from tangokg.history.hazard import LOOSE, Hazard
from tangokg.history.hazard_queries import HazardQueries, log_reach
from tangokg.history.logistic import LABEL_RIDGES, Logistic, fit_logistic
from tangokg.history.occurrences import occurrences_of
from tangokg.history.series import pasts_of, tell
from tangokg.snapshots.timeline import Timeline

SMALLEST = 1e-7  # smaller shares count as this
BENDS = -3.0, -1.5, -0.5  # of logarithms


@dataclass(frozen=True, eq=False)
class Candidates:
    """Candidate objects of pairs: the known snapshots, the model's share of each, and the chance H of its pair."""

    pair: Tensor  # (M,) s * 2R + r
    o: Tensor  # (M,)
    known: Tensor  # (M,)
    t: Tensor  # (M,) in the data's unit
    share: Tensor  # (M,) of the model
    happens: Tensor  # (M,) that the pair has a fact

    def __len__(self) -> int:
        return len(self.pair)


def fact_numbers(timeline: Timeline, pair: Tensor, o: Tensor) -> Tensor:
    """(M,) the number of each (s, r, o) among the occurrences of a timeline; -1 for what never occurs."""
    occurrences = occurrences_of(timeline)
    if not len(occurrences.pair):
        return torch.full_like(pair, -1)
    key, wanted = occurrences.pair * timeline.num_entities + occurrences.o, pair * timeline.num_entities + o
    place = torch.searchsorted(key, wanted).clamp(max=len(key) - 1)
    return torch.where(key[place] == wanted, place, -1)


def given_features(hazard: Hazard, timeline: Timeline, of: Candidates) -> Tensor:
    """(M, F) features of candidates: share, number of objects, and the hazard of the fact relative to its pair."""
    pasts, t = pasts_of(timeline, hazard.gap), of.t / hazard.gap
    fact = fact_numbers(timeline, of.pair, of.o)
    of_fact, of_pair = (tell(s, key, of.known, t, ()) for s, key in ((pasts.fact, fact), (pasts.pair, of.pair)))
    seen = (of_fact.count > 0).double()
    g = torch.sigmoid(
        hazard.next.fact.logit(fact_features(pasts, of.pair, fact, of.known, t), of.pair, pasts.num_labels)
    )
    p = of.share.double().clamp(SMALLEST, 1 - SMALLEST)
    log_p, objects = torch.log(p), torch.log(expected_objects(pasts, of.pair, of.known))
    log_ratio = (torch.log(g) - torch.log(of.happens.clamp(min=1e-9))).clamp(-12.0, 0.0)
    log_chance = (log_p + objects).clamp(max=0.0)
    again = (of_fact.last == of_pair.last).double()  # it stood when the pair last had a fact
    columns = [
        log_p,
        torch.log1p(-p),
        log_chance,
        objects,
        seen,
        seen * log_p,
        seen * again,
        seen * torch.logit(g),
        seen * log_ratio,
        *(seen * (log_ratio - bend).clamp(min=0.0) for bend in BENDS),
        *((log_chance - bend).clamp(min=0.0) for bend in BENDS),
        torch.logit(of.happens.double().clamp(1e-6, 1 - 1e-6)),
    ]
    return torch.stack(columns, dim=1)


def fit_given(hazard: Hazard, timeline: Timeline, of: Candidates, y: Tensor) -> Logistic:
    """Fit on candidates of pairs that had a fact; ``y`` (M,) says whether each was among the objects."""
    labels = 2 * timeline.num_relations
    x = given_features(hazard, timeline, of)
    return fit_logistic(x, y, of.pair % max(labels, 1), labels, LABEL_RIDGES[1], LOOSE, {0: 1.0, 1: -1.0})


def given_chance(regression: Logistic, hazard: Hazard, timeline: Timeline, of: Candidates) -> Tensor:
    r"""(M,) the chance that the object is among those of (s, r), if there are any (docs/maths.md, row M47).

    .. math:: q = \sigma(w \cdot (\log p, \log(1 - p), \log p K, \log K, \log g, \log g / H, \dots))

    with p the model's share, K how many objects (s, r) usually has at a time, g the hazard of the fact, H of its pair.
    """
    return torch.sigmoid(regression.logit(given_features(hazard, timeline, of), of.pair, 2 * timeline.num_relations))


def until_features(hazard: Hazard, timeline: Timeline, of: Candidates, q: Tensor, end: Tensor) -> Tensor:
    """(M, F) of candidates with shares ``q`` (M,), for spans up to ``end`` (M,) in usual gaps that hold a step."""
    pasts, queries = pasts_of(timeline, hazard.gap), HazardQueries(of.pair, of.known, end, of.known, of.known)
    key, row = torch.unique(torch.stack([of.pair, of.known, end], dim=1), dim=0, return_inverse=True)
    representative = torch.zeros(len(key), dtype=torch.int64).scatter_(0, row, torch.arange(len(row)))
    happens = hazard.by.chance(timeline, pasts, queries.select(representative))[row]
    fact = fact_numbers(timeline, of.pair, of.o)
    seen = (tell(pasts.fact, fact, of.known, end, ()).count > 0).double()
    g = hazard.by.fact.logit(fact_features(pasts, of.pair, fact, of.known, end), of.pair, pasts.num_labels)
    logits = [torch.logit(p.clamp(1e-6, 1 - 1e-6)) for p in (_thin(happens, q), q, happens)]
    return torch.stack([*logits, seen, seen * g], dim=1)


def until_chance(until: Logistic, hazard: Hazard, timeline: Timeline, of: Candidates, q: Tensor, t: Tensor) -> Tensor:
    r"""(M,) the chance that each fact happens at least once in the steps up to ``t`` (M,) (docs/maths.md, row M47).

    .. math:: \sigma(w \cdot (l(1 - (1 - H)^q), l(q), l(H), l(g), \dots)), \qquad l(p) = \log p - \log(1 - p)

    with H the chance of the pair in the span, q the share of the object, g the hazard of the fact itself in the span.
    """
    pasts, end = pasts_of(timeline, hazard.gap), t / hazard.gap
    queries = HazardQueries(of.pair, of.known, end, of.known, of.known)

    def chance(span: HazardQueries) -> Tensor:
        x = until_features(hazard, timeline, of, q, span.t)
        return torch.sigmoid(until.logit(x) if until.weight.any() else x[:, 0])  # nothing was learned: thinned

    return hazard.until(queries, torch.exp(log_reach(pasts, queries)), chance, lambda _: of.happens * q)


def _thin(happens: Tensor, q: Tensor) -> Tensor:
    """1 - (1 - H)^q: if the facts of a pair are a Poisson process, those with the object are a thinned one."""
    return -torch.expm1(q * torch.log1p(-happens.clamp(max=1 - 1e-12)))

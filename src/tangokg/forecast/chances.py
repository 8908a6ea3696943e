"""The chance that a fact happens, from a model's shares and the hazard of (s, r); fitted once for a run."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path

import torch
from torch import Tensor

from tangokg.errors import RunError
from tangokg.forecast.shares import best_shares
from tangokg.history.given import Candidates, fact_numbers, fit_given, given_chance, until_chance, until_features
from tangokg.history.hazard import LOOSE, SPANS, Hazard, each, fit_hazard, hazard_from
from tangokg.history.hazard_queries import HazardQueries, ask_spans, ask_steps, evenly
from tangokg.history.logistic import Logistic, fit_logistic
from tangokg.history.series import pasts_of
from tangokg.models import Model
from tangokg.quads.values import Dataset
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.train.checkpoint import load_tensors, save_tensors

FILE = "chances.safetensors"
SCHEMA = 3
CANDIDATES = 10  # of a pair, those with the largest shares
WINDOWS = 24  # of validation, evenly
PAIRS = 4000  # with a fact, that shares are calibrated on


@dataclass(frozen=True, eq=False)
class Chances:
    """The factors of a fact's chance: that (s, r) has any fact, the object if it has one; and the chance in a span."""

    hazard: Hazard
    given: Logistic
    until: Logistic

    def pair(self, timeline: Timeline, pair: Tensor, known: Tensor, t: Tensor, span: bool = False) -> Tensor:
        """(M,) the chance that each pair s * 2R + r has a fact in the step ``t``, or with ``span`` until then."""
        return self.hazard.chance(timeline, pair, known, t, span)

    def share(self, timeline: Timeline, candidates: Candidates) -> Tensor:
        """(M,) the chance that each object is among those of its pair, if there are any."""
        return given_chance(self.given, self.hazard, timeline, candidates)

    def by(self, timeline: Timeline, candidates: Candidates, share: Tensor, t: Tensor) -> Tensor:
        """(M,) the chance that each fact happens at least once until ``t``, from the share of its object."""
        return until_chance(self.until, self.hazard, timeline, candidates, share, t)

    def tensors(self) -> dict[str, Tensor]:
        parts = {"given": self.given, "until": self.until}
        named = {f"{name}.{f.name}": getattr(part, f.name) for name, part in parts.items() for f in fields(Logistic)}
        return named | {f"hazard.{name}": tensor for name, tensor in self.hazard.tensors().items()}


def fit_chances(model: Model, dataset: Dataset, device: torch.device) -> Chances:
    """Fit both factors: the hazard on training and validation, what a share means on validation.

    Without a validation part the last tenth of the training times stands in for it.
    """
    timeline = build_timeline(dataset.before_test.usual)  # a fact decades away would distort the gaps
    valid = len(timeline) - timeline.before(float(dataset.valid.t.min())) if len(dataset.valid) else 0
    hazard = fit_hazard(timeline, len(timeline) - valid, valid)
    pasts = pasts_of(timeline, hazard.gap)
    held_out = valid or max(1, len(timeline) // 10)
    target = evenly(max(len(timeline) - held_out, 1), len(timeline), WINDOWS)
    queries = ask_steps(timeline, pasts, target, target)
    queries = queries.select(queries.happened(pasts) > 0).sample(PAIRS, torch.Generator().manual_seed(0))
    of = candidates(model, timeline.to(device), timeline, hazard, queries)
    begin = queries.begin.repeat_interleave(len(of) // max(len(queries), 1))
    y = fact_happened(timeline, hazard.gap, of.pair, of.o, begin)
    given = fit_given(hazard, timeline, of, y)
    return Chances(hazard, given, _fit_until(model, timeline.to(device), timeline, hazard, given, target))


def _fit_until(
    model: Model, on_device: Timeline, timeline: Timeline, hazard: Hazard, given: Logistic, known: Tensor
) -> Logistic:
    """Fit on spans of each length after the ``known`` (W,) snapshots that hold a step."""
    pasts = pasts_of(timeline, hazard.gap)
    queries = ask_spans(timeline, pasts, *each(known, SPANS), len(timeline))
    queries = queries.select(queries.end > queries.begin).sample(PAIRS, torch.Generator().manual_seed(0))
    step = replace(queries, t=pasts.times[queries.known - 1] + 1.0)
    of = candidates(model, on_device, timeline, hazard, step)
    width = len(of) // max(len(queries), 1)
    begin, end, t = (column.repeat_interleave(width) for column in (queries.begin, queries.end, queries.t))
    y = pasts.fact.within(fact_numbers(timeline, of.pair, of.o), begin, end)
    x = until_features(hazard, timeline, of, given_chance(given, hazard, timeline, of), t)
    return fit_logistic(x, y, ridge=LOOSE, toward={0: 1.0})


def candidates(
    model: Model, on_device: Timeline, timeline: Timeline, hazard: Hazard, queries: HazardQueries
) -> Candidates:
    """The objects with the largest shares for each queried pair, concatenated."""
    t = queries.t * hazard.gap
    best = best_shares(model, on_device, queries.pair, queries.known, t, CANDIDATES)
    happens = hazard.chance(timeline, queries.pair, queries.known, t)
    columns = (column.repeat_interleave(best.o.shape[1]) for column in (queries.pair, queries.known, t, happens))
    pair, known, t, happens = columns
    return Candidates(pair, best.o.flatten(), known, t, best.share.flatten(), happens)


def fact_happened(timeline: Timeline, gap: float, pair: Tensor, o: Tensor, snapshot: Tensor) -> Tensor:
    """(M,) of 0 and 1: whether (s, r, o) occurs in a snapshot."""
    return pasts_of(timeline, gap).fact.within(fact_numbers(timeline, pair, o), snapshot, snapshot + 1)


def save_chances(folder: Path, chances: Chances) -> None:
    save_tensors(folder / FILE, chances.tensors(), {"schema": SCHEMA})


def load_chances(folder: Path) -> Chances | None:
    """The chances in a run folder; None if another version wrote them or the run stopped early: then fit again."""
    path = folder / FILE
    if not path.exists():
        return None
    tensors, note = load_tensors(path)
    if note.get("schema") != SCHEMA:
        return None
    try:
        hazard = hazard_from({n.removeprefix("hazard."): x for n, x in tensors.items() if n.startswith("hazard.")})
        given, until = (Logistic(*(tensors[f"{n}.{f.name}"] for f in fields(Logistic))) for n in ("given", "until"))
        return Chances(hazard, given, until)
    except (KeyError, ValueError) as error:
        raise RunError(f"{path}: damaged ({error}). Delete it: it is fitted anew, except after a refit.") from None

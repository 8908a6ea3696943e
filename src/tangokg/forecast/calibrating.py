"""The chances that a forecaster gives to all recently active pairs, beside what happened."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tangokg.forecast.chances import CANDIDATES, Chances, candidates, fact_happened
from tangokg.history.given import fact_numbers
from tangokg.history.hazard_queries import HazardQueries, ask_steps
from tangokg.history.series import pasts_of, tell
from tangokg.models import Model
from tangokg.rank.calibration import Calibration
from tangokg.showing import html_table, to_frame
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import windows_at

MOST = 50_000  # pairs, drawn evenly from all where there are more
ERROR = "calibration_error"
HEADINGS = ("kind", "answers", "happened", "Brier", "base rate", "skill", "error (points)")
KINDS = {
    "pair": "chance of a pair: that (s, r) has a fact",
    "fact": f"chance of a fact: (s, r, o), the {CANDIDATES} best objects of each pair",
    "share": "share: of an object, where (s, r) has a fact",
    "raw": "raw: the same before it is calibrated, as the model itself says",
}


class Calibrations(dict[str, Calibration]):
    """Each kind of probability beside what happened; a notebook shows them as a table."""

    def to_pandas(self) -> Any:
        """A pandas DataFrame with a row for each kind."""
        return to_frame(self._rows())

    def _repr_html_(self) -> str:
        return html_table("Probabilities beside what happened", HEADINGS, self.cells())

    def cells(self) -> list[list[str]]:
        """A row of a table for each kind, with the columns :data:`HEADINGS`."""
        shown = {"answers": ",", "happened": ".1%", "brier": ".4f", "base_brier": ".4f", "skill": ".1%"}
        return [
            [row["kind"], *(format(row[name], form) for name, form in shown.items()), f"{100 * row[ERROR]:.1f}"]
            for row in self._rows()
        ]

    def _rows(self) -> list[dict[str, Any]]:
        figures = {kind: calibration.to_dict() for kind, calibration in self.items()}
        return [{"kind": kind} | {k: v for k, v in row.items() if k != "bins"} for kind, row in figures.items()]


def ask_recent(
    timeline: Timeline, chances: Chances, target: Tensor, recent: float, horizon: float = 0.0
) -> HazardQueries:
    """The pairs (s, r), as subject and relation, with a fact in the last ``recent`` usual gaps before each target."""
    known = windows_at(timeline, target, horizon).known
    queries = ask_steps(timeline, pasts_of(timeline, chances.hazard.gap), target[known > 0], known[known > 0], recent)
    queries = queries.select(queries.pair % (2 * timeline.num_relations) < timeline.num_relations)
    return queries.sample(MOST, torch.Generator().manual_seed(0))


def calibrate(
    model: Model, chances: Chances, on_device: Timeline, timeline: Timeline, queries: HazardQueries
) -> Calibrations:
    """The calibration of each kind in :data:`KINDS`, with its base rate: how often it was true in the known facts."""
    pasts = pasts_of(timeline, chances.hazard.gap)
    of = candidates(model, on_device, timeline, chances.hazard, queries)
    width = len(of) // max(len(queries), 1)
    share, happened = chances.share(timeline, of), queries.happened(pasts)
    true = fact_happened(timeline, chances.hazard.gap, of.pair, of.o, queries.begin.repeat_interleave(width))
    t, fact = of.t / chances.hazard.gap, fact_numbers(timeline, of.pair, of.o)
    seen = tell(pasts.fact, fact, of.known, t, ()).count
    active = tell(pasts.pair, of.pair, of.known, t, ()).count
    first = slice(None, None, max(width, 1))
    inside, usual = happened.repeat_interleave(width) > 0, seen / active.clamp(min=1)
    kinds = {
        "pair": _make(of.happens[first], happened, active[first] / of.known[first]),
        "fact": _make(of.happens * share, true, seen / of.known),
        "share": _make(share[inside], true[inside], usual[inside]),
        "raw": _make(of.share[inside], true[inside], usual[inside]),
    }
    return Calibrations(kinds)


def _make(p: Tensor, happened: Tensor, base: Tensor) -> Calibration:
    return Calibration(*(np.asarray(column.double().numpy()) for column in (p, happened, base)))

"""A trained run -> metrics besides validation and test: one function for each name that a config may list."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch

from tangokg.errors import DataError
from tangokg.forecast import Forecaster
from tangokg.models.tango import Tango
from tangokg.quads import Quadruples
from tangokg.rank import Metrics, distance_travelled, examine, horizon, inductive, multi_step, prepare
from tangokg.rank.evaluate import answering
from tangokg.rank.strata import strata
from tangokg.snapshots.timeline import build_timeline
from tangokg.snapshots.windows import windows_at
from tangokg.train import build_model
from tangokg.train.devices import device_of

HORIZONS = range(1, 9)
ABLATIONS: dict[str, dict[str, Any]] = {"off": {"ode": False}, "other-graphs": {"graphs": "other"}}
SAMPLED = 32  # windows at which the distance of states is measured
APART = ("strata", "reliability")  # beside "protocols" in a result

Figures = dict[str, Any]


def figures_of(metrics: Metrics) -> Figures:
    """MRR and Hits@k under each filter, and the number of queries."""
    return metrics.to_dict() | {"queries": metrics.queries}


def epoch_seconds(log: Sequence[Figures]) -> float | None:
    """Median seconds of an epoch, its validation included; None for one epoch or none."""
    ends = [row["seconds"] for row in log]
    return statistics.median(b - a for a, b in pairwise(ends)) if len(ends) > 1 else None


def measure_horizons(forecaster: Forecaster, part: Quadruples | None = None) -> Figures:
    """Up to eight steps ahead, on the test part or another one."""
    return {str(step): figures_of(forecaster.evaluate(part, protocol=horizon(step))) for step in HORIZONS}


def measure_inductive(forecaster: Forecaster) -> Figures | None:
    """Metrics of queries with an entity that training never saw; None if the test part has none."""
    with suppress(DataError):
        return figures_of(forecaster.evaluate(protocol=inductive(forecaster.seen)))
    return None


def measure_multi_step(forecaster: Forecaster) -> Figures:
    """Hide all facts from the start of the test part on."""
    return figures_of(forecaster.evaluate(protocol=multi_step(float(forecaster.dataset.test.t.min()))))


def measure_ablated(forecaster: Forecaster) -> Figures:
    """The same weights, evaluated without dynamics and with the graphs of other windows."""
    return {name: figures_of(with_settings(forecaster, changed).evaluate()) for name, changed in ABLATIONS.items()}


def with_settings(forecaster: Forecaster, changed: Figures) -> Forecaster:
    """A copy of a trained model with changed settings."""
    config = replace(forecaster.config, settings=replace(forecaster.config.settings, **changed))
    model = build_model(config, build_timeline(forecaster.dataset.train))
    loaded = model.load_state_dict(forecaster.model.state_dict(), strict=False)
    assert set(loaded.missing_keys) <= {"draw"}, loaded  # which other window: drawn, not learned
    return Forecaster(model.to(device_of(forecaster.model)), forecaster.dataset, config)


def measure_snapshots(forecaster: Forecaster) -> Figures:
    """Test MRR (time-aware) of each target snapshot with the L1 norm of its transition tensor, and of two groups.

    ``larger`` is the half of the snapshots, rounded up, whose norm is larger; of equal norms the earlier ones.
    """
    by_time = forecaster.evaluate().by_time("time-aware")
    timeline = build_timeline(forecaster.facts)
    change = timeline.change_offset.diff()
    norm = {float(t): int(change[timeline.before(t)]) for t in by_time}
    ordered = sorted(norm, key=lambda t: (-norm[t], t))
    groups = {"larger": ordered[: (len(ordered) + 1) // 2], "all": ordered}
    measured: Figures = {}
    for name, times in groups.items():
        queries = sum(by_time[t].queries for t in times)
        total = sum(by_time[t].mrr * by_time[t].queries for t in times)
        measured[name] = {"mrr": total / queries, "queries": queries, "snapshots": len(times)}
    rows = [[t, norm[t], round(by_time[t].mrr, 3), by_time[t].queries] for t in sorted(norm)]
    return measured | {"columns": ["t", "norm", "mrr", "queries"], "rows": rows}


def measure_state(forecaster: Forecaster) -> Figures:
    r"""How far the states of touched entities move, at target times spread over the test part.

    ``distance`` is the mean of :math:`|h(t) - h_0| / |h_0|`, ``turn`` that of :math:`1 - \cos(h(t), h_0)`, which a
    growth common to all entities does not change.
    """
    model = forecaster.model
    timeline = build_timeline(forecaster.facts).to(device_of(model))
    first, size = timeline.before(float(forecaster.dataset.test.t.min())), len(timeline)
    target = torch.linspace(first, size - 1, min(SAMPLED, size - first)).round().long()
    turns = []
    with answering(model):
        for index in target if isinstance(model, Tango) and model.settings.ode else ():
            encoded = model.encode(timeline, windows_at(timeline, index[None]))
            cosine = torch.cosine_similarity(encoded.states.touched.double(), encoded.start.double())
            turns.append(float(1 - cosine.mean()))
    turn = statistics.fmean(turns) if turns else None
    return {"distance": distance_travelled(model, timeline, target), "turn": turn, "windows": len(target)}


def measure_strata(forecaster: Forecaster) -> Figures:
    """Share and MRR of the queries of each part, by stratum of their answer."""
    return {name: strata_of(forecaster, forecaster.dataset.parts[name]) for name in ("valid", "test")}


def strata_of(forecaster: Forecaster, part: Quadruples) -> Figures:
    """Share and MRR of each stratum of a part, with all facts before each query known."""
    timeline = build_timeline(forecaster.facts).to(device_of(forecaster.model))
    exam = prepare(timeline, torch.searchsorted(timeline.t, torch.from_numpy(part.t).unique().to(timeline.t)))
    reciprocal = 100 / examine(forecaster.model, exam).ranks["time-aware"].realistic
    masks = {name: mask.to(reciprocal.device) for name, mask in strata(exam).items()}
    return {
        name: {"share": 100 * float(mask.double().mean()), "mrr": float(reciprocal[mask].mean())}
        for name, mask in masks.items()
    }


def measure_reliability(forecaster: Forecaster) -> Figures:
    """Predicted probabilities against observed frequencies, for each kind of chance."""
    return {kind: calibration.to_dict() for kind, calibration in forecaster.calibration().items()}


MEASURES: dict[str, Callable[[Forecaster], Figures | None]] = {
    "strata": measure_strata,
    "inductive": measure_inductive,
    "multi-step": measure_multi_step,
    "reliability": measure_reliability,
    "horizon": measure_horizons,
    "snapshots": measure_snapshots,
    "state": measure_state,
    "ablated": measure_ablated,
}

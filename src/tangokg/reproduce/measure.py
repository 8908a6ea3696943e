"""A finished run -> its result: every protocol that a cell needs, each kept as soon as it is measured."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tangokg.errors import DataError, RunError
from tangokg.forecast import Forecaster
from tangokg.models.tango import Tango
from tangokg.rank import Metrics, distance_travelled, horizon, inductive, multi_step
from tangokg.report import read_log
from tangokg.reproduce.checks import SCHEMA
from tangokg.reproduce.presets import ABLATIONS
from tangokg.snapshots.timeline import build_timeline
from tangokg.snapshots.windows import windows_at
from tangokg.train import RunFolder, build_model
from tangokg.train.checkpoint import write_atomically

HORIZONS = range(1, 9)
SAMPLED = 32  # windows at which the distance of states is measured

Measured = dict[str, Any]


class OutOfTime(Exception):
    """The budget is spent; what was measured so far is kept."""


def measure(forecaster: Forecaster, folder: Path, needs: Sequence[str], preset: str, deadline: float) -> Measured:
    """The result of a finished run; protocols that were measured by an earlier call are taken from its folder."""
    kept = folder / "measured.json"
    protocols = _read(kept) if kept.exists() else {}
    for name in needs:
        for key, ask in STEPS[name](forecaster).items():
            if key in protocols.setdefault(name, {}):
                continue
            if time.monotonic() > deadline:
                raise OutOfTime
            protocols[name][key] = ask()
            write_atomically(kept, json.dumps(protocols).encode())
    plain = {name: found.get("", found) for name, found in protocols.items()}
    metrics = _read(folder / "metrics.json")
    seconds = epoch_seconds(RunFolder(folder).log)
    return {
        "schema": SCHEMA,
        "preset": preset,
        **metrics,
        "protocols": plain,
        "epoch_seconds": seconds,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _read(path: Path) -> Measured:
    try:
        found: Measured = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: damaged ({error}); delete the run {path.parent} and run again.") from None
    return found


def epoch_seconds(log: Path) -> float | None:
    """Median seconds of an epoch, its validation included; None for one epoch or none."""
    ends = [row["seconds"] for row in read_log(log)] if log.exists() else []
    return statistics.median(np.diff(ends).tolist()) if len(ends) > 1 else None


Ask = Callable[[], Any]


def _whole(metrics: Metrics) -> Measured:
    return metrics.to_dict() | {"queries": metrics.queries}


def _horizon(forecaster: Forecaster) -> dict[str, Ask]:
    def ask(step: int) -> Ask:
        return lambda: _whole(forecaster.evaluate(protocol=horizon(step)))

    return {str(step): ask(step) for step in HORIZONS}


def _inductive(forecaster: Forecaster) -> dict[str, Ask]:
    return {"": lambda: _whole(forecaster.evaluate(protocol=inductive(forecaster.seen)))}


def _multi_step(forecaster: Forecaster) -> dict[str, Ask]:
    first = float(forecaster.dataset.test.t.min())
    return {"": lambda: _whole(forecaster.evaluate(protocol=multi_step(first)))}


def _ablated(forecaster: Forecaster) -> dict[str, Ask]:
    """The same weights, asked without dynamics or with the graphs of other windows."""

    def ask(changed: Measured) -> Ask:
        return lambda: _whole(with_settings(forecaster, changed).evaluate())

    return {variant: ask(changed) for variant, changed in ABLATIONS.items()}


def with_settings(forecaster: Forecaster, changed: Measured) -> Forecaster:
    """The weights of a trained model in one with other settings."""
    config = replace(forecaster.config, settings=replace(forecaster.config.settings, **changed))
    model = build_model(config, build_timeline(forecaster.dataset.train))
    left = model.load_state_dict(forecaster.model.state_dict(), strict=False)
    assert set(left.missing_keys) <= {"draw"}, left  # which other window: drawn, not learned
    return Forecaster(model.to(next(forecaster.model.parameters()).device), forecaster.dataset, config)


def _snapshots(forecaster: Forecaster) -> dict[str, Ask]:
    return {"": lambda: by_change(forecaster)}


def by_change(forecaster: Forecaster) -> Measured:
    """Test MRR (time-aware) of each target snapshot with the L1 norm of its transition tensor, and of two groups.

    ``larger`` is the half of the snapshots, rounded up, whose norm is larger; of equal norms the earlier ones.
    """
    by_time = forecaster.evaluate().by_time("time-aware")
    timeline = build_timeline(forecaster.facts)
    change = timeline.change_offset.diff()
    norm = {float(t): int(change[timeline.before(t)]) for t in by_time}
    ordered = sorted(norm, key=lambda t: (-norm[t], t))
    groups = {"larger": ordered[: (len(ordered) + 1) // 2], "all": ordered}
    found: Measured = {}
    for name, times in groups.items():
        queries = sum(by_time[t].queries for t in times)
        total = sum(by_time[t].mrr * by_time[t].queries for t in times)
        found[name] = {"mrr": total / queries, "queries": queries, "snapshots": len(times)}
    rows = [[t, norm[t], round(by_time[t].mrr, 3), by_time[t].queries] for t in sorted(norm)]
    return found | {"columns": ["t", "norm", "mrr", "queries"], "rows": rows}


def _state(forecaster: Forecaster) -> dict[str, Ask]:
    return {"": lambda: moved(forecaster)}


def moved(forecaster: Forecaster) -> Measured:
    r"""How far the states of touched entities come, at target times spread over the test part.

    ``distance`` is the mean of :math:`|h(t) - h_0| / |h_0|`, ``turn`` that of :math:`1 - \cos(h(t), h_0)`, which a
    growth common to all entities does not change.
    """
    model, device = forecaster.model, next(forecaster.model.parameters()).device
    timeline = build_timeline(forecaster.facts).to(device)
    first, size = timeline.before(float(forecaster.dataset.test.t.min())), len(timeline)
    target = torch.linspace(first, size - 1, min(SAMPLED, size - first)).round().long()
    turn = []
    model.eval()
    with torch.inference_mode():
        for one in target if isinstance(model, Tango) else ():
            encoded = model.encode(timeline, windows_at(timeline, one[None]))
            cosine = torch.cosine_similarity(encoded.states.touched.double(), encoded.start.double())
            turn.append(1 - cosine.mean())
    return {
        "distance": distance_travelled(model, timeline, target),
        "turn": float(torch.stack(turn).mean()) if turn else None,
        "windows": len(target),
    }


STEPS: dict[str, Callable[[Forecaster], dict[str, Ask]]] = {
    "horizon": _horizon,
    "inductive": _inductive,
    "snapshots": _snapshots,
    "state": _state,
    "ablated": _ablated,
    "multi-step": _multi_step,
}


def check_test_part(forecaster: Forecaster) -> None:
    """A set without a test part has nothing to reproduce."""
    if not len(forecaster.dataset.test):
        raise DataError(f"{forecaster.dataset.name}: there is no test part here, and results are of the test part.")

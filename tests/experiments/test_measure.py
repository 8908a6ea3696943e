"""What is measured of a finished run is what its name says: each protocol against a slow twin, and what is timed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from experiments.measure import HORIZONS, MEASURES, epoch_seconds, measure_snapshots, measure_state, with_settings
from experiments_small import a_job, few_facts
from tangokg.forecast import Forecaster
from tangokg.models.tango import Tango
from tangokg.rank import horizon
from tangokg.snapshots.timeline import build_timeline
from tangokg.train import build_model


@pytest.fixture
def forecaster(tmp_path: Path) -> Forecaster:
    """Untrained, with steps so long that the dynamics show in every rank."""
    dataset, config = few_facts(), a_job(tmp_path).config
    config = replace(config, settings=replace(config.settings, step_time=2.0))
    model = build_model(config, build_timeline(dataset.train))
    model.settle(build_timeline(dataset.train))
    return Forecaster(model, dataset, config)


def measured(forecaster: Forecaster, name: str) -> dict[str, Any]:
    found = MEASURES[name](forecaster)
    assert found is not None
    return found


def test_each_horizon_is_as_far_as_it_says(forecaster: Forecaster) -> None:
    found = measured(forecaster, "horizon")
    assert list(found) == [str(step) for step in HORIZONS] == [*"12345678"]
    for step, figures in found.items():
        assert figures["time-aware"] == forecaster.evaluate(protocol=horizon(float(step)))["time-aware"].to_dict()
    assert found["1"] != found["8"]


def test_multi_step_is_the_horizon_of_each_test_time_from_the_last_validation_fact(forecaster: Forecaster) -> None:
    dataset = forecaster.dataset
    total, queries = 0.0, 0
    for t in np.unique(dataset.test.t):
        far = forecaster.evaluate(protocol=horizon(float(t - dataset.valid.t.max()))).by_time("time-aware")[float(t)]
        total, queries = total + far.mrr * far.queries, queries + far.queries
    found = measured(forecaster, "multi-step")
    assert found["queries"] == queries
    assert found["time-aware"]["mrr"] == pytest.approx(total / queries)
    assert found["time-aware"]["mrr"] != pytest.approx(forecaster.evaluate()["time-aware"].mrr)


def test_inductive_asks_for_facts_with_a_name_that_training_never_saw(forecaster: Forecaster) -> None:
    train, test = forecaster.dataset.train, forecaster.dataset.test
    known = {*train.s.tolist(), *train.o.tolist()}
    facts = {*zip(test.s.tolist(), test.r.tolist(), test.o.tolist(), test.t.tolist(), strict=True)}
    new = [fact for fact in facts if not {fact[0], fact[2]} <= known]
    found = measured(forecaster, "inductive")
    assert 0 < len(new) < len(facts)
    assert found["queries"] == 2 * len(new)  # both directions


def test_asked_without_dynamics_is_with_states_that_stand_still(forecaster: Forecaster) -> None:
    found = measured(forecaster, "ablated")
    whole, still = (with_settings(forecaster, s).evaluate().to_dict() for s in ({}, {"step_time": 0.0}))
    other = with_settings(forecaster, {"graphs": "other"}).evaluate().to_dict()
    assert [found[name]["raw"] for name in ("off", "other-graphs")] == [still["raw"], other["raw"]]
    assert len({figures["raw"]["mrr"] for figures in (whole, still, other)}) == 3


def test_a_growth_common_to_all_is_a_distance_and_no_turn(forecaster: Forecaster) -> None:
    """Without messages dh/dt = h: every state grows by the same factor at a time, and turns nowhere."""
    still = measure_state(with_settings(forecaster, {"ode": False}))
    assert (still["distance"], still["turn"]) == (None, None)
    assert measure_state(forecaster)["turn"] > 0.001
    grown = with_settings(forecaster, {"normalise": False, "transition": 0.0})
    assert isinstance(grown.model, Tango)
    with torch.no_grad():
        for name, value in grown.model.named_parameters():
            if "delta" in name:
                value.zero_()
    found = measure_state(grown)
    assert found["distance"] > 1
    assert found["turn"] == pytest.approx(0, abs=1e-6)
    assert found["windows"] == len(np.unique(forecaster.dataset.test.t))


def test_groups_by_change_are_the_halves_by_the_norm_of_the_transition(forecaster: Forecaster) -> None:
    found = measure_snapshots(forecaster)
    rows = sorted(found["rows"], key=lambda row: (-row[1], row[0]))
    half = rows[: (len(rows) + 1) // 2]
    queries = sum(row[3] for row in half)
    assert found["larger"]["queries"] == queries
    assert found["larger"]["mrr"] == pytest.approx(sum(row[2] * row[3] for row in half) / queries, abs=0.01)
    assert found["all"]["mrr"] == pytest.approx(forecaster.evaluate()["time-aware"].mrr)
    facts = {(s, r, o, t) for s, r, o, t in zip(*(getattr(forecaster.facts, c).tolist() for c in "srot"), strict=True)}
    times = sorted({fact[3] for fact in facts})
    for t, norm, *_ in rows:  # reciprocal edges change as their facts do
        now, before = ({f[:3] for f in facts if f[3] == u} for u in (t, times[times.index(t) - 1]))
        assert norm == 2 * len(now ^ before)


def test_strata_share_out_all_queries_and_their_mean_is_the_whole(forecaster: Forecaster) -> None:
    found, dataset = measured(forecaster, "strata"), forecaster.dataset
    for part, facts in (("valid", dataset.valid), ("test", dataset.test)):
        assert sum(stratum["share"] for stratum in found[part].values()) == pytest.approx(100)
        whole = sum(s["share"] * s["mrr"] for s in found[part].values() if s["share"]) / 100
        assert whole == pytest.approx(forecaster.evaluate(facts)["time-aware"].mrr)


def test_no_query_with_an_unseen_entity_is_no_figure(forecaster: Forecaster) -> None:
    known = replace(forecaster.dataset, test=forecaster.dataset.train)
    assert MEASURES["inductive"](Forecaster(forecaster.model, known, forecaster.config)) is None


def test_the_time_of_an_epoch_is_the_usual_gap_between_two_ends() -> None:
    assert epoch_seconds([]) is None
    assert epoch_seconds([{"seconds": 30.0}]) is None
    ends = (30.0, 32.0, 41.0, 43.0)  # the first compiles, the third waits for a disk
    assert epoch_seconds([{"seconds": end} for end in ends]) == 2

"""What is measured of a finished run is what its name says: each protocol against a slow twin, and what is timed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from reproduce_small import HERE, a_job, few_facts, small
from tangokg.cli import main
from tangokg.forecast import Forecaster
from tangokg.models.tango import Tango
from tangokg.quads import Dataset, thin_dataset
from tangokg.rank import horizon
from tangokg.reproduce import read_results, runs
from tangokg.reproduce.measure import HORIZONS, STEPS, epoch_seconds, moved, with_settings
from tangokg.reproduce.page import render
from tangokg.reproduce.presets import THIN_SEED, THINNED
from tangokg.reproduce.view import view
from tangokg.snapshots.timeline import build_timeline
from tangokg.train import build_model

__all__ = ["small"]  # the fixture


@pytest.fixture
def forecaster(small: None) -> Forecaster:
    """Untrained, with steps so long that the dynamics show in every rank."""
    dataset, config = few_facts("ICEWS05-15"), a_job().run_config("cpu")
    config = replace(config, settings=replace(config.settings, step_time=2.0))
    model = build_model(config, build_timeline(dataset.train))
    model.settle(build_timeline(dataset.train))
    return Forecaster(model, dataset, config)


def measured(forecaster: Forecaster, name: str) -> dict[str, Any]:
    return {key: ask() for key, ask in STEPS[name](forecaster).items()}


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
    found = measured(forecaster, "multi-step")[""]
    assert found["queries"] == queries
    assert found["time-aware"]["mrr"] == pytest.approx(total / queries)
    assert found["time-aware"]["mrr"] != pytest.approx(forecaster.evaluate()["time-aware"].mrr)


def test_inductive_asks_for_facts_with_a_name_that_training_never_saw(forecaster: Forecaster) -> None:
    train, test = forecaster.dataset.train, forecaster.dataset.test
    known = {*train.s.tolist(), *train.o.tolist()}
    facts = {*zip(test.s.tolist(), test.r.tolist(), test.o.tolist(), test.t.tolist(), strict=True)}
    new = [fact for fact in facts if not {fact[0], fact[2]} <= known]
    found = measured(forecaster, "inductive")[""]
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
    still = moved(with_settings(forecaster, {"ode": False}))
    assert (still["distance"], still["turn"]) == (0, pytest.approx(0, abs=1e-6))
    assert moved(forecaster)["turn"] > 0.001
    grown = with_settings(forecaster, {"normalise": False, "transition": 0.0})
    assert isinstance(grown.model, Tango)
    with torch.no_grad():
        for name, value in grown.model.named_parameters():
            if "delta" in name:
                value.zero_()
    found = moved(grown)
    assert found["distance"] > 1
    assert found["turn"] == pytest.approx(0, abs=1e-6)
    assert found["windows"] == len(np.unique(forecaster.dataset.test.t))


def test_the_time_of_an_epoch_is_the_usual_gap_between_two_ends(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    assert epoch_seconds(log) is None
    log.write_text("epoch,seconds\n1,30\n")
    assert epoch_seconds(log) is None
    log.write_text("epoch,seconds\n1,30\n2,32\n3,41\n4,43\n")  # the first compiles, the third waits for a disk
    assert epoch_seconds(log) == 2


@pytest.mark.usefixtures("small")
def test_the_run_of_the_thinned_set_reads_the_draw_of_its_seed() -> None:
    whole, found = few_facts("ICEWS05-15"), a_job(name=f"paper-tucker/{THINNED}").dataset()
    wanted = thin_dataset(whole, THIN_SEED)
    assert found.name == THINNED
    assert [part.t.tolist() for part in found.parts.values()] == [part.t.tolist() for part in wanted.parts.values()]
    assert len(np.unique(found.facts.t)) < len(np.unique(whole.facts.t))
    assert len(a_job(name=HERE).dataset().facts) == len(whole.facts)


@pytest.mark.usefixtures("small")
def test_a_set_without_a_validation_part_runs_and_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """ICEWS14, where its test part is present."""

    def unvalidated(source: object) -> Dataset:
        whole = few_facts(source)
        return replace(whole, valid=whole.valid.select(slice(0)))

    monkeypatch.setattr(runs, "find", unvalidated)
    name = "paper-tucker/ICEWS14"
    words = ["reproduce", "--run", "--only", name, "--device", "cpu", "--work", str(tmp_path / "work")]
    assert main([*words, "--results", str(tmp_path / "results")]) == 0
    assert name in capsys.readouterr().out
    results = read_results(tmp_path / "results")
    (result,) = results.of(name)
    assert "valid" not in result
    rows = [row for block in view("main", results).blocks if block.title == "ICEWS14" for row in block.rows]
    (ours,) = [row for row in rows if row[:2] == ("TANGO-TuckER", "paper form")]
    assert ours[2] == f"{result['test']['time-aware']['mrr']:.2f}"
    assert f"| {name} | 0 |" in render(results)

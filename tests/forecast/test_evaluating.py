"""``evaluate_run``: what `tango evaluate` prints, from Python."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from conftest import make_dataset, make_forecaster
from tangokg.errors import ConfigError
from tangokg.forecast.counters import BESIDE, make_counter
from tangokg.forecast.evaluating import EvaluationSettings, evaluate_run
from tangokg.rank import horizon, inductive, multi_step


def test_each_horizon_is_measured_by_its_protocol_and_so_is_the_counter(tmp_path: Path) -> None:
    forecaster = make_forecaster("tango-distmult", make_dataset(3))
    steps: list[tuple[int, int]] = []
    found = evaluate_run(forecaster, EvaluationSettings(horizons=(1.0, 3.0)), lambda *step: steps.append(step))
    for dt, metrics in found.own:
        assert dt is not None
        assert metrics.to_dict() == forecaster.evaluate("test", horizon(dt)).to_dict()
    counter = make_counter(forecaster)
    assert [m.to_dict() for _, m in found.beside[BESIDE]] == [
        counter.evaluate("test", horizon(dt)).to_dict() for dt in (1.0, 3.0)
    ]
    assert steps == sorted(steps)
    assert steps[-1][0] == steps[-1][1]
    plain = found.to_dict(["raw"])
    assert [row["horizon"] for row in plain["results"]] == [row["horizon"] for row in plain[BESIDE]] == [1.0, 3.0]
    assert all(row["distance"] > 0 for row in plain["results"])
    console = Console(record=True, width=120, file=io.StringIO())
    console.print(found.table(["raw", "time-aware"]))
    assert console.export_text().count(BESIDE) == 4
    found.draw(tmp_path / "horizons.svg", "raw")
    assert (tmp_path / "horizons.svg").read_text().startswith("<?xml")


def test_protocols_are_those_of_the_same_name() -> None:
    forecaster = make_forecaster("recurrence", make_dataset(3))
    first = float(forecaster.dataset.test.t.min())
    for asked, protocol in (
        (EvaluationSettings(inductive=True), inductive(forecaster.seen)),
        (EvaluationSettings(multi_step=True), multi_step(first)),
    ):
        found = evaluate_run(forecaster, asked)
        assert found.own[0][1].to_dict() == forecaster.evaluate("test", protocol).to_dict()
        assert found.beside == {}, "a counter has none beside it"
    groups = found.groups("relation", "raw")
    assert sum(row["queries"] for row in groups) == found.own[0][1].queries
    assert len(found.groups("time", "raw")) == len(set(forecaster.dataset.test.t.tolist()))


def test_protocols_that_exclude_one_another_are_refused() -> None:
    with pytest.raises(ConfigError, match="--multi-step and --horizon"):
        EvaluationSettings(horizons=(2.0,), multi_step=True)
    with pytest.raises(ConfigError, match="leave out the other protocols"):
        EvaluationSettings(protocol="tgb", inductive=True)

"""Where every cell is filled, nothing is missing: tables, claims and figures say what the results say."""

from __future__ import annotations

from typing import Any

import pytest

from reproduce_small import made_up
from tangokg.reproduce import experiments, tables
from tangokg.reproduce.cells import Cell, cells_of
from tangokg.reproduce.claims import CLAIMS, dynamics, goals
from tangokg.reproduce.page import render
from tangokg.reproduce.plots import plot_ablation, plot_history, plot_horizon, plot_time_cost
from tangokg.reproduce.presets import MEASURED
from tangokg.reproduce.runs import missing
from tangokg.reproduce.store import Results
from tangokg.reproduce.view import filled, view


def figure_of(cell: Cell) -> float:
    """Made up: dynamics and the transition layer help, the more so where much changes; distance costs little."""
    mrr = 40.0 - 5 * ("-off" in cell.config) - 1.0 * ("without" in cell.config)
    mrr -= ("without" in cell.config) * (cell.column == "larger changes")
    mrr -= 0.1 * int(cell.column) if cell.table == "horizon" else 0
    return mrr - 3.0 * ("history-1" in cell.config) - 2.0 * ("thinned" in cell.config)


def make_results() -> Results:
    results = Results()
    for name, experiment in experiments().items():
        result = made_up(experiment)
        for cell in cells_of(name):
            place = result
            for key in cell.protocol:
                place = place.setdefault(key, {})
            place[cell.metric] = figure_of(cell)
        results.add(name, result, name)
    assert not results.stale
    return results


@pytest.fixture(scope="module")
def full() -> Results:
    return make_results()


def test_a_full_page_misses_nothing(full: Results) -> None:
    for name, table in tables().items():
        have, of = filled(table, full)
        assert have == of, name
        assert not [note for note in view(name, full).notes if note.startswith("Missing")]
    assert missing(full, seeds=1) == []
    page = render(full)
    assert "not measured yet" not in page
    assert "| missing |" not in page
    assert "ICEWS18 +5.00" in dynamics(full)
    assert "they help on 5 of 5 sets; against training on the graphs of other windows: ICEWS05" in dynamics(full)
    assert page.splitlines()[2].startswith("What the dynamics add")


def test_claims_are_true_or_not_by_the_results(full: Results) -> None:
    assert {claim.told(full)[1] for claim in CLAIMS} == {"true"}
    assert {claim.told(Results())[1] for claim in CLAIMS} == {"not measured yet"}
    for name in ("paper-tucker-without-transition/WIKI", "paper-tucker-without-transition/ICEWS05-15"):
        worse = make_results()
        for part in worse.found[name][0]["protocols"].values():
            for figures in part.values():
                figures["mrr"] = 60.0
        assert CLAIMS[0].told(worse)[1] == "**in 3 of 4 cases**"
    assert CLAIMS[4].told(worse)[1] == "**in 1 of 2 cases**"


def test_what_is_not_measured_names_the_command_that_measures_it() -> None:
    rows = [line for line in render(Results()).splitlines() if "| not measured yet |" in line]
    assert len(rows) == len(CLAIMS) + len(MEASURED)
    assert all("`tango reproduce --run --only " in text for text in (*rows, dynamics(Results())))


def test_of_the_two_decoders_the_one_that_is_better_on_validation_is_compared() -> None:
    results = make_results()
    for decoder, valid, test in (("tucker", 41.0, 20.0), ("distmult", 40.0, 50.0)):
        found = results.found[f"paper-{decoder}/ICEWS18"][0]
        found["valid"]["time-aware"]["mrr"], found["test"]["time-aware"]["mrr"] = valid, test
    rows = {row[0]: row for row in goals(results)}
    assert rows["ICEWS18"][:4] == ("ICEWS18", "28.97", "20.00 (TANGO-TuckER, 1 seed)", "**missed**")


def test_beside_a_goal_stand_the_best_baseline_by_validation_and_the_counter() -> None:
    results = make_results()
    for model, valid, test in (("renet", 50.0, 30.0), ("cygnet", 49.0, 60.0), ("recurrency", 10.0, 70.0)):
        found = results.found[f"baseline-{model}/WIKI"][0]
        found["valid"]["time-aware"]["mrr"], found["test"]["time-aware"]["mrr"] = valid, test
    rows = {row[0]: row for row in goals(results)}
    assert rows["WIKI"][4:] == ("30.00 (RE-Net)", "70.00")
    assert goals(Results())[0][4:] == ("", "")


def test_times_are_those_of_the_faster_device() -> None:
    results, name = make_results(), "paper-tucker/ICEWS05-15"
    own = results.found[name]
    for seed, device, seconds in ((0, "card", 10.0), (1, "cores", 900.0), (2, "card", 20.0)):
        own[seed] = {**own[0], "seed": seed, "device": device, "train_seconds": seconds}
    cell = next(cell for cell in cells_of(name) if cell.metric == "train_seconds")
    value = results.value(cell)
    assert value is not None
    assert (value.mean, value.seeds) == (15.0, 2)
    assert "card" in view("time", results).notes[0]
    assert "cores" not in view("time", results).notes[0]


def test_figures_have_the_published_curve_and_ours(full: Results) -> None:
    curves = plot_horizon(full).axes[0].get_legend_handles_labels()[1]
    assert len(plot_horizon(full).legends[0].get_texts()) == len(curves) == 5
    assert len(plot_history(full).axes) == 2
    bars: Any = plot_ablation(full).axes[0].patches
    assert sorted(bar.get_height() for bar in bars) == [1.0] * 4 + [2.0] * 4  # the gain on all, and where much changes
    assert not plot_ablation(Results()).axes[0].patches
    assert len(plot_time_cost(full).axes[0].patches) == 8 + 4 + 6
    assert len(plot_time_cost(Results()).axes[0].patches) == 8

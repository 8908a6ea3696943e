"""Each number stands where it belongs: the paper's beside ours, claims against noise, figures through their values."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from experiments.claims import CLAIMS, show_claim, show_gains, verdict
from experiments.experiment import THINNED, experiments
from experiments.overview import OVERVIEWS, show_beside_paper, show_configs
from experiments.plots import plot_ablation, plot_dynamics, plot_history, plot_horizon, plot_time, usual_window
from experiments.published import published
from experiments.show import show, value_of
from experiments.store import Results
from experiments.tables import COUNTERS, FILTERS, PART, RUN, SETS, WINDOWS, tables
from experiments_small import full_results, made_up


@pytest.fixture(scope="module")
def full() -> Results:
    return full_results()


def rows_of(text: str) -> dict[tuple[str, ...], list[str]]:
    """The cells of each row of a text, by the first two."""
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line[:1] == "|"]
    return {tuple(row[:2]): row[2:] for row in cells}


def mrr_of(results: Results, name: str, part: str = "test", seed: int = 0) -> dict[str, float]:
    """The figures of a run, to be changed."""
    figures: dict[str, float] = results.runs[name][seed][part]["time-aware"]
    return figures


# Cells


@pytest.mark.parametrize("name", tables())
def test_a_table_shows_what_is_there_and_what_is_missing(name: str, full: Results) -> None:
    cells = len(tables()[name].cells)
    assert show(name, Results()).count("| missing") == cells
    assert "missing" not in show(name, full)


@pytest.mark.parametrize("name", [name for name in tables() if tables()[name].paper])
def test_every_number_of_the_paper_stands_in_its_table(name: str) -> None:
    lines = [line.split("|")[3:] for line in show(name, Results()).splitlines() if "| paper |" in line]
    cells = [cell for line in lines for cell in line]
    shown = {float(m[1].replace(",", "")) for cell in cells if (m := re.match(r" ([\d,]+(\.\d+)?)", cell))}
    paper = tables()[name].paper
    assert paper is not None
    assert {round(float(p.value), 2) for p in paper.values.values()} <= shown


@pytest.mark.parametrize(
    ("name", "part", "filter_name"),
    [
        ("main", "test", "time-aware"),
        ("raw", "test", "raw"),
        ("unaware", "test", "time-unaware"),
        ("validation", "valid", "time-aware"),
        ("irregular", "test", "time-aware"),
    ],
)
def test_each_table_shows_its_own_part_and_filter(name: str, part: str, filter_name: str) -> None:
    """Every figure of a result is another number, so that each cell tells where it was read."""
    config = "paper-tucker/ICEWS05-15"
    result = made_up(experiments()[config])
    places = [(p, f, m) for p in ("valid", "test") for f in FILTERS for m in ("mrr", "hits@1", "hits@3", "hits@10")]
    for number, (p, f, metric) in enumerate(places):
        result[p][f][metric] = float(number)
    results = Results({config: {0: result}})
    values = [value_of(cell, results) for cell in tables()[name].of(name=config)]
    assert [value and value.mean for value in values] == [
        float(places.index((part, filter_name, metric))) for metric in ("mrr", "hits@1", "hits@3", "hits@10")
    ]


@pytest.mark.parametrize("variant", ["", "-without-transition"])
def test_inductive_figures_stand_under_their_filter_and_their_model(variant: str) -> None:
    name = f"paper-distmult{variant}/ICEWS05-15"
    figures = {f: dict.fromkeys(("mrr", "hits@1"), 1.0 + n) for n, f in enumerate(FILTERS)}
    results = Results({name: {0: made_up(experiments()[name], protocols={"inductive": figures})}})
    row = f"TANGO-DistMult{variant.replace('-', ' ')}"
    for number, column in enumerate(FILTERS):
        (cell,) = tables()["inductive"].of(row=row, column=column, form="paper form", metric="mrr")
        value = value_of(cell, results)
        assert value is not None
        assert value.mean == 1.0 + number


def test_every_published_number_of_a_model_has_a_run_of_ours_beside_it() -> None:
    for name, table in tables().items():
        ours = {(cell.row, cell.column) for cell in table.cells if cell.form in (RUN, "paper form")}
        assert {key[:2] for key in table.paper.values} <= ours if table.paper else True, name
    main = {(cell.row, cell.column) for cell in tables()["main"].cells if cell.form == RUN}
    assert main >= {(row, data) for row in COUNTERS for data in SETS}
    assert {cell.row for cell in tables()["irregular"].of(column=THINNED, form=RUN)} == {
        "TTransE",
        "CyGNet",
        "DE-SimplE",
        "TNTComplEx",
        *COUNTERS,
    }


@pytest.mark.parametrize("name", ["main", "raw", "unaware", "time"])
def test_the_column_of_icews14_is_filled_from_the_part_and_says_so(name: str, full: Results) -> None:
    cells = tables()[name].of(column="ICEWS14")
    assert {experiments()[cell.name].data for cell in cells} == {PART}
    text = show(name, full)
    assert f"ICEWS14 (ours on {PART}: 42 of 183 test days)" in text
    marked = [line for line in text.splitlines() if ", part |" in line]
    assert len(marked) == (0 if name == "time" else len({(cell.row, cell.form) for cell in cells}))


def test_seeds_and_spread_are_shown() -> None:
    results = full_results()
    for seed, mrr in ((1, 41.0), (2, 42.0)):
        results.runs["tango-tucker/ICEWS14s"][seed] = made_up(experiments()["tango-tucker/ICEWS14s"], mrr, seed)
    row = next(line for line in show("main", results).split("**ICEWS14s**")[1].splitlines() if "TuckER | ours" in line)
    assert row.startswith("| TANGO-TuckER | ours | 41.00 ± 1.00 |")
    assert row.endswith("| 3 |")


def test_settings_and_counts_stand_beside_those_of_the_paper() -> None:
    rows = rows_of(show("settings", Results()))
    for key in ("dim", "layers", "decoder", "transition", "dropout", "history"):
        paper, ours = rows[key, "paper"][:-1], rows[key, "paper form"][:-1]
        assert [a for a, b in zip(ours, paper, strict=True) if b != "–"] == [b for b in paper if b != "–"]
        assert (key, "ours") in rows
    rows = rows_of(show("statistics", Results()))
    for data in ("ICEWS14", "ICEWS18", "ICEWS05-15", "WIKI", "YAGO"):
        assert rows[data, "paper"] == rows[data, "ours"]
    assert rows[THINNED, "paper"][-1] == rows[THINNED, "ours"][-1] == "1,589"


def test_changes_and_gains_are_differences_of_what_is_shown() -> None:
    results = full_results()
    mrr_of(results, "paper-tucker-dropout-0.5/ICEWS14s")["mrr"] += 1.5
    row = rows_of(show("differences", results))["dropout 0.5 instead of 0.3", "`paper-tucker-dropout-0.5`"]
    assert row == ["40.00", "+0.00", "41.50", "+1.50"]
    results.runs["paper-tucker/WIKI"][0]["protocols"]["snapshots"]["all"]["mrr"] -= 3.0
    assert rows_of(show("ablation", results))["TANGO-TuckER on WIKI", "gain"] == ["+2.00", "-2.00"]


# Claims


def verdicts(results: Results) -> list[str]:
    return [verdict(test(results)[0]) for test in CLAIMS.values()]


def test_claims_are_true_or_not_by_the_results(full: Results) -> None:
    assert set(verdicts(full)) == {"true"}
    assert set(verdicts(Results())) == {"not measured"}
    there, rest = 38.0, (100 * 39.0 - 60 * 38.0) / 40  # without the layer; with it both are 40
    assert f"TANGO-TuckER on WIKI {rest - there:+.2f}" in show_claim("much changes", full)
    assert show_claim("horizon", full) == "true: 39.90, 39.20; ours 39.90, 39.20"
    assert show_claim("horizon", Results()) == "not measured"


@pytest.mark.parametrize(
    ("claim", "table", "by", "place"),
    [
        (0, "ablation", -1.0, {"row": "TANGO-TuckER on WIKI", "column": "all"}),
        (1, "ablation", -1.0, {"row": "TANGO-DistMult on WIKI", "column": "larger changes"}),
        (2, "horizon", -3.5, {"column": "8"}),
        (3, "irregular", -4.0, {"row": "TANGO-DistMult", "column": THINNED}),
        (4, "inductive", -1.0, {"row": "TANGO-TuckER", "column": "time-aware"}),
        (5, "history", 3.0, {"column": "1"}),
        (5, "history", 4.0, {"column": "7"}),
    ],
)
def test_a_claim_that_the_results_contradict_is_not_true(
    claim: int, table: str, by: float, place: dict[str, str]
) -> None:
    results = full_results()
    for cell in tables()[table].of(form="paper form", metric="mrr", **place):
        figures: Any = results.runs[cell.name][0]
        for key in cell.path:
            figures = figures[key]
        figures["mrr"] += by
    assert [place for place, told in enumerate(verdicts(results)) if told != "true"] == [claim]


def test_a_gain_counts_beyond_what_seeds_differ_by() -> None:
    """One point is more than the usual noise, and less than twice the standard deviation of a difference here."""
    results = full_results()
    names = [f"paper-{decoder}/{data}" for decoder in ("tucker", "distmult") for data in ("ICEWS05-15", "WIKI")]
    for number, name in enumerate(names):
        for seed, mrr in ((1, 41.0), (2, 39.0)):
            results.runs[name][seed] = made_up(experiments()[name], mrr, seed)
        left = len(names) - number - 1
        assert verdicts(results)[0] == (f"**in {left} of {len(names)} cases**" if left else "**not shown**")


def test_what_the_dynamics_add_is_the_difference_to_none(full: Results) -> None:
    rows = rows_of(show_gains(full))
    assert rows["paper form", "usual windows"] == ["+5.00"] * len(SETS)
    assert rows["ours", "usual windows, against graphs of other windows"] == ["+0.00"] * len(SETS)
    assert set(rows_of(show_gains(Results()))["ours", "windows of 0.001"]) == {"missing"}


# Overviews


@pytest.mark.parametrize("name", [name for name in OVERVIEWS if name not in ("second searches", "configs")])
def test_an_overview_needs_no_results(name: str) -> None:
    assert OVERVIEWS[name](Results()).startswith("| ")


def test_of_decoders_and_baselines_the_best_on_validation_stands_beside_the_paper() -> None:
    results = full_results()
    for name, valid, test in (
        ("paper-tucker/ICEWS18", 41.0, 20.0),
        ("paper-distmult/ICEWS18", 40.0, 50.0),
        ("paper-tucker-irdm/ICEWS18", 1.0, 12.0),
        ("printed-tucker/ICEWS18", 1.0, 13.0),
        ("baseline-renet/ICEWS18", 50.0, 30.0),
        ("baseline-cygnet/ICEWS18", 49.0, 60.0),
        ("baseline-recurrency/ICEWS18", 90.0, 70.0),
        ("flagship/ICEWS18", 1.0, 80.0),
    ):
        mrr_of(results, name, "valid")["mrr"], mrr_of(results, name)["mrr"] = valid, test
    row = next(line for line in show_beside_paper(results).splitlines() if line.startswith("| ICEWS18"))
    ours = "28.97 | 13.00 (TANGO-TuckER) | 20.00 (TANGO-TuckER) | 12.00 | 30.00 (RE-Net) | 70.00 | 80.00"
    assert row == f"| ICEWS18 | {ours} |"
    assert "| ICEWS14s | – | – |" in show_beside_paper(results)
    assert f"| ICEWS14 (ours on {PART}: 42 of 183 test days) | 26.25 | – | 40.00" in show_beside_paper(results)
    assert PART not in show_beside_paper(Results())


def test_each_config_is_listed_with_time_memory_and_score() -> None:
    name = "baseline-distmult/YAGO"
    results, experiment = Results(), experiments()[name]
    for seed, more in enumerate(({}, {"train_seconds": 120.0, "peak_bytes": 2_500_000_000})):
        results.runs.setdefault(name, {})[seed] = made_up(experiment, 40.0 + seed, seed, **more)
    rows = rows_of(show_configs(results))
    row = rows["`baseline-distmult.toml`", "DistMult, without time"]
    assert row == ["12 to 120 s, some device", "2.50 GB", "YAGO 40.50"]
    assert rows["`sets.toml`", "training of TANGO on each set"] == ["–"] * 3


# Figures


@pytest.mark.parametrize(
    ("plot", "panel", "table", "metric"),
    [
        (plot_horizon, 0, "horizon", "mrr"),
        (plot_history, 0, "history", "mrr"),
        (plot_history, 1, "history", "epoch_seconds"),
    ],
)
def test_curves_go_through_the_published_numbers_and_ours(
    plot: Callable[[Results], Any], panel: int, table: str, metric: str, full: Results
) -> None:
    axes = plot(full).axes[panel]
    lines = {str(line.get_label()): [*zip(*line.get_data(), strict=True)] for line in axes.lines}
    lines |= {bar.get_label(): [*zip(*bar.lines[0].get_data(), strict=True)] for bar in axes.containers}
    paper = published()[table]
    for row in paper.rows:
        assert lines[f"{row}, paper"] == [(int(c), paper.values[row, c, metric].value) for c in paper.columns]
    cells = tables()[table].of(row="TANGO-TuckER", form="paper form", metric=metric)
    assert lines["TANGO-TuckER, paper form"] == [(int(c.column), v.mean) for c in cells if (v := value_of(c, full))]
    assert len(cells) == len(paper.columns)


def test_bars_are_as_long_as_what_they_show(full: Results) -> None:
    axes: Any = plot_time(full).axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    widths = {name: bar.get_width() for name, bar in zip(names, axes.patches, strict=True)}
    for (row, data, _), printed in published()["time"].values.items():
        assert data != "ICEWS05-15" or widths[f"{row}, paper"] == printed.value
    for cell in tables()["time"].of(column="ICEWS05-15"):
        assert (value := value_of(cell, full)) is not None
        assert widths[f"{cell.row}, {cell.form}"] == value.mean
    bars: Any = plot_ablation(full).axes[0].patches
    assert sorted(bar.get_height() for bar in bars) == [1.0] * 4 + [2.0] * 4  # on all, and where much changes
    assert not plot_ablation(Results()).axes[0].patches


def test_the_figure_of_the_dynamics_is_the_gain_over_none(full: Results) -> None:
    panels = plot_dynamics(full).axes
    lines: list[Any] = [line for axes in panels for line in axes.lines if "," in str(line.get_label())]
    assert len(lines) == 2 * len(SETS)
    assert {usual_window("paper-distmult/WIKI"), usual_window("tango-distmult/WIKI")} == {3.6, 4.0}
    for line in lines:
        assert {float(window) for window in WINDOWS} < set(line.get_xdata())
        assert list(line.get_xdata()) == sorted(line.get_xdata())
        assert list(line.get_ydata()) == pytest.approx([5.0] * (len(WINDOWS) + 1))

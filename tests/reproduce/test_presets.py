"""The paper form is the paper's but for what is named; configs and page are what presets and results make."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tangokg.config import read_toml
from tangokg.models import MODELS
from tangokg.quads import KNOWN, find, thin_dataset
from tangokg.reproduce import experiments, find_table, published, read_results, tables
from tangokg.reproduce.cells import RUN, cells_of
from tangokg.reproduce.configs import config_files, write_configs
from tangokg.reproduce.page import render
from tangokg.reproduce.plots import PLOTS, SUFFIXES
from tangokg.reproduce.presets import (
    BASELINES,
    COUNTERS,
    DIFFERENCES_ON,
    LARGE,
    LARGE_STEPS,
    MEASURED,
    SETS,
    THIN_SEED,
    THINNED,
    THINNED_COUNTS,
    TRAINING_RANGE,
    best_decoder,
    differences_measured,
    paper_step_time,
)
from tangokg.reproduce.runs import missing, order
from tangokg.reproduce.store import Results
from tangokg.reproduce.view import view
from tangokg.train import load_config, make_config

ROOT = Path(__file__).parents[2]
PAPER_FORM = {  # the gradient is exact for the solver's steps; the paper's, irdm, approximates it
    "identity": True,
    "reach": 0.0,
    "unseen": "own",
    "newcomers": 0.0,
    "copying": False,
    "ode": True,
    "graphs": "own",
    "transition_of": "start",
    "solver": "rk4",
    "gradient": "direct",
}
PUBLISHED: dict[str, dict[str, Any]] = {  # of baselines, by the paper that compares them or by their authors
    "distmult": {"loss": "bce-asked"},  # binary
    "tucker": {"dropout_subject": 0.3, "dropout_matrix": 0.4, "dropout_query": 0.5},
    "compgcn": {"composition": "corr", "decoder": "conve", "layers": 1, "first_dim": 100, "dim": 200, "kernel": 7},
    "ttranse": {"norm": 1, "unseen": "nearest"},
    "ta-distmult": {"dim": 100, "dropout": 0.4},
    "de-simple": {"static_share": 0.68, "dropout": 0.4, "negatives": 500},
    "tntcomplex": {"dim": 156, "factor_weight": 0.01, "smooth_weight": 0.01, "smooth_power": 3.0},
    "cygnet": {"dim": 200, "penalty": 0.01},
    "renet": {"dim": 200, "history": 10, "layers": 2, "block": 2, "dropout": 0.5, "relation_loss": 0.1},
}
ALLOWED = {"static part in the decoder", "time scale", "learning rate", "batch of windows", "normalisation"}


def test_a_table_says_in_what_its_baselines_depart() -> None:
    told = " ".join(view("main", Results()).notes)
    for experiment in experiments().values():
        usual = MODELS[experiment.model]
        if experiment.preset.startswith("baseline-") and experiment.data in MEASURED:
            asked = {"batch_queries": usual.train.get("batch_queries"), **experiment.train}["batch_queries"]
            assert any("facts a step" in name for name in experiment.departures) == (asked not in (None, 1024))
            assert any("loss" in name for name in experiment.departures) == (experiment.model in ("tucker", "compgcn"))
            assert all(f"{experiment.row} {name}" in told for name in experiment.departures)


MAIN = ("paper-tucker", "paper-distmult")


def test_paper_form_departs_in_what_is_allowed_and_in_nothing_else() -> None:
    best = published()["settings"]
    for experiment in experiments().values():
        if not experiment.preset.startswith("paper-"):
            continue
        assert set(experiment.departures) <= ALLOWED
        own = make_config(experiment.model, {"settings": dict(experiment.settings)}).to_tables()["settings"]
        varied = {"step_time", "static", "normalise"}  # the departures; what is below is the paper's variants
        varied |= {"transition"} if "without-transition" in experiment.preset else set()
        varied |= {"ode", "graphs"} if experiment.preset.endswith(("-off", "-other-graphs")) else set()
        ends = {f"{base}-{end}": changed for base in MAIN for end, changed in differences_measured().items()}
        varied |= set(ends[experiment.preset].settings) if experiment.preset in ends else set()
        form = {key: value for key, value in own.items() if key in PAPER_FORM and key not in varied}
        assert form == {key: PAPER_FORM[key] for key in form}
        if experiment.preset in MAIN and experiment.data in best.columns:
            for key in ("dim", "layers", "history", "transition"):
                assert own[key] == best.values[key, experiment.data, "value"].value
            assert own["dropout"] in best.space["dropout"]


def test_the_paper_as_printed_has_its_time_scale_its_gradient_and_states_of_any_length() -> None:
    """On the paper's sets, with the decoder of its best result; learning rate and batch are not printed."""
    known = experiments()
    found = {e.data: e for e in known.values() if e.preset.startswith("printed-")}
    assert set(found) == {"ICEWS05-15", "ICEWS18", "WIKI", "YAGO"}
    for data, e in found.items():
        paper = known[e.name.replace("printed-", "paper-")]
        assert e.preset == f"printed-{best_decoder(data)}"
        assert set(e.departures) == {"learning rate", "batch of windows"}
        changed = {"step_time": paper_step_time(data), "normalise": False, "gradient": "irdm"}
        wanted = {key: value for key, value in {**paper.settings, **changed}.items() if key != "length"}
        assert (dict(e.settings), {**e.train, **paper.train}) == (wanted, e.train)
        assert set(e.train) - set(paper.train) <= {"epochs"}, "the paper's gradient takes long: fewer epochs at most"
    main = {cell.config for cell in find_table("main").cells if cell.form == "as printed"}
    assert main == {e.name for e in found.values()}


def test_the_length_of_states_is_measured_where_it_counts_most() -> None:
    known = experiments()
    for data in ("WIKI", "YAGO"):
        e, paper = known[f"paper-distmult-not-normalised/{data}"], known[f"paper-distmult/{data}"]
        assert (e.settings["normalise"], paper.settings["normalise"]) == (False, True)
        assert set(paper.settings) - set(e.settings) == {"length"}
        assert {key for key in e.settings if e.settings[key] != paper.settings[key]} == {"normalise"}
        assert "normalisation" not in e.departures
        assert any(cell.config == e.name for cell in find_table("differences").cells)


def test_every_published_tango_number_that_can_be_read_has_a_config() -> None:
    for name, table in tables().items():
        if table.paper is None or name in ("settings", "statistics"):
            continue
        cells = {(cell.row, cell.column) for cell in table.cells if cell.form == "paper form"}
        wanted = {key[:2] for key in table.paper.values if key[0].startswith("TANGO")}
        assert wanted <= cells, name
    assert {cell.config for table in tables().values() for cell in table.cells} <= set(experiments())


def test_baselines_have_the_settings_that_the_paper_names() -> None:
    """512 facts a step, each asked both ways, and what each model's authors published."""
    compared = [e for e in experiments().values() if e.row in BASELINES]
    assert {(e.row, e.data) for e in compared} >= {(row, data) for row in BASELINES for data in SETS}
    for experiment in compared:
        tables = {"settings": dict(experiment.settings), "train": dict(experiment.train)}
        config = make_config(experiment.model, tables)
        larger = experiment.model == "renet" and experiment.data in LARGE  # each step reads all snapshots
        assert config.train.batch_queries == (LARGE_STEPS["batch_queries"] if larger else 2 * 512), experiment.name
        assert config.train.batch_windows == 0
        own = config.to_tables()["settings"]
        assert own == own | PUBLISHED.get(experiment.model, {}), experiment.name
        if experiment.model == "cygnet":
            assert own["alpha"] == (0.7 if experiment.data in ("WIKI", "YAGO") else 0.8)


def test_every_published_number_of_a_baseline_has_a_run_beside_it() -> None:
    """Of that model, under the filter of the table; the training times of the figure are those of the table."""
    filters = {"main": "time-aware", "irregular": "time-aware", "raw": "raw", "unaware": "time-unaware"}
    seen = set()
    for name, table in tables().items():
        paper = published()["time"] if name == "time-cost" else table.paper
        if paper is None:
            continue
        runs = {(cell.row, cell.column, cell.metric): cell for cell in table.cells if cell.form == RUN}
        for row, column, metric in paper.values:
            if row in BASELINES and (column in table.columns or name != "time-cost"):
                cell = runs[row, column, {"seconds": "train_seconds"}.get(metric, metric)]
                assert experiments()[cell.config].model == BASELINES[row]
                place = {"inductive": column, "horizon": "time-aware"}.get(name, filters.get(name))
                assert cell.protocol[-1:] == ((place,) if place else ())
                seen.add((name, row))
    counted = {(cell.row, cell.column) for cell in tables()["main"].cells if cell.form == RUN}
    assert counted >= {(row, data) for row in COUNTERS for data in SETS}
    rows = {row for name, row in seen if name == "irregular"}
    assert rows == {"TTransE", "CyGNet", "DE-SimplE", "TNTComplEx"}
    assert {name for name, row in seen if row == "RE-Net"} >= {"main", "raw", "unaware", "horizon", "inductive", "time"}


def test_the_committed_configs_are_those_of_the_presets(tmp_path: Path) -> None:
    wanted = config_files()
    folder = ROOT / "configs"
    there = {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in folder.glob("*/*.toml")}
    assert there == wanted, "make them with tango reproduce --configs configs"
    left = tmp_path / "paper-tucker" / "gone.toml"
    left.parent.mkdir()
    left.write_text(next(iter(wanted.values())))
    assert write_configs(tmp_path) == (len(wanted), [left])
    assert not left.exists()
    found = load_config(tmp_path / "paper-tucker" / "YAGO.toml")
    assert (found.model, found.settings.dim, found.settings.identity) == ("tango-tucker", 300, True)
    paper = read_toml(tmp_path / "paper-tucker" / "ICEWS05-15.toml")["paper"]
    assert (paper["main"][0], paper["main_in"]) == (42.86, "tab: td link prediction results")
    assert (paper["horizon_8"], paper["horizon_in"]) == ([39.1], "fig: long horizontal link forecasting.")


def test_every_difference_has_its_row_on_the_page_of_differences() -> None:
    page = (ROOT / "docs" / "differences.md").read_text(encoding="utf-8")
    assert [name for name in differences_measured() if f"| `paper-tucker-{name}` |" not in page] == []
    assert "not measured yet" not in page
    rows = {row[1]: row for row in view("differences", Results()).blocks[0].rows}
    assert set(rows) == {"paper-tucker", *(f"paper-tucker-{name}" for name in differences_measured())} | {
        f"paper-distmult{end}/{data}" for end in ("", "-not-normalised") for data in ("WIKI", "YAGO")
    }


def test_the_page_of_differences_has_what_was_asked_for_each_with_its_run_or_why_none() -> None:
    page = (ROOT / "docs" / "differences.md").read_text(encoding="utf-8")
    _, _, rest = page.partition("## Departures")
    head, _, *rows = [
        line.strip("| ").split(" | ") for line in rest.partition("###")[0].splitlines() if line[:1] == "|"
    ]
    run, effect = head.index("preset of its run"), head.index("effect, validation / test")
    found = {row[0]: row[run].strip("`") for row in rows}
    assert {
        "the state in its own derivative",
        "time scale",
        "what the scale refers to",
        "history",
        "normalisation",
        "transition of which interval",
        "static part in the decoder",
        "dropout",
        "batch of windows",
    } <= set(found)
    presets = {experiment.preset for experiment in experiments().values()}
    presets |= set(experiments())
    assert [name for name, own in found.items() if own not in presets and not own.startswith("none")] == []
    told = {row[run].strip("`"): row[effect] for row in rows}
    for row, preset, _, on_valid, _, on_test in view("differences", read_results(ROOT / "results")).blocks[0].rows:
        if row.startswith("as it is"):
            continue
        assert told[preset] == ("–" if "–" in (on_valid, on_test) else f"{on_valid} / {on_test}"), preset


def test_the_readme_has_the_table_of_the_page_without_its_details() -> None:
    readme, page = ((ROOT / path).read_text(encoding="utf-8") for path in ("README.md", "docs/results.md"))
    table = page.partition("## Beside the paper's best")[2].partition("##")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + len(MEASURED)
    cells = [row.split("|") for row in rows]
    assert [cells[0][n].strip() for n in (2, 6)] == ["paper form departs in", "with IRDM"]
    assert "\n".join("|".join((*row[:2], *row[3:6], *row[7:])) for row in cells) in readme


def test_the_readme_says_what_the_paper_form_has_without_its_departures() -> None:
    """To one digit, where the runs are there."""
    readme, results = (ROOT / "README.md").read_text(encoding="utf-8"), read_results(ROOT / "results")
    told = " ".join(readme.partition("## Accuracy")[2].partition("## ")[0].split())
    names = [f"paper-distmult-not-normalised/{data}" for data in ("WIKI", "YAGO")]
    names += [f"paper-{best_decoder(data)}-window-0.001/{data}" for data in ("ICEWS05-15", "ICEWS18", "WIKI", "YAGO")]
    for name in names:
        if found := results.of(name):
            mrr = found[0]["test"]["time-aware"]["mrr"]
            assert f"{name.partition('/')[2]} {mrr:.1f}" in told, name


def test_the_page_of_differences_traces_published_numbers_with_those_of_the_main_table() -> None:
    page, results = (ROOT / "docs" / "differences.md").read_text(encoding="utf-8"), read_results(ROOT / "results")
    for data, decoder in product(("YAGO", "ICEWS14s"), ("DistMult", "TuckER")):
        row = next(line for line in page.splitlines() if line.startswith(f"| {data}, {decoder} |"))
        for form, told in zip(("authors' form", "paper form"), row.strip("| ").split(" | ")[2:], strict=True):
            cells = find_table("main").of(row=f"TANGO-{decoder}", column=data, form=form, metric="mrr")
            value = results.value(cells[0])
            assert value is not None
            assert told == f"{value.mean:.2f}", (row, form)
    verdict = page.partition("To neither closely.")[2].partition("## ")[0]
    for name in ("paper-distmult-window-0.001/YAGO", "paper-tucker-time-of-paper/ICEWS14s"):
        assert f"(`{name.partition('/')[0]}`" in verdict
        assert f"has {results.of(name)[0]['test']['time-aware']['mrr']:.2f}," in verdict.replace("\n", " ")


def test_the_distance_is_told_of_every_preset_whose_state_can_travel() -> None:
    cells = {cell.config for cell in find_table("distance").cells if cell.metric == "distance"}
    still = {"baseline", "off"}  # which has no state, and which does not move it
    presets = {name: set(e.preset.split("-")) for name, e in experiments().items() if e.data in MEASURED}
    assert cells == {name for name, words in presets.items() if not words & still}
    assert all("state" in job.needs for job in missing(Results(), ["distance"], seeds=1))


def test_results_that_lack_a_protocol_are_made_last() -> None:
    first, *rest = missing(Results(), ["distance"], seeds=1)
    lacking = Results()
    lacking.found[first.config] = {0: {"protocols": {}}}
    assert missing(lacking, ["distance"], seeds=1) == [*rest, first]


def test_the_page_of_the_docs_is_that_of_the_results() -> None:
    results = read_results(ROOT / "results")
    assert not results.stale
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert page == render(results), "make it with tango reproduce --page"
    names = [f"results-{name}{suffix}" for name in PLOTS for suffix in SUFFIXES]
    assert [name for name in names if not (ROOT / "docs" / "figures" / name).is_file()] == []


def test_the_main_table_has_five_seeds_as_in_the_paper_and_the_rest_one() -> None:
    main = {cell.config for cell in find_table("main").cells if cell.form == "paper form"}
    several = {name for name in main if name.partition("/")[2] != "ICEWS14"}
    assert {name: e.seeds for name, e in experiments().items()} == {n: 5 if n in several else 1 for n in experiments()}


def test_ablations_are_of_every_set_and_differ_from_the_preset_in_one_thing() -> None:
    """Without the ODE, with other graphs, and with windows from 0.001 to 10 units of solver time."""
    known = experiments()
    changes: dict[str, dict[str, Any]] = {"off": {"ode": False}, "other-graphs": {"graphs": "other"}}
    sets = {"ICEWS05-15", "ICEWS18", "WIKI", "YAGO", "ICEWS14s"}
    for form in ("paper", "tango"):
        for end, changed in changes.items():
            found = [e for e in known.values() if e.preset.startswith(form) and e.preset.endswith(f"-{end}")]
            assert {e.data for e in found} == sets
            for e in found:
                whole = known[e.name.replace(f"-{end}", "")]
                assert e.settings == {**whole.settings, **changed}
                assert e.train == whole.train
    windows: dict[tuple[str, str], set[float]] = {key: set() for key in product(("paper", "tango"), sets)}
    for e in known.values():
        if "-window-" in e.preset:
            config = make_config(e.model, {"settings": dict(e.settings)}).to_tables()["settings"]
            window = round(config["step_time"] * config["history"], 9)
            windows[e.preset.partition("-")[0], e.data].add(window)
            assert e.preset.endswith(f"-{window:g}")
    assert all(min(times) == 0.001 and max(times) == 10 and len(times) > 3 for times in windows.values())


def test_the_form_of_the_authors_runs_on_two_sets_with_the_settings_of_the_paper() -> None:
    found = [e for e in experiments().values() if e.preset.startswith("authors-")]
    assert {(e.data, e.row) for e in found} == set(product(("ICEWS14s", "YAGO"), ("TANGO-TuckER", "TANGO-DistMult")))
    for e in found:
        steps = {"ICEWS14s": 364, "YAGO": 188}[e.data]
        scale = published()["settings"].values["scale", {"ICEWS14s": "ICEWS14"}.get(e.data, e.data), "value"].value
        assert e.settings["step_time"] * steps == pytest.approx(scale, rel=0.01)
        assert (e.model, e.settings["layers"]) == ("tango-authors", 2)
    assert {cell.config for cell in find_table("main").cells if cell.form == "authors' form"} == {e.name for e in found}


@pytest.mark.skipif("TANGOKG_DATA" not in os.environ, reason="TANGOKG_DATA is not set")
def test_the_share_of_the_training_range_is_that_of_its_set() -> None:
    data = find(DIFFERENCES_ON)
    share = float(np.ptp(data.train.t) / np.ptp(data.facts.t))
    assert pytest.approx(share) == TRAINING_RANGE
    own = {name: found.settings for name, found in differences_measured().items()}
    whole = experiments()[f"paper-tucker/{DIFFERENCES_ON}"].settings
    assert own["time-of-whole-range"]["step_time"] == pytest.approx(whole["step_time"] * share)


def test_each_difference_changes_what_it_says_and_nothing_else() -> None:
    whole = experiments()[f"paper-tucker/{DIFFERENCES_ON}"]
    base = make_config(whole.model, {"settings": dict(whole.settings), "train": dict(whole.train)}).to_tables()
    every: set[str] = set()
    for name, difference in differences_measured().items():
        e = experiments()[f"paper-tucker-{name}/{DIFFERENCES_ON}"]
        own = make_config(e.model, {"settings": dict(e.settings), "train": dict(e.train)}).to_tables()
        changed = {key for table in ("settings", "train") for key in own[table] if own[table][key] != base[table][key]}
        assert changed == {*difference.settings, *difference.train} != set(), name
        every |= changed
    assert {"identity", "step_time", "normalise", "transition_of", "static", "dropout", "batch_windows"} <= every


def test_where_nothing_can_stop_training_its_length_is_given() -> None:
    """A set without a validation part (ICEWS14) is trained for as many epochs as were asked for."""
    for experiment in experiments().values():
        unvalidated = not KNOWN[experiment.source].rows["valid"]
        assert (experiment.train.get("patience") == 0) == unvalidated, experiment.name
        assert not unvalidated or experiment.train["epochs"] > 0


def test_runs_come_by_priority_and_each_once() -> None:
    every = list(order())
    assert len(every) == len(set(every)) == sum(e.seeds for e in experiments().values())
    place = {run: number for number, run in enumerate(every)}
    stages = [
        ("paper-tucker/ICEWS05-15", 0),
        ("paper-distmult/ICEWS18", 0),
        ("paper-tucker-without-transition/ICEWS05-15", 0),
        ("paper-tucker/ICEWS05-15-thinned", 0),
        ("paper-distmult-without-transition/WIKI", 0),
        ("paper-tucker/ICEWS18", 1),
        ("paper-tucker-history-1/ICEWS05-15", 0),
        ("paper-tucker-history-7/ICEWS05-15", 0),
        ("authors-tucker/ICEWS14s", 0),
    ]
    assert [place[run] for run in stages] == sorted(place[run] for run in stages)
    horizon = missing(Results(), ["horizon"], seeds=1)
    wanted = [f"{preset}/ICEWS05-15" for preset in ("paper-tucker", "tango-tucker", "baseline-renet", "printed-tucker")]
    assert [job.config for job in horizon] == wanted
    assert "horizon" in horizon[0].needs
    assert find_table("horizon").cells[0].needs == "horizon"


@pytest.mark.skipif("TANGOKG_DATA" not in os.environ, reason="TANGOKG_DATA is not set")
def test_the_thinned_set_is_the_first_draw_with_as_many_times_as_the_paper() -> None:
    whole = find("ICEWS05-15")
    times = np.unique(whole.facts.t)
    one_each = whole.facts.select(np.unique(whole.facts.t, return_index=True)[1])
    light = replace(whole, train=one_each, valid=one_each.select(slice(0)), test=one_each.select(slice(0)))
    seeds = range(THIN_SEED + 1)
    assert [seed for seed in seeds if len(thin_dataset(light, seed).train) == 1589] == [THIN_SEED]
    thinned = thin_dataset(whole, THIN_SEED)
    assert (thinned.name, len(times)) == (THINNED, 4017)
    assert [len(part) for part in thinned.parts.values()] == [THINNED_COUNTS[p] for p in ("train", "valid", "test")]
    names = {"entities": thinned.vocab.num_entities, "relations": thinned.vocab.num_relations}
    assert names | {"times": len(np.unique(thinned.facts.t))} == {key: THINNED_COUNTS[key] for key in (*names, "times")}


def test_every_experiment_fills_a_cell() -> None:
    assert [name for name in experiments() if not cells_of(name)] == []

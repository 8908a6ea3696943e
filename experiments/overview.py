"""Overview tables: our results against the paper's best, the default model, the configs, the searches."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from experiments.bench.shown import amount, markdown
from experiments.experiment import CONFIGS, Experiment, experiments
from experiments.published import best_printed, published, systems
from experiments.show import NONE, number, paper_number, plain, title
from experiments.store import Result, Results, Value
from experiments.tables import COLUMNS, FORMS, PART, RUN, SETS, best_decoder, row_of, tables
from tangokg.config import read_toml
from tangokg.rank.strata import STRATA

STUDIES = Path(__file__).parent / "studies"
DEFAULT = "flagship"  # the config of the default model
AHEAD = ("1", "2", "4", "8")
SEARCHED = ("step_time", "dropout", "learning_rate", "batch_windows", "static")


def _mrr(value: Value | None, whose: str = "") -> str:
    """A figure with its source."""
    return f"{number(value)}{f' ({whose})' if whose else ''}" if value else NONE


def best_on_validation(results: Results, candidates: dict[str, str]) -> tuple[str, str]:
    """Of experiments by row, the row and the name of the one with the best validation MRR."""
    valid = {row: value.mean for row, name in candidates.items() if (value := results.mrr(name, "valid"))}
    row = max(valid, key=lambda row: valid[row], default="")
    return row, candidates.get(row, "")


def best_in_paper_form(results: Results, data: str) -> tuple[str, str]:
    """The better decoder by validation."""
    decoders = ("tucker", "distmult")
    return best_on_validation(results, {row_of(decoder): f"paper-{decoder}/{data}" for decoder in decoders})


def show_beside_paper(results: Results, brief: bool = False) -> str:
    """For each set: the paper's best, our runs, the best baseline by validation, counting, and the default model."""
    rows = []
    for data in (*SETS, PART):
        model, name = best_in_paper_form(results, data)
        if data == PART and not name:
            continue
        value = results.mrr(name)
        seeds = f", {value.seeds} seeds" if value and value.seeds > 1 else ""
        baselines = {e.row: e.name for e in experiments().values() if (e.form, e.data) == (RUN, data)}
        rows_of_paper = published()["main"].rows
        baseline, of_baseline = best_on_validation(results, {r: n for r, n in baselines.items() if r in rows_of_paper})
        column = COLUMNS.get(data, data)
        best, decoder = best_printed(column), best_decoder(column)
        cells = {
            "data set": title(column),
            "best of the paper": NONE if best is None else f"{best:.2f}",
            "as printed, our run": _mrr(results.mrr(f"printed-{decoder}/{data}"), row_of(decoder)),
            "our best in paper form": _mrr(value, model + seeds),
            "the same with IRDM": _mrr(results.mrr(name.replace("/", "-irdm/"))),
            "best baseline, our runs": _mrr(results.mrr(of_baseline), baseline),
            "counting": _mrr(results.mrr(f"baseline-recurrency/{data}")),
            "`tango`": _mrr(results.mrr(f"{DEFAULT}/{data}")),
        }
        if brief:
            del cells["the same with IRDM"], cells["`tango`"]
        rows.append(cells)
    return markdown(list(rows[0]), [list(cells.values()) for cells in rows])


def show_departures(results: Results) -> str:
    """The effect of each departure in the paper form: test MRR without it, on the paper's own sets."""
    rows = []
    for data in SETS:
        best, preset = best_printed(data), f"paper-{best_decoder(data)}"
        names = [f"{preset}/{data}", f"{preset}-not-normalised/{data}", f"{preset}-window-0.001/{data}"]
        if best is not None:
            rows.append((data, f"{best:.2f}", *(_mrr(results.mrr(name)) for name in names)))
    return markdown(("data set", "best of the paper", "paper form", "states of any length", "windows of 0.001"), rows)


def show_forms(results: Results) -> str:
    """TANGO in each of its forms: test MRR, time-aware."""
    table, rows = tables()["main"], []
    for data in SETS:
        for row in ("TANGO-DistMult", "TANGO-TuckER"):
            cells = {cell.form: cell.name for cell in table.of(row=row, column=data, metric="mrr")}
            printed = paper_number(published()["main"].get(row, data, "mrr"))
            rows.append((f"{data}, {row}", printed, *(_mrr(results.mrr(cells.get(form, ""))) for form in FORMS[:-1])))
    return markdown(("", "paper", *FORMS[:-1]), rows)


# The default model


def _of_default(variant: str = "") -> list[Experiment]:
    return [e for e in experiments().values() if (e.file, e.variant) == (DEFAULT, variant)]


def show_default(results: Results) -> str:
    """The default model against counting, the paper form and published systems."""
    data = [e.data for e in _of_default()]
    rows = [
        ("`tango`", *(_plain_mrr(results.mrr(f"{DEFAULT}/{name}")) for name in data)),
        ("`recurrency` (two numbers a relation)", *(_plain_mrr(results.mrr(f"recurrency/{name}")) for name in data)),
        ("the paper form of TANGO", *(_plain_mrr(results.mrr(best_in_paper_form(results, name)[1])) for name in data)),
    ]
    for system in systems():
        figures = (f"{system['mrr'][name]:.1f}" if name in system["mrr"] else NONE for name in data)
        rows.append((f"{system['name']} ({system['note']})", *figures))
    return markdown(("", *data), rows)


def _plain_mrr(value: Value | None) -> str:
    return f"{value.mean:.2f}" if value else NONE


def _figures(results: Results, name: str, paths: Iterable[tuple[str, ...]]) -> list[str]:
    """Figures of an experiment, by their places in its results."""
    return [_plain_mrr(results.value(name, *path)) for path in paths]


def show_default_in_brief(results: Results) -> str:
    """A shorter table for the front page: the best published system without look-ahead."""
    rows = []
    for experiment in _of_default():
        data = experiment.data
        clean = [system for system in systems() if system["clean"] and data in system["mrr"]]
        best = max(clean, key=lambda system: float(system["mrr"][data]), default=None)
        names = (experiment.name, f"recurrency/{data}", best_in_paper_form(results, data)[1])
        best_text = f"{best['mrr'][data]:.1f} ({best['name']})" if best else NONE
        rows.append((data, *(_plain_mrr(results.mrr(name)) for name in names), best_text))
    return markdown(("data set", "`tango`", "`recurrency`", "paper form", "best published without look-ahead"), rows)


def show_default_means(results: Results) -> str:
    """The averaged shares of several seeds."""
    means = {e.data: results.means[e.name]["test"] for e in _of_default() if e.name in results.means}
    mrr = (f"{test['time-aware']['mrr']:.2f}" for test in means.values())
    return markdown(("", *means), [("mean of the seeds", *mrr)])


def _detailed(results: Results) -> Iterator[tuple[str, str, str]]:
    """Label, seeds and name of the default model, its variants and counting on each set."""
    usual = [e.data for e in _of_default()]
    for experiment in (e for e in experiments().values() if e.file == DEFAULT and e.data in usual):
        label = f"{experiment.data}-{experiment.variant}" if experiment.variant else experiment.data
        yield label, str(len(results.of(experiment.name))), experiment.name
    for experiment in _of_default():
        yield f"`recurrency`, {experiment.data}", NONE, f"recurrency/{experiment.data}"


def show_default_strata(results: Results) -> str:
    """Results by stratum, multi-step, and for entities that training never saw."""
    paths = [("strata", "test", name, "mrr") for name in STRATA]
    paths += [("protocols", name, "time-aware", "mrr") for name in ("multi-step", "inductive")]
    rows = [(label, seeds, *_figures(results, name, paths)) for label, seeds, name in _detailed(results)]
    return markdown(("", "seeds", *STRATA, "multi-step", "questions with an entity that training never saw"), rows)


def show_default_ahead(results: Results) -> str:
    """Results several steps ahead."""
    paths = [("protocols", "horizon", step, "time-aware", "mrr") for step in AHEAD]
    rows = [(label, *_figures(results, name, paths)) for label, _, name in _detailed(results)]
    return markdown(("", *AHEAD), rows)


# A large set

LARGE = {  # on retrosheet: label -> preset
    "the objects of the last snapshot again": "baseline-copy-last",
    "counting: how often a fact was seen": "baseline-frequency",
    "`recurrency`": "recurrency",
    "the paper form of TANGO": "paper-tucker-large",
    "`tango`": "flagship-large",
    "`tango`, a small size": "flagship-large-cpu",
}


def show_large(results: Results) -> str:
    """Accuracy, time and memory on retrosheet."""
    paths = [("test", "time-aware", "mrr"), ("test", "time-aware", "hits@10"), ("strata", "test", "recurrent", "mrr")]
    paths += [("strata", "test", "cold", "mrr"), ("protocols", "inductive", "time-aware", "mrr")]
    rows = []
    for label, preset in LARGE.items():
        if runs := results.of(name := f"{preset}/retrosheet"):
            rows.append((label, *_figures(results, name, paths), _time(runs), _memory(runs)))
    head = ("", "MRR", "Hits@10", "recurrent", "cold", "entities that training never saw", "training time", "memory")
    return markdown(head, rows)


# The configs


def show_configs(results: Results) -> str:
    """For each config file: its description, the time and memory of a run, and its score."""
    rows = []
    for path in sorted(CONFIGS.glob("*.toml")):
        chosen = [e for e in experiments().values() if e.file == path.stem]
        usual = [e for e in chosen if not e.variant]
        runs = [result for e in chosen for result in results.of(e.name)]
        scores = ", ".join(f"{e.data} {_plain_mrr(value)}" for e in usual if (value := results.mrr(e.name)))
        variants = len({e.variant for e in chosen} - {""})
        about = read_toml(path)["about"] + (f"; {variants} variant{'s' * (variants > 1)}" if variants else "")
        rows.append((f"`{path.name}`", about, _time(runs), _memory(runs), scores or NONE))
    return markdown(("file", "what it is", "training time", "memory", "test MRR, time-aware"), rows, left=5)


def _time(runs: list[Result]) -> str:
    """The range of training times on the most common device."""
    if not runs:
        return NONE
    device = Counter(str(result["device"]) for result in runs).most_common(1)[0][0]
    seconds = [float(result["train_seconds"]) for result in runs if result["device"] == device]
    bounds = dict.fromkeys(f"{round(bound):,}" for bound in (min(seconds), max(seconds)))  # one where they are equal
    return f"{' to '.join(bounds)} s, {device}"


def _memory(runs: list[Result]) -> str:
    known = [result["peak_bytes"] for result in runs if result.get("peak_bytes")]
    return amount(max(known)) if known else NONE


# The searches on the real sets


def _trials(folder: str) -> dict[str, dict[str, Any]]:
    """The studies of a folder by data set."""
    paths = {data: STUDIES / folder / f"{data}.json" for data in sorted(SETS)}
    return {data: json.loads(path.read_text(encoding="utf-8")) for data, path in paths.items() if path.exists()}


def best_trial(study: dict[str, Any]) -> dict[str, Any]:
    """The trial with the best validation MRR."""
    measured = [trial for trial in study["trials"] if trial["mrr"] is not None and trial["state"] != "failed"]
    return max(measured, key=lambda trial: float(trial["mrr"]))


def _states(study: dict[str, Any], *names: str) -> list[str]:
    states = [trial["state"] for trial in study["trials"]]
    return [str(states.count(name)) for name in names]


def _best(study: dict[str, Any], names: Sequence[str]) -> list[str]:
    best = best_trial(study)
    return [f"{best['mrr']:.2f}", *(plain(best["values"][name]) for name in names)]


def show_first_searches(results: Results) -> str:
    """The search results behind the configs."""
    states = ("done", "pruned", "failed", "under way")
    studies = _trials("tune").items()
    rows = [(data, study["model"], *_states(study, *states), *_best(study, SEARCHED)) for data, study in studies]
    names = (f"`{name}`" for name in SEARCHED)
    return markdown(("data set", "model", "done", "given up", "failed", "under way", "best MRR", *names), rows, left=2)


def show_second_searches(results: Results) -> str:
    """Searches in the form of the configs, compared with the validation MRR of the configs."""
    rows = []
    for data, study in _trials("tune-pruned").items():
        config = _plain_mrr(results.mrr(f"paper-{best_decoder(data)}/{data}", "valid"))
        rows.append((data, *_states(study, "done", "pruned", "under way"), config, *_best(study, SEARCHED[:-1])))
    names = (f"`{name}`" for name in SEARCHED[:-1])
    return markdown(("data set", "done", "given up", "under way", "config", "best MRR", *names), rows)


OVERVIEWS: dict[str, Callable[[Results], str]] = {
    "beside paper": show_beside_paper,
    "beside paper in brief": lambda results: show_beside_paper(results, brief=True),
    "departures": show_departures,
    "forms": show_forms,
    "default model": show_default,
    "default model in brief": show_default_in_brief,
    "default model means": show_default_means,
    "default model strata": show_default_strata,
    "default model ahead": show_default_ahead,
    "large": show_large,
    "configs": show_configs,
    "first searches": show_first_searches,
    "second searches": show_second_searches,
}

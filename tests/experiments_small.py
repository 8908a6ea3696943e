"""Small experiments: results that nobody measured, and configs with models of a few numbers on a few facts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conftest import make_dataset
from experiments import runs
from experiments.experiment import Experiment, experiments
from experiments.runs import Job
from experiments.store import Results
from experiments.tables import Cell, tables
from tangokg.quads import Dataset
from tangokg.rank import FILTERS

HERE = "paper-tucker/ICEWS05-15"


def made_up(experiment: Experiment, mrr: float = 40.0, seed: int = 0, **other: Any) -> dict[str, Any]:
    """A result of the right form."""
    figures = {name: {"mrr": mrr, "hits@1": 30.0, "hits@3": 45.0, "hits@10": 58.0} for name in FILTERS}
    return {
        "preset": experiment.preset,
        "model": experiment.model,
        "dataset": experiment.data,
        "seed": seed,
        "config": experiment.config(seed).to_tables(),
        "valid": json.loads(json.dumps(figures)),
        "test": figures,
        "queries": {"valid": 10, "test": 10},
        "epochs": 3,
        "files": {"train.txt": "0" * 64},
        "train_seconds": 12.0,
        "device": "some device",
        "versions": {"tangokg": "0"},
        "commit": "0000000",
        "protocols": {},
        "epoch_seconds": 4.0,
        **other,
    }


def figure_of(cell: Cell) -> float:
    """Dynamics and the transition layer help, the more so where much changes; distance costs little."""
    mrr = 40.0 - 5 * ("-off" in cell.name) - 1.0 * ("without" in cell.name)
    mrr -= ("without" in cell.name) * (cell.column == "larger changes")
    mrr -= 0.1 * int(cell.column) if cell.path[1:2] == ("horizon",) else 0
    return mrr - 3.0 * ("history-1" in cell.name) - 2.0 * ("thinned" in cell.name)


def full_results() -> Results:
    """Every cell of every table filled."""
    results = Results({name: {0: made_up(experiment)} for name, experiment in experiments().items()})
    for table in tables().values():
        for cell in table.cells:
            place: Any = results.runs[cell.name][0]
            for key in cell.path:
                place = place.setdefault(key, {})
            place[cell.metric] = figure_of(cell)
    for runs_of_one in results.runs.values():
        for group, queries in (("larger", 60), ("all", 100)):
            if groups := runs_of_one[0]["protocols"].get("snapshots"):
                groups[group]["queries"] = queries
    return results


def few_facts(name: str = "small") -> Dataset:
    return replace(make_dataset(3, snapshots=12), name=name)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every data set is a few facts."""
    monkeypatch.setattr(runs, "open_dataset", few_facts)


def a_job(folder: Path, name: str = HERE, seed: int = 0, **other: Any) -> Job:
    """A run of a few numbers."""
    tiny = {"dim": 4, "layers": 1, "history": 2}
    train = {"epochs": 3, "batch_windows": 2, "learning_rate": 0.01}
    experiment = experiments()[name]
    experiment = replace(experiment, settings={**experiment.settings, **tiny}, train=train, measure=("inductive",))
    return Job(experiment, seed, folder / "out", folder / "work", "cpu", **other)

"""The experiments with models of a few numbers on a few facts: names, tables and protocols are the real ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from conftest import make_dataset
from tangokg.quads import Dataset
from tangokg.reproduce import cells, pool, presets, runs

TINY = {"dim": 4, "layers": 1, "history": 2}


def forget() -> None:
    """What was derived from the experiments."""
    for derived in (presets.experiments, cells.tables, cells.cells_of):
        derived.cache_clear()


def few_facts(source: object) -> Dataset:
    return replace(make_dataset(3, snapshots=12), name=str(source))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every experiment small, every data set a few facts."""
    real = presets._experiments

    def shrunk() -> Iterator[presets.Experiment]:
        for experiment in real():
            train = {"epochs": 3, "batch_windows": 2, "learning_rate": 0.01}
            yield replace(experiment, settings={**experiment.settings, **TINY}, train=train)

    monkeypatch.setattr(presets, "_experiments", shrunk)
    monkeypatch.setattr(runs, "find", few_facts)
    monkeypatch.setattr(pool, "without_data", lambda jobs: iter(()))
    forget()
    yield
    monkeypatch.undo()
    forget()

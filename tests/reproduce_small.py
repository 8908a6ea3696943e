"""The experiments with models of a few numbers on a few facts: names, tables and protocols are the real ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from conftest import make_dataset
from tangokg.models import MODELS
from tangokg.quads import Dataset
from tangokg.reproduce import cells, pool, presets, runs
from tangokg.reproduce.checks import FILTERS, SCHEMA
from tangokg.reproduce.runs import Job
from tangokg.train import make_config

HERE = "paper-tucker/ICEWS05-15"
TINY = {"dim": 4, "layers": 1, "history": 2}


def forget() -> None:
    """What was derived from the experiments."""
    for derived in (presets.experiments, cells.tables, cells.cells_of):
        derived.cache_clear()


def made_up(experiment: presets.Experiment, mrr: float = 40.0, seed: int = 0) -> dict[str, Any]:
    """A result of the right form with figures that nobody measured."""
    tables = {"settings": dict(experiment.settings), "train": dict(experiment.train)}
    figures = {name: {"mrr": mrr, "hits@1": 30.0, "hits@3": 45.0, "hits@10": 58.0} for name in FILTERS}
    return {
        "schema": SCHEMA,
        "preset": experiment.preset,
        "model": experiment.model,
        "dataset": experiment.data,
        "seed": seed,
        "config": make_config(experiment.model, tables, seed=seed).to_tables(),
        "valid": json.loads(json.dumps(figures)),
        "test": figures,
        "queries": {"valid": 10, "test": 10},
        "epochs": 3,
        "best_epoch": 2,
        "files": {"train.txt": "0" * 64, "valid.txt": "1" * 64, "test.txt": "2" * 64},
        "train_seconds": 12.0,
        "device": "some device",
        "versions": {"tangokg": "0"},
        "commit": "0000000",
        "protocols": {},
        "epoch_seconds": 4.0,
        "date": "2026-01-02T00:00:00+00:00",
    }


def few_facts(source: object) -> Dataset:
    return replace(make_dataset(3, snapshots=12), name=str(source))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every experiment small, every data set a few facts."""
    real = presets._experiments

    def shrunk() -> Iterator[presets.Experiment]:
        for experiment in real():
            train = {"epochs": 3, "batch_windows": 2, "learning_rate": 0.01}
            has = MODELS[experiment.model].settings
            tiny = {key: value for key, value in TINY.items() if hasattr(has, key)}
            yield replace(experiment, settings={**experiment.settings, **tiny}, train=train)

    monkeypatch.setattr(presets, "_experiments", shrunk)
    monkeypatch.setattr(runs, "find", few_facts)
    monkeypatch.setattr(pool, "without_data", lambda jobs: iter(()))
    forget()
    yield
    monkeypatch.undo()
    forget()


class Quiet:
    """A board that keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def begin(self, job: Job) -> None:
        self.heard.append(f"begin {job.label}")

    def look(self, job: Job, log: list[dict[str, float]]) -> None:
        pass

    def end(self, job: Job, how: str) -> None:
        self.heard.append(f"end {job.label}: {how}")

    def fail(self, job: Job, why: str) -> None:
        self.heard.append(f"fail {job.label}: {why}")


def a_job(seed: int = 0, name: str = HERE, needs: tuple[str, ...] = (), again: bool = False) -> Job:
    return replace(Job.of(presets.experiments()[name], seed), needs=needs, again=again)

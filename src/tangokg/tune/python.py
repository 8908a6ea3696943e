"""``tangokg.tune``: a search for settings, from Python."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tangokg.errors import ConfigError, TrainingError, check_least, checked
from tangokg.forecast.training import read_with
from tangokg.quads.showing import html_table, to_frame
from tangokg.train import RunConfig
from tangokg.tune.display import Display, cell
from tangokg.tune.figure import plot_study
from tangokg.tune.sampling import load_optuna
from tangokg.tune.space import PRESETS, Plan, make_plan
from tangokg.tune.study import Outcome, best_of
from tangokg.tune.work import Search, work, work_together


@dataclass(frozen=True)
class Tuned:
    """What a search found: the best config, for ``tangokg.fit(data, tuned.config)``, and every trial."""

    config: RunConfig
    best: Outcome
    trials: tuple[Outcome, ...]
    plan: Plan
    name: str  # of the data set

    def __repr__(self) -> str:
        values = ", ".join(f"{key}={value}" for key, value in self.best.values.items())
        return f"Tuned(validation MRR {self.best.mrr:.2f} with {values}; {len(self.trials)} trials)"

    def to_pandas(self) -> Any:
        """A pandas DataFrame with a row for each trial: what was tried, and the validation MRR."""
        return to_frame(self._rows())

    def draw(self, path: Path, title: str = "") -> None:
        """The trials in order and by setting; :func:`tangokg.plot` calls it."""
        plot_study(path, list(self.trials), self.plan.space, title or f"{self.plan.preset} on {self.name}")

    def _repr_html_(self) -> str:
        rows = [[cell(value) for value in row.values()] for row in self._rows()]
        return html_table(repr(self), list(self._rows()[0]), rows, left=2)

    def _rows(self) -> list[dict[str, Any]]:
        names = list(self.plan.space)
        return [
            {"trial": o.number, "state": o.state}
            | {name: o.values.get(name, "") for name in names}
            | {"mrr": o.mrr, "epochs": o.epochs, "seconds": o.seconds}
            for o in self.trials
        ]


@checked
def tune(
    data: Any,
    model: str | None = None,
    *,
    preset: str = "search",
    trials: int | None = None,
    budget: float | None = None,
    study: str | Path | None = None,
    workers: int = 1,
    pruner: str = "median",
    seed: int = 0,
    verbose: bool = True,
    **settings: Any,
) -> Tuned:
    """Search for good settings on the validation part; the test part is never looked at. Needs Optuna.

    ``settings`` are fixed, or choices where they are lists: ``dim=32, history=[2, 4]``; those of
    :func:`tangokg.read_events` (``unit``, ``columns``, ...) say how a table or folder is read. ``budget`` is in
    seconds. With ``study`` the trials are kept in that file: one that is there goes on.
    """
    load_optuna()
    check_least("tune", 1, trials=trials, workers=workers)
    check_least("tune", 0, above=True, budget=budget)
    if preset not in PRESETS:
        raise ConfigError(f"unknown preset {preset!r}; expected one of {', '.join(PRESETS)}.")
    began = time.time()
    dataset, settings = read_with(data, settings)
    plan = make_plan(dataset, preset, model, [_assignment(key, value) for key, value in settings.items()], seed)
    most = min(trials or plan.size or PRESETS[preset].trials, plan.points or 10**9)
    deadline = None if budget is None else began + budget
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trials.study" if study is None else Path(study)
        search = Search(dataset, plan, path, most, pruner, deadline)
        outcomes = _search(search, workers, verbose)
    best = best_of(outcomes)
    if best is None:
        raise TrainingError("no trial came to an epoch: give more time, or smaller settings.")
    return Tuned(plan.final(best.values), best, tuple(outcomes), plan, dataset.name)


def _search(search: Search, workers: int, verbose: bool) -> list[Outcome]:
    from rich.console import Console

    def run(hear: Callable[[list[Outcome]], None]) -> list[Outcome]:
        return work_together(search, workers, hear) if workers > 1 else work(search, hear=hear)

    with Display(Console(stderr=True, quiet=not verbose), search.trials) as display:
        return run(display.hear)


def _assignment(key: str, value: Any) -> str:
    from tangokg.config import to_toml

    return to_toml({key: list(value) if isinstance(value, tuple) else value}).strip().replace(" = ", "=", 1)

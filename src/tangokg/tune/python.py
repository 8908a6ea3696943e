"""``tangokg.tune``: a search for settings, from Python."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from tangokg.config import to_toml
from tangokg.errors import ConfigError, TrainingError, check_least, checked
from tangokg.forecast.training import read_with
from tangokg.quads.values import Dataset
from tangokg.showing import counted, html_table, to_frame
from tangokg.train import RunConfig
from tangokg.train.checkpoint import write_atomically
from tangokg.tune.display import Display, cells
from tangokg.tune.figure import interactive_study, plot_study
from tangokg.tune.outcomes import OVER, Outcome, best_of
from tangokg.tune.sampling import load_optuna
from tangokg.tune.space import PRESETS, Plan, make_plan
from tangokg.tune.storage import Shared, parse_storage
from tangokg.tune.work import Search, work, work_together


@dataclass(frozen=True)
class Tuned:
    """The result of a search: the best config, for ``tangokg.fit(data, tuned.config)``, and every trial."""

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

    def save(self, path: str | Path) -> None:
        """Write the best config as TOML, for ``tango train --config`` and :func:`tangokg.train.load_config`."""
        over = sum(trial.state in OVER for trial in self.trials)
        trials = f"{counted(over, 'trial')} of {self.plan.preset}"
        head = f"# Best of {trials}: validation MRR {self.best.mrr:.2f} (trial {self.best.number})\n"
        tables = self.config.to_tables() | {"data": {"name": self.name}}
        write_atomically(Path(path), (head + to_toml(tables)).encode())

    def draw(self, path: Path, title: str = "") -> None:
        """The trials in order and by setting; :func:`tangokg.plot` calls it."""
        plot_study(path, list(self.trials), self.plan.space, title or f"{self.plan.preset} on {self.name}")

    def figure(self, title: str = "") -> Any:
        """The same as a plotly figure for notebooks; :func:`tangokg.plot` calls it without a path."""
        return interactive_study(self.trials, title or f"{self.plan.preset} on {self.name}")

    def _repr_html_(self) -> str:
        rows = [cells(trial, self.plan.space) for trial in self.trials]
        return html_table(repr(self), list(self._rows()[0]), rows, left=2)

    def _rows(self) -> list[dict[str, Any]]:
        return [trial.to_row(self.plan.space) for trial in self.trials]


@checked
def tune(
    data: Any,
    model: str | None = None,
    *,
    preset: str = "search",
    trials: int | None = None,
    budget: float | None = None,
    study: str | Path | None = None,
    storage: str | None = None,
    workers: int = 1,
    pruner: str = "median",
    seed: int = 0,
    verbose: bool = True,
    **settings: Any,
) -> Tuned:
    """Search for good settings on the validation part; the test part is never looked at. Needs Optuna.

    ``settings`` are fixed, or choices where they are lists: ``dim=32, history=[2, 4]``; those of
    :func:`tangokg.read_events` (``unit``, ``columns``, ...) say how a table or folder is read. ``budget`` is in
    seconds. With ``study`` the trials are kept in that file: one that is there goes on. With ``storage``, such as
    ``postgresql://user@host/database``, they are kept there under the name ``study``, for workers on many machines.
    """
    check_least("tune", 1, trials=trials, workers=workers)
    check_least("tune", 0, above=True, budget=budget)
    load_optuna()
    began = time.time()
    dataset, settings = read_with(data, settings)
    texts = [_assignment(key, value) for key, value in settings.items()]
    deadline = None if budget is None else began + budget
    with tempfile.TemporaryDirectory() as folder:
        path, shared = choose_place(study, storage, dataset.name, preset, Path(folder) / "trials.study")
        search = make_search(dataset, preset, model, texts, seed, path, trials, pruner, deadline, shared)
        outcomes = run_search(search, workers, Console(stderr=True, quiet=not verbose))
    result = tuned(search, outcomes)
    if result is None:
        raise TrainingError("no trial completed an epoch: give more time, or smaller settings.")
    return result


def choose_place(
    study: str | Path | None, storage: str | None, data: str, preset: str, usual: Path
) -> tuple[Path, Shared | None]:
    """Where a study is: a file, or a name in a storage, whose checkpoints lie below ``runs``."""
    if storage is None:
        return Path(study or usual), None
    name = str(study or re.sub(r"[^\w.-]+", "-", f"{data}-{preset}").lstrip(".-"))
    if not re.fullmatch(r"\w[\w.-]{0,99}", name):
        raise ConfigError(f"--study {name!r}: with --storage expected a name of letters, digits, '-', '_' and '.'.")
    return Path("runs") / name, Shared(name, parse_storage(storage))


def make_search(
    dataset: Dataset,
    preset: str,
    model: str | None,
    assignments: Iterable[str],
    seed: int,
    path: Path,
    trials: int | None = None,
    pruner: str = "median",
    deadline: float | None = None,
    shared: Shared | None = None,
) -> Search:
    """A search that is checked and has its number of trials: by default that of the preset, or the whole grid."""
    plan = make_plan(dataset, preset, model, assignments, seed)
    most = min(trials or plan.size or PRESETS[preset].trials, plan.points or 10**9)
    return Search(dataset, plan, path, most, pruner, deadline, shared)


def run_search(search: Search, workers: int, console: Console) -> list[Outcome]:
    """Run the trials of a search, in this process or in ``workers`` others, with a display."""
    with Display(console, search.trials) as display:
        if workers > 1:
            return work_together(search, workers, display.update_trials)
        return work(search, hear=display.update_trials)


def tuned(search: Search, outcomes: list[Outcome]) -> Tuned | None:
    """The result of a search; None if no trial completed an epoch."""
    best = best_of(outcomes)
    if best is None:
        return None
    return Tuned(search.plan.final(best.values), best, tuple(outcomes), search.plan, search.dataset.name)


def _assignment(key: str, value: Any) -> str:
    """``key=value`` as ``--set`` takes it; a tuple is a list of choices."""
    return to_toml({key: list(value) if isinstance(value, tuple) else value}).strip().replace(" = ", "=", 1)

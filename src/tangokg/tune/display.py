"""The display of a search: a line for each ended trial, and a live bar on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from tangokg.showing import counted
from tangokg.tune.outcomes import OVER, Outcome, best_of


class Display(Progress):
    """Shows newly ended trials of a study, from any worker; use it as a context manager."""

    def __init__(self, console: Console, trials: int) -> None:
        columns = (BarColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        super().__init__(*columns, console=console, transient=True, disable=not console.is_terminal)
        self.trials, self.bar = trials, self.add_task("", total=trials)
        self.printed: set[int] | None = None  # numbers of the trials that have their line
        self.best = -1.0

    def update_trials(self, outcomes: list[Outcome]) -> None:
        """Print the trials that have ended since the last call; those of an existing study count as printed."""
        over = [outcome for outcome in outcomes if outcome.state in OVER]
        if self.printed is None:
            self.printed = {outcome.number for outcome in over}
            if over:
                self._say(f"{len(over)} of {self.trials} trials have ended before; {_best(outcomes)}")
            self.best = max((outcome.mrr or -1.0 for outcome in over), default=-1.0)
        for outcome in over:
            if outcome.number not in self.printed:
                self.printed.add(outcome.number)
                self._print_trial(outcome)
        running = "  ".join(
            f"trial {o.number} epoch {o.epochs + 1}{f' MRR {o.mrr:.2f}' if o.mrr is not None else ''}"
            for o in outcomes
            if o.state == "under way"
        )
        description = f"{len(over)}/{self.trials}  {running}  {_best(outcomes)}"
        self.update(self.bar, completed=len(over), description=description)

    def _print_trial(self, outcome: Outcome) -> None:
        mrr = "" if outcome.mrr is None else f"  valid MRR {outcome.mrr:.2f}"
        better = outcome.mrr is not None and outcome.mrr > self.best and outcome.state == "done"
        self.best = max(self.best, outcome.mrr or -1.0)
        epochs = counted(outcome.epochs, "epoch")
        ending = {"done": epochs, "pruned": f"given up after {epochs}", "failed": f"failed: {outcome.note}"}
        line = f"trial {outcome.number:3d}{mrr}  {ending[outcome.state]}  {as_text(outcome.values)}"
        self._say(f"{line}{'  best so far' if better else ''}")

    def _say(self, line: str) -> None:
        self.console.print(Text(line), soft_wrap=True)


def _best(outcomes: list[Outcome]) -> str:
    best = best_of(outcomes)
    return "" if best is None else f"best {best.mrr:.2f} (trial {best.number}: {as_text(best.values)})"


def as_text(values: Mapping[str, Any]) -> str:
    """``dim=200 dropout=0.312``."""
    return " ".join(f"{name}={cell(value)}" for name, value in values.items())


def cells(outcome: Outcome, names: Iterable[str]) -> list[str]:
    """A trial as a row of a table, with the columns of :meth:`Outcome.to_row`."""
    number, state, *values, mrr, epochs, seconds = outcome.to_row(names).values()
    figures = ["" if mrr is None else f"{mrr:.2f}", cell(epochs), "" if seconds is None else f"{seconds:.0f}"]
    return [str(number), state, *map(cell, values), *figures]


def cell(value: Any) -> str:
    """A value for people, rounded; empty for None."""
    return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)

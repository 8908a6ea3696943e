"""How a search goes, for people: a line for each trial that ends, and a live bar on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from tangokg.tune.study import OVER, Outcome, best_of


class Display:
    """Shows what is new among the trials of a study, whoever ran them; use it as a context."""

    def __init__(self, console: Console, trials: int) -> None:
        self.console, self.trials = console, trials
        self.told: set[int] | None = None  # numbers of the trials that have their line
        self.best = -1.0
        columns = (BarColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        self.bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self.task = self.bar.add_task("", total=trials)

    def __enter__(self) -> Display:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def hear(self, outcomes: list[Outcome]) -> None:
        """Print the trials that have ended since; those that were there before count as told."""
        over = [outcome for outcome in outcomes if outcome.state in OVER]
        if self.told is None:
            self.told = {outcome.number for outcome in over}
            if over:
                self._say(f"{len(over)} of {self.trials} trials are there already; {_best(outcomes)}")
            self.best = max((outcome.mrr or -1.0 for outcome in over), default=-1.0)
        for outcome in over:
            if outcome.number not in self.told:
                self.told.add(outcome.number)
                self._tell(outcome)
        running = "  ".join(
            f"trial {o.number} epoch {o.epochs + 1}{f' MRR {o.mrr:.2f}' if o.mrr is not None else ''}"
            for o in outcomes
            if o.state == "under way"
        )
        shown = f"{len(over)}/{self.trials}  {running}  {_best(outcomes)}"
        self.bar.update(self.task, completed=len(over), total=self.trials, description=shown)

    def _tell(self, outcome: Outcome) -> None:
        mrr = "" if outcome.mrr is None else f"  valid MRR {outcome.mrr:.2f}"
        better = outcome.mrr is not None and outcome.mrr > self.best and outcome.state == "done"
        self.best = max(self.best, outcome.mrr or -1.0)
        epochs = f"{outcome.epochs} epoch{'' if outcome.epochs == 1 else 's'}"
        ending = {"done": epochs, "pruned": f"given up after {epochs}", "failed": f"failed: {outcome.note}"}
        self._say(
            f"trial {outcome.number:3d}{mrr}  {ending[outcome.state]}  {as_text(outcome.values)}"
            f"{'  best so far' if better else ''}"
        )

    def _say(self, line: str) -> None:
        self.console.print(Text(line), soft_wrap=True)


def _best(outcomes: list[Outcome]) -> str:
    best = best_of(outcomes)
    return "" if best is None else f"best {best.mrr:.2f} (trial {best.number}: {as_text(best.values)})"


def as_text(values: Mapping[str, Any]) -> str:
    """``dim=200 dropout=0.312``."""
    return " ".join(f"{name}={cell(value)}" for name, value in values.items())


def cell(value: Any) -> str:
    """A value to be read, not to be computed with."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)

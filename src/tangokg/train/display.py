"""Training progress for people: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import logging
from time import monotonic
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tangokg.train import checkpoint
from tangokg.train.settings import TrainSettings
from tangokg.train.stopping import why_ended

logger = logging.getLogger("tangokg")  # receives each epoch as well
EVERY = 30.0  # seconds between two lines of a long epoch where there is no terminal


class Display:
    """A reporter that shows epoch, loss, validation MRR and the time left; use it as a context."""

    def __init__(self, console: Console | None = None, each_epoch: bool = True) -> None:
        self.console = console or Console(stderr=True)
        self.live = self.console.is_terminal
        self.each_epoch = each_epoch
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            TextColumn("left (at most)"),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            disable=not self.live,
        )
        self.task = self.bar.add_task("training", total=None)
        self.began = self.printed = monotonic()

    def __enter__(self) -> Display:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def step(self, progress: checkpoint.Progress, settings: TrainSettings, snapshots: int) -> None:
        """Called every few steps."""
        loss = progress.loss_sum / max(progress.queries, 1)
        self.bar.update(
            self.task,
            description=f"epoch {progress.epoch + 1}/{settings.epochs}  loss {loss:.3f}  {_best(progress)}",
            completed=progress.epoch + progress.position / snapshots,
            total=settings.epochs,
        )
        if not self.live and self.each_epoch and (now := monotonic()) - self.printed >= EVERY:
            self.printed, share = now, progress.position / snapshots
            after = f"loss {loss:.4f}  after {now - self.began:.0f} s"
            self.say(f"epoch {progress.epoch + 1:3d}/{settings.epochs}  {share:.0%}  {after}")

    def epoch(self, progress: checkpoint.Progress, settings: TrainSettings) -> None:
        """Called when an epoch is done."""
        self.bar.update(self.task, completed=progress.epoch, total=settings.epochs)
        if not self.each_epoch:
            return
        row = progress.log[-1]
        ahead = f" (1-{settings.horizons} steps ahead)" if settings.horizons > 1 else ""
        mrr = f"  valid MRR{ahead} {row['valid_mrr']:.2f}" if "valid_mrr" in row else ""
        best = "  best so far" if progress.best_epoch == progress.epoch and mrr else ""
        line = f"epoch {progress.epoch:3d}/{settings.epochs}  loss {row['loss']:.4f}{mrr}  {row['seconds']:.0f} s{best}"
        logger.info(line)
        self.printed = monotonic()
        self.console.print(line, highlight=False)

    def say(self, text: str) -> None:
        """Print a line."""
        self.console.print(text, highlight=False, markup=False)


def print_end(reporter: object, progress: checkpoint.Progress, settings: TrainSettings) -> None:
    """Print why training ended if the reporter is a display; others read it in the progress."""
    if isinstance(reporter, Display) and (why := why_ended(progress, settings)):
        best = f"; the weights are those of epoch {progress.best_epoch}" if progress.best_epoch else ""
        reporter.say(f"training ended: {why}{best}")


def print_refit(reporter: object, chosen: checkpoint.Progress) -> None:
    """Print that a refit begins if the reporter is a display."""
    if isinstance(reporter, Display):
        reporter.say(f"refit: training on all parts for {chosen.best_epoch} epoch(s), as many as were best")


def _best(progress: checkpoint.Progress) -> str:
    return f"best MRR {progress.best_mrr:.2f} (epoch {progress.best_epoch})" if progress.best_mrr > 0 else ""

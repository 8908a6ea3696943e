"""Who hears how the runs of ``tango reproduce --run`` go: bars on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tangokg.cli.output import Output, counted

if TYPE_CHECKING:
    from tangokg.reproduce.runs import Job
    from tangokg.train import Progress, TrainSettings

PAUSE = 10.0  # seconds between two lines on the epochs of a run


class Board:
    """Bars on a terminal, one for each run under way and one for all; elsewhere lines: begun, epochs, end."""

    def __init__(self, output: Output, total: int, work: Path) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self.output, self.work = output, work
        self.said: dict[str, float] = {}  # when a run had its last line
        self.newest: dict[str, dict[str, float]] = {}  # the last epoch of a run in another process
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
        self.bar = Progress(*columns, console=output.notes, transient=True, disable=not output.notes.is_terminal)
        self.tasks: dict[str, Any] = {}
        self.every = self.bar.add_task(f"{counted(total, 'run')} missing", total=total)

    def __enter__(self) -> Board:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def begin(self, job: Job) -> Heard:
        """A run begins; who hears its epochs is given back."""
        self.tasks[job.label] = self.bar.add_task(job.label, total=None)
        if not self.output.notes.is_terminal:
            self.output.say(f"{job.label}: begun")
        if job.is_held(self.work):
            self.output.say(f"{job.label}: another process makes it; waiting")
        elif job.again and job.is_kept(self.work):
            self.output.say(f"{job.label}: the finished run in {job.folder(self.work)} is replaced")
        self.said[job.label] = time.monotonic()
        return Heard(self, job)

    def look(self, job: Job, log: list[dict[str, float]]) -> None:
        """The epochs of a run in another process."""
        if log:
            best = max((row.get("valid_mrr", 0.0) for row in log), default=0.0)
            self.tell(job, len(log), best)
        newest = log[-1] if log else {}
        before = self.newest.setdefault(job.label, newest)  # what an earlier call left is no news
        self.newest[job.label] = newest
        if log and newest != before:
            self.line(job, newest)

    def line(self, job: Job, row: dict[str, float]) -> None:
        """The epoch that is done, where there is no terminal; epochs that follow too soon are left out."""
        now = time.monotonic()
        if self.output.notes.is_terminal or now < self.said[job.label] + PAUSE:
            return
        self.said[job.label] = now
        mrr = f", validation MRR {row['valid_mrr']:.2f}" if "valid_mrr" in row else ""
        self.output.say(f"{job.label}: epoch {int(row['epoch'])}{mrr}, {row['seconds']:.0f} s")

    def tell(self, job: Job, epoch: float, best: float, total: int | None = None) -> None:
        """How far a run is."""
        text = f"{job.label}  epoch {int(epoch)}" + (f"  best MRR {best:.2f}" if best > 0 else "")
        self.bar.update(self.tasks[job.label], description=text, completed=epoch, total=total)

    def end(self, job: Job, how: str) -> None:
        """A run ends."""
        self._over(job)
        self.output.say(f"{job.label}: {how}")

    def fail(self, job: Job, why: str) -> None:
        """A run goes wrong: an error at once, also with ``--quiet``."""
        self._over(job)
        self.output.complain(f"{job.label} failed: {why}")

    def _over(self, job: Job) -> None:
        self.newest.pop(job.label, None)
        self.bar.remove_task(self.tasks.pop(job.label))
        self.bar.advance(self.every)


class Heard:
    """The reporter of one run in this process."""

    def __init__(self, board: Board, job: Job) -> None:
        self.board, self.job = board, job

    def step(self, progress: Progress, settings: TrainSettings, snapshots: int) -> None:
        epoch = progress.epoch + progress.position / max(snapshots, 1)
        self.board.tell(self.job, epoch, progress.best_mrr, settings.epochs)

    def epoch(self, progress: Progress, settings: TrainSettings) -> None:
        self.board.tell(self.job, progress.epoch, progress.best_mrr, settings.epochs)
        self.board.line(self.job, progress.log[-1])

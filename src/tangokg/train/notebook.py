"""Training progress in a notebook: one line under the cell, updated within an epoch."""

from __future__ import annotations

import io
import sys
import time
from html import escape
from importlib import import_module
from types import TracebackType
from typing import Any

from rich.console import Console

from tangokg.train.checkpoint import Progress
from tangokg.train.display import Display
from tangokg.train.settings import TrainSettings

REFRESH = 0.3  # seconds between two changes of the line
WIDTH = 30  # of the bar


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")  # a kernel has imported it
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel")


def default_display(verbose: bool = True) -> Display:
    """The default reporter: a bar, a line in a notebook, or nothing."""
    if not verbose:
        return Display(Console(stderr=True, quiet=True))
    return NotebookDisplay() if in_notebook() else Display()


class NotebookDisplay(Display):
    """A reporter that keeps one line of output up to date; the last epochs stay under it."""

    def __init__(self) -> None:
        super().__init__(Console(file=io.StringIO(), width=200))
        self.handle: Any = None
        self.shown = -REFRESH
        self.line = "training"

    def __enter__(self) -> NotebookDisplay:
        self.handle = import_module("IPython.display").display(self._html(0.0), display_id=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._update(None)

    def step(self, progress: Progress, settings: TrainSettings, snapshots: int) -> None:
        if time.monotonic() - self.shown >= REFRESH:
            loss = progress.loss_sum / max(progress.queries, 1)
            self.line = f"epoch {progress.epoch + 1}/{settings.epochs}  loss {loss:.3f}"
            self._update((progress.epoch + progress.position / snapshots) / settings.epochs)

    def epoch(self, progress: Progress, settings: TrainSettings) -> None:
        super().epoch(progress, settings)
        self.line = f"epoch {progress.epoch}/{settings.epochs}"
        self._update(progress.epoch / settings.epochs)

    def _update(self, share: float | None) -> None:
        self.shown = time.monotonic()
        if self.handle is not None:
            self.handle.update(self._html(share))

    def _html(self, share: float | None) -> Any:
        file: Any = self.console.file
        lines = file.getvalue().splitlines()
        full = round(WIDTH * min(max(share, 0.0), 1.0)) if share is not None else 0
        bar = [] if share is None else [f"{self.line}  {'█' * full}{'░' * (WIDTH - full)}  {share:4.0%}"]
        return import_module("IPython.display").HTML(f"<pre>{escape(chr(10).join([*lines, *bar]))}</pre>")

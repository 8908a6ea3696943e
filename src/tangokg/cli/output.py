"""The output of commands: results on standard output, notes and errors on standard error."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tangokg.errors import HIDDEN, TangoError, harmless, harmless_line
from tangokg.showing import make_table

if TYPE_CHECKING:
    from rich.console import Console

WIDE = 200  # columns without a terminal: lines are for programs, and are not folded


class Stopped(TangoError):
    """A command was interrupted and has saved its work. Not a KeyboardInterrupt, which Typer handles itself."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class Output:
    """Results go to standard output; notes, progress and errors to standard error, so that results can be piped."""

    def __init__(self, words: Sequence[str] = ()) -> None:
        self.words = tuple(words)  # as the user wrote them
        self.verbose = False
        self.quiet = False
        self._consoles: dict[str, Console] = {}

    @property
    def results(self) -> Console:
        """What was asked for."""
        return self._console("results")

    @property
    def notes(self) -> Console:
        """What helps to follow; silent with ``--quiet``."""
        return self._console("notes")

    def _console(self, kind: str) -> Console:
        """Made when first used: rich takes a while to import."""
        if kind not in self._consoles:
            from rich.console import Console

            stream = sys.stdout if kind == "results" else sys.stderr
            width = None if stream.isatty() or "COLUMNS" in os.environ else WIDE
            quiet = self.quiet and kind == "notes"
            self._consoles[kind] = Console(stderr=kind != "results", width=width, quiet=quiet, highlight=False)
        return self._consoles[kind]

    def show(self, renderable: Any, style: str = "") -> None:
        """Print a result; a text as it is, on one line."""
        from rich.text import Text

        if isinstance(renderable, str):
            self.results.print(Text(harmless(renderable), style=style), soft_wrap=True)
        else:
            self.results.print(renderable)

    def table(
        self, title: str | Sequence[str], columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1
    ) -> None:
        """Print a table as :func:`tangokg.showing.make_table` makes it."""
        self.show(make_table(title, columns, rows, left))

    def shown(self, text: str) -> str:
        """A text for standard output: exact for a program, harmless on a terminal."""
        return harmless(text) if sys.stdout.isatty() else text

    def json(self, value: Any) -> None:
        """Print a result for a program."""
        text = json.dumps(value, indent=2, ensure_ascii=False)
        sys.stdout.write(HIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n")

    def say(self, text: str = "", style: str = "") -> None:
        """Print a note; brackets in names are not markup."""
        from rich.text import Text

        self.notes.print(Text(harmless(text), style=style), soft_wrap=True)

    def complain(self, text: str) -> None:
        """Print an error, one paragraph, never folded."""
        from rich.text import Text

        self._console("errors").print(Text.assemble(("error: ", "bold red"), harmless(text)), soft_wrap=True)

    def fail(self, text: str, status: int) -> int:
        """Print an error, with the traceback of the current exception if the user wants it."""
        if self.verbose:
            import traceback

            sys.stderr.write(traceback.format_exc())
        self.complain(text)
        return status

    @contextmanager
    def progress(self, what: str) -> Iterator[Callable[..., None]]:
        """A progress bar that disappears at the end; call ``advance(done, total, what)`` to update it."""
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn())
        with Progress(*columns, console=self.notes, transient=True, disable=not self.notes.is_terminal) as bar:
            task = bar.add_task(harmless_line(what), total=None)

            def advance(done: int, total: int | None, what: str = what) -> None:
                bar.update(task, description=harmless_line(what), completed=done, total=total)

            yield advance

    def check_figure(self, path: Path | None) -> None:
        """Raise an error, before anything is computed, if a figure cannot be written to ``--plot``."""
        if path is not None:
            from tangokg.report import check_figure

            check_figure(path)


@contextmanager
def warnings_as_notes(output: Output) -> Iterator[None]:
    """Show warnings of the library as notes, except those about reading, which are shown with the data."""
    handler = logging.Handler(logging.WARNING)
    handler.addFilter(lambda record: record.name != "tangokg.reading")
    handler.emit = lambda record: output.say(f"note: {record.getMessage()}")  # type: ignore[method-assign]
    logger = logging.getLogger("tangokg")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)

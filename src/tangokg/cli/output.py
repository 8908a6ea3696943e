"""What people and programs see: results on standard output, everything else beside it."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from tangokg.cli.fitting import Fitted
from tangokg.errors import HIDDEN, TangoError, harmless, harmless_line

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.progress import Progress

WIDE = 200  # columns where there is no terminal: lines are for programs, and are not folded
BLOCKS = "▁▂▃▄▅▆▇█"


class Stopped(TangoError):
    """A command was asked to stop and has kept what it could; Typer would take a KeyboardInterrupt for its own."""

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

    def shown(self, text: str) -> str:
        """A text for standard output: exact for a program, harmless on a terminal."""
        return harmless(text) if sys.stdout.isatty() else text

    def json(self, value: Any) -> None:
        """Print a result for a program."""
        text = json.dumps(value, indent=2, ensure_ascii=False)
        sys.stdout.write(HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")

    def say(self, text: str = "", style: str = "") -> None:
        """Print a note; brackets in names are no markup."""
        from rich.text import Text

        self.notes.print(Text(harmless(text), style=style), soft_wrap=True)

    def complain(self, text: str) -> None:
        """Print an error, one paragraph, never folded."""
        from rich.text import Text

        self._console("errors").print(Text.assemble(("error: ", "bold red"), harmless(text)), soft_wrap=True)

    def fail(self, text: str, status: int) -> int:
        """Print an error, with the traceback of the exception under way where the user wants to see it."""
        if self.verbose:
            import traceback

            sys.stderr.write(traceback.format_exc())
        self.complain(text)
        return status

    def progress(self, what: str) -> AbstractContextManager[Progress]:
        """A bar that goes away when it is done; nothing without a terminal."""
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn())
        bar = Progress(*columns, console=self.notes, transient=True, disable=not self.notes.is_terminal)
        bar.add_task(harmless_line(what), total=None)
        return bar


def make_table(
    title: str | Sequence[str], columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1
) -> Group:
    """A table whose first ``left`` columns hold text and whose others hold numbers; it fits the console.

    A title of several lines is given line by line: line ends within a name are written out.
    """
    from rich.console import Group
    from rich.text import Text

    cells = tuple(tuple(harmless_line(cell) for cell in row) for row in rows)
    lines = map(harmless_line, [title] if isinstance(title, str) else title)
    return Group(Text("\n".join(lines), style="bold"), Fitted(tuple(columns), cells, left))


@contextmanager
def heard(output: Output) -> Iterator[None]:
    """What the library warns of becomes a note; what reading left out is one already."""
    handler = logging.Handler(logging.WARNING)
    handler.addFilter(lambda record: record.name != "tangokg.reading")
    handler.emit = lambda record: output.say(f"note: {record.getMessage()}")  # type: ignore[method-assign]
    logger = logging.getLogger("tangokg")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def figures(summary: Mapping[str, float]) -> list[str]:
    """MRR and Hits@k of one ``to_dict`` as cells."""
    return [f"{value:.2f}" for value in summary.values()]


def counted(number: int, one: str, many: str | None = None) -> str:
    """``1 fact``, ``2,000 facts``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


FIGURES = ("MRR", "Hits@1", "Hits@3", "Hits@10")


def bar(share: float, width: int = 20) -> str:
    """A bar of blocks, ``width`` long for a share of 1."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    part = " ▏▎▍▌▋▊▉"[eighths % 8].strip()
    return "█" * (eighths // 8) + part


def sparkline(counts: Sequence[float]) -> str:
    """One block for each count, as high as its share of the largest."""
    most = max(counts, default=0)
    return "".join(BLOCKS[min(int(8 * count / most), 7)] if count else " " for count in counts) if most else ""

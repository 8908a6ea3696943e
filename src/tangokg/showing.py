"""Values for people: tables on a console, tables and data frames for notebooks, and what stands in their cells.

On a console, columns are folded at blanks only; columns that do not fit go into a second table. Rich and pandas are
imported only where they are used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from tangokg.errors import DataError, harmless_line

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, Group
    from rich.table import Table

GAPS = (3, 2, 1)  # blanks between columns, the more the better
LONGEST = 48  # letters: a longer word may break
FIGURES = ("MRR", "Hits@1", "Hits@3", "Hits@10")
BLOCKS = "▁▂▃▄▅▆▇█"


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


@dataclass(frozen=True)
class Fitted:
    """A table of text; its first ``left`` columns hold words and stand on the left, the others hold numbers."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Any]:
        for number, (places, gap) in enumerate(self.layout(options.max_width)):
            if number:
                yield ""
            yield self._table(places, gap, options.max_width)

    def layout(self, room: int) -> list[tuple[list[int], int]]:
        """Which columns stand together, with the gap between them: all, or groups that each begin with the key."""
        least = [self._least(place) for place in range(len(self.columns))]
        every = list(range(len(self.columns)))
        for gap in GAPS:
            if _width([least[place] for place in every], gap) <= room:
                return [(every, gap)]
        key = self._key()
        groups = [[*key]]
        for place in every[len(key) :]:
            if _width([least[p] for p in (*groups[-1], place)], GAPS[-1]) > room and len(groups[-1]) > len(key):
                groups.append([*key])
            groups[-1].append(place)
        return [(group, GAPS[-1]) for group in groups]

    def _key(self) -> range:
        """As many of the first columns as tell the rows apart, one at least."""
        for size in range(1, self.left):
            if len({row[:size] for row in self.rows}) == len(self.rows):
                return range(size)
        return range(max(1, min(self.left, len(self.columns) - 1)))

    def _cells(self, place: int) -> list[str]:
        return [self.columns[place], *(row[place] for row in self.rows)]

    def _least(self, place: int) -> int:
        """The longest word of a column."""
        words = (word for cell in self._cells(place) for word in cell.split())
        return min(max(map(_length, words), default=1), LONGEST)

    def _natural(self, place: int) -> int:
        return max(max((_length(line) for line in cell.splitlines()), default=0) for cell in self._cells(place)) or 1

    def _table(self, places: Sequence[int], gap: int, room: int) -> Table:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        padding = {3: 1, 2: 1, 1: 0}[gap]
        table = Table(
            box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, padding), collapse_padding=gap < GAPS[0]
        )
        least, natural = [self._least(p) for p in places], [self._natural(p) for p in places]
        for place, width in zip(places, widths(least, natural, room - gap * (len(places) - 1)), strict=True):
            side: Any = "left" if place < self.left else "right"
            table.add_column(Text(self.columns[place]), justify=side, overflow="fold", width=width)
        for row in self.rows:
            table.add_row(*(Text(row[place]) for place in places))
        return table


def widths(least: Sequence[int], natural: Sequence[int], room: int) -> list[int]:
    """Each column as wide as it likes; else the widest give way first, none below its longest word."""
    found = list(natural)
    for _ in range(max(sum(natural) - room, 0)):
        spare = [width if width > low else 0 for width, low in zip(found, least, strict=True)]
        if not any(spare):
            break
        found[spare.index(max(spare))] -= 1
    return found


def _width(columns: Sequence[int], gap: int) -> int:
    return sum(columns) + gap * (len(columns) - 1)


def _length(text: str) -> int:
    """In cells of a terminal: some letters take two."""
    from rich.cells import cell_len

    return cell_len(text)


def figures(summary: Mapping[str, float]) -> list[str]:
    """MRR and Hits@k of one ``to_dict`` as cells."""
    return [f"{value:.2f}" for value in summary.values()]


def plain(value: object) -> str:
    """A setting as TOML has it: ``true``, ``0.1``."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def counted(number: int, one: str, many: str | None = None) -> str:
    """``1 fact``, ``2,000 facts``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def bar(share: float, width: int = 20) -> str:
    """A bar of blocks, ``width`` long for a share of 1."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    part = " ▏▎▍▌▋▊▉"[eighths % 8].strip()
    return "█" * (eighths // 8) + part


def sparkline(counts: Sequence[float]) -> str:
    """One block for each count, as high as its share of the largest."""
    most = max(counts, default=0)
    return "".join(BLOCKS[min(int(8 * count / most), 7)] if count else " " for count in counts) if most else ""


def to_frame(columns: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Any:
    """A pandas DataFrame of columns, or of rows."""
    try:
        import pandas as pd
    except ModuleNotFoundError:
        raise DataError("to_pandas() needs pandas, which is not installed: pip install pandas.") from None
    return pd.DataFrame(columns)


class Share(float):
    """A probability; a table in a notebook shows it as per cent, on a bar."""

    def __str__(self) -> str:
        return f"{float(self):.1%}"


def html_table(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[object]], left: int = 1, last: bool = False
) -> str:
    """A table whose first ``left`` columns hold words, and its ``last`` one where it says so; all text is escaped."""

    def cell(kind: str, place: int, value: object) -> str:
        words = place < left or (last and place == len(headings) - 1)
        side = f"text-align: {'left' if words else 'right'}"
        return f'<{kind} style="{side}{_bar(value)}">{html_text(value)}</{kind}>'

    def line(kind: str, cells: Sequence[object]) -> str:
        return f"<tr>{''.join(cell(kind, place, value) for place, value in enumerate(cells))}</tr>"

    head, body = line("th", headings), "".join(line("td", row) for row in rows)
    return f"<p>{html_text(title)}</p><table><thead>{head}</thead><tbody>{body}</tbody></table>"


def html_folded(title: str, content: str) -> str:
    """Markup that a reader opens by its title."""
    return f"<details><summary>{html_text(title)}</summary>{content}</details>"


def html_text(value: object) -> str:
    """Any text as part of a page: nothing in it is markup."""
    return escape(harmless_line(str(value)))


def _bar(value: object) -> str:
    """The style that draws a share behind its number, on a light page and on a dark one."""
    if not isinstance(value, Share):
        return ""
    end = f"{100 * min(max(float(value), 0.0), 1.0):.1f}%"
    return f"; background: linear-gradient(to right, rgba(66, 133, 200, 0.35) {end}, transparent {end})"

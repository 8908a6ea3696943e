"""Tables that fit their console: columns give way at blanks alone; what has no room goes into a second table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.table import Table

GAPS = (3, 2, 1)  # blanks between columns, the more the better
LONGEST = 48  # letters: a longer word may break


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

"""Texts and values -> HTML with all names escaped, and tables that work with a screen reader."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from html import escape
from itertools import groupby
from operator import itemgetter

from tangokg.errors import harmless_line

EMPTY = ("br", "link", "meta")  # elements without an end tag


class Html(str):
    """Markup that is safe as it is; any other text is escaped where it is used."""


def safe(value: object) -> Html:
    """A value as text of a page: markup stays, anything else is escaped, control characters are written out."""
    return value if isinstance(value, Html) else Html(escape(harmless_line(str(value))))


def tag(name: str, /, *content: object, **attributes: object) -> Html:
    """An element. ``class_`` is the attribute class, an underscore in another name a hyphen; None is left out."""
    listed = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{safe(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = "".join(map(safe, content))
    return Html(f"<{name}{listed}>" if name in EMPTY else f"<{name}{listed}>{inside}</{name}>")


def joined(parts: Iterable[object]) -> Html:
    """Join parts in order."""
    return Html("\n".join(map(safe, parts)))


def table(
    ident: str,
    caption: object,
    headings: Sequence[object],
    rows: Iterable[Sequence[object]],
    words: Collection[int] = (0,),
    grouped: bool = False,
) -> Html:
    """A table with a caption and headings of columns and rows; ``words`` are the columns that hold no numbers.

    Where it is wider than the page it scrolls by itself, also with the keyboard. In a ``grouped`` one neighbouring rows
    with the same first cell share it, and the second cell is the heading of the row.
    """
    ident = f"table-{ident}"
    sides = ["words" if place in words else "number" for place in range(len(headings))]
    head = [tag("th", cell, scope="col", class_=side) for cell, side in zip(headings, sides, strict=True)]
    groups = groupby(rows, key=itemgetter(0)) if grouped else [(None, rows)]
    bodies = [tag("tbody", joined(_rows(list(group), sides, grouped))) for _, group in groups]
    inside = tag("table", tag("caption", caption, id=ident), tag("thead", tag("tr", *head)), *bodies)
    return tag("div", inside, class_="scroll", role="group", tabindex=0, aria_labelledby=ident)


def _rows(rows: Sequence[Sequence[object]], sides: Sequence[str], grouped: bool) -> Iterator[Html]:
    """The rows of one group, or of a table without groups."""
    key = 1 if grouped else 0
    for place, row in enumerate(rows):
        cells = (
            [tag("th", row[0], scope="rowgroup", rowspan=len(rows), class_=sides[0])] if grouped and not place else []
        )
        cells.append(tag("th", row[key], scope="row", class_=sides[key]))
        rest = zip(row[key + 1 :], sides[key + 1 :], strict=True)
        yield tag("tr", *cells, *(tag("td", cell, class_=side) for cell, side in rest))


def values(ident: str, caption: object, pairs: Iterable[tuple[object, object]]) -> Html:
    """A table of names and values, both words."""
    return table(ident, caption, ("what", "value"), pairs, words=(0, 1))


def folded(summary: object, *content: object) -> Html:
    """A folded block that a reader can open; it is open in print."""
    return tag("details", tag("summary", summary), *content)


def bullets(items: Iterable[object], **attributes: object) -> Html:
    """An unordered list."""
    return tag("ul", *(tag("li", item) for item in items), **attributes)

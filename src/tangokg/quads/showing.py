"""Values as data frames and as HTML, for notebooks; pandas is imported only where somebody asks for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from tangokg.errors import DataError, harmless_line

if TYPE_CHECKING:
    from tangokg.quads.values import Dataset, Quadruples

ROWS = 10  # of a table in a notebook


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


def fact_columns(facts: Quadruples) -> dict[str, Any]:
    """Names and times, as :func:`tangokg.read_events` takes them."""
    entities, relations = np.array(facts.vocab.entities, object), np.array(facts.vocab.relations, object)
    moments, place = np.unique(facts.moments, return_inverse=True)
    times = np.array([facts.clock.format(float(moment)) for moment in moments], object)
    return {
        "subject": entities[facts.s],
        "relation": relations[facts.r],
        "object": entities[facts.o],
        "time": times[place.ravel()],
    }


def facts_html(facts: Quadruples) -> str:
    """The first facts."""
    columns = fact_columns(facts.select(slice(ROWS)))
    more = f", the first {ROWS}" if len(facts) > ROWS else ""
    return html_table(f"{facts!r}{more}", list(columns), zip(*columns.values(), strict=True), left=4)


def dataset_columns(dataset: Dataset) -> dict[str, Any]:
    """All facts, with the part of each."""
    parts = {name: fact_columns(part) for name, part in dataset.parts.items()}
    whole = {column: np.concatenate([own[column] for own in parts.values()]) for column in next(iter(parts.values()))}
    whole["part"] = np.concatenate([np.full(len(dataset.parts[name]), name, object) for name in parts])
    return whole


def dataset_html(dataset: Dataset) -> str:
    """A row for each part."""
    rows = []
    for name, part in dataset.parts.items():
        ends = [part.clock.format(float(end(part.t))) for end in (np.min, np.max)] if len(part) else ["", ""]
        rows.append([name, *ends, f"{len(part):,}", f"{len(np.unique(part.t)):,}"])
    vocab = dataset.vocab
    title = f"{dataset.name}: {vocab.num_entities:,} entities, {vocab.num_relations:,} relations"
    return html_table(title, ("part", "first", "last", "facts", "times"), rows, left=3)

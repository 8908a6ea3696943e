"""Reports of small runs, and the tables of a page as text."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

from conftest import N, R, dated, make_dataset
from tangokg.quads.values import Dataset
from tangokg.quads.vocabulary import Vocabulary

SCRIPT = "<script>alert('x')</script>"
NASTY = (SCRIPT, '"><img src=x onerror=alert(1)>', "a & b", "\u202ereversed\nline", "https://example.org/name")


class Tables(HTMLParser):
    """Caption -> rows of cells, the headings first; a cell that several rows share stands in each of them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: dict[str, list[list[str]]] = {}
        self.text: list[str] | None = None
        self.shared: tuple[str, int] = "", 0
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag in ("caption", "th", "td"):
            self.text, self.span = [], int(dict(attributes).get("rowspan") or 0)
        elif tag == "table":
            self.rows: list[list[str]] = []
        elif tag == "tr":
            self.row: list[str] = []

    def handle_data(self, data: str) -> None:
        if self.text is not None:
            self.text.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag == "caption":
            self.found["".join(self.text or [])] = self.rows
        elif tag in ("th", "td"):
            cell = " ".join(self.text or [])
            if self.span:
                self.shared = cell, self.span
            self.row.append(cell)
        elif tag == "tr":
            cell, left = self.shared
            if left and len(self.row) < len(self.rows[0]):
                self.row.insert(0, cell)
            self.shared = cell, max(left - 1, 0)
            self.rows.append(self.row)
        if tag in ("caption", "th", "td"):
            self.text = None


def tables(page: str) -> dict[str, list[list[str]]]:
    return Tables(page).found


def make_nasty() -> Dataset:
    """The small data with dates, and with names that a careless page would take for markup."""
    entities = tuple(NASTY[i] if i < len(NASTY) else f"e{i}" for i in range(N))
    relations = ("<b>calls</b>", *(f"r{i}" for i in range(1, R)))
    data = dated(make_dataset(1))
    parts: dict[str, Any] = {
        name: replace(part, vocab=Vocabulary(entities, relations)) for name, part in data.parts.items()
    }
    return replace(data, name="small & <nasty>", **parts)

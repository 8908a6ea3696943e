"""Pages with generated tables: hand-written text, with rendered results between two comments.

A block of a page begins with ``<!-- generated: NAME -->`` and ends with ``<!-- end -->``, on lines of their own or
within a line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from experiments.bench.page import blocks_of_speed
from experiments.claims import CLAIMS, show_claim, show_gains
from experiments.overview import OVERVIEWS
from experiments.show import SPECIAL, show
from experiments.store import Results
from experiments.tables import tables
from experiments.tgb import show_leaderboard
from tangokg.errors import ConfigError, nearest, offer

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "docs/**/*.md", "experiments/*/README.md")
BLOCK = re.compile(r"(<!-- generated: ([^\n]+?) -->\n?).*?(<!-- end -->)", re.DOTALL)


def pages() -> list[Path]:
    """All pages that hold a generated block."""
    paths = [path for pattern in PAGES for path in sorted(ROOT.glob(pattern))]
    return [path for path in paths if BLOCK.search(path.read_text(encoding="utf-8"))]


def blocks(results: Results) -> dict[str, Callable[[], str]]:
    """Name of a block -> function that renders it."""
    makers: dict[str, Callable[[Results], str]] = {name: partial(show, name) for name in (*tables(), *SPECIAL)}
    makers |= OVERVIEWS | {"gains": show_gains} | {f"claim {name}": partial(show_claim, name) for name in CLAIMS}
    texts = {name: partial(make, results) for name, make in makers.items()}
    return texts | blocks_of_speed() | {"tgb leaderboard": show_leaderboard}


def refresh(text: str, known: dict[str, Callable[[], str]]) -> str:
    """A page with all its blocks rendered again."""

    def fill(match: re.Match[str]) -> str:
        end_of_line = "\n" if match[1].endswith("\n") else ""
        return f"{match[1]}{make_block(match[2], known)}{end_of_line}{match[3]}"

    return BLOCK.sub(fill, text)


def outdated(known: dict[str, Callable[[], str]]) -> dict[Path, str]:
    """The outdated pages, with their new text."""
    refreshed = {path: refresh(path.read_text(encoding="utf-8"), known) for path in pages()}
    return {path: text for path, text in refreshed.items() if text != path.read_text(encoding="utf-8")}


def make_block(name: str, known: dict[str, Callable[[], str]]) -> str:
    """The text of a block; an unknown name is an error that offers the nearest."""
    if name not in known:
        raise ConfigError(f"unknown table {name!r}.{offer(nearest(name, known))} Known: {', '.join(known)}.")
    return known[name]()

"""The paper's tables and figures, each number beside ours: what is published, what fills it, and how it is shown."""

from __future__ import annotations

from tangokg.reproduce.cells import Cell, Table, find_table, tables
from tangokg.reproduce.paper import PaperTable, Published, published
from tangokg.reproduce.presets import Experiment, experiments
from tangokg.reproduce.store import Results, read_results

__all__ = [
    "Cell",
    "Experiment",
    "PaperTable",
    "Published",
    "Results",
    "Table",
    "experiments",
    "find_table",
    "published",
    "read_results",
    "tables",
]

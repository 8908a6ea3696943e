"""Published results: the tables and figures of the paper (``paper/``), and systems compared with the default model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tangokg.config import read_toml
from tangokg.errors import DataError

HERE = Path(__file__).parent
Key = tuple[str, str, str]  # row, column, metric


@dataclass(frozen=True)
class Published:
    """One number of the paper, with its spread over five runs where that is printed."""

    value: Any  # a number, or the name of a decoder
    spread: float | None = None
    misprint: str = ""  # why it cannot be right


@dataclass(frozen=True)
class PaperTable:
    """A table or figure: rows are models (data sets in ``statistics``, settings in ``settings``)."""

    label: str  # in the source of the paper
    kind: str  # table or figure
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    metrics: tuple[str, ...]
    values: Mapping[Key, Published]
    space: Mapping[str, list[Any]] = field(default_factory=dict)  # what was searched, setting by setting

    def get(self, row: str, column: str, metric: str) -> Published | None:
        """The printed number of a cell, if there is one."""
        return self.values.get((row, column, metric))


@cache
def published() -> dict[str, PaperTable]:
    """All tables and figures whose values can be read, by the name of their file."""
    return {path.stem: make_table(path.name, read_toml(path)) for path in sorted(HERE.glob("paper/*.toml"))}


def make_table(where: str, tables: Mapping[str, Any]) -> PaperTable:
    """Check a file: a value for each metric, and Hits@k that do not fall unless one is marked as a misprint."""
    columns, metrics = tuple(tables["columns"]), tuple(tables["metrics"])
    values: dict[Key, Published] = {}
    misprints = dict(tables.get("misprints", {}))
    for row, cells in tables["values"].items():
        for column, numbers in cells.items():
            spread = tables.get("spread", {}).get(row, {}).get(column, [None] * len(metrics))
            if column not in columns or not len(numbers) == len(spread) == len(metrics):
                raise DataError(f"{where}: {row} / {column}: expected {len(metrics)} values in a known column.")
            for metric, value, around in zip(metrics, numbers, spread, strict=True):
                misprint = misprints.pop(f"{row} / {column} / {metric}", "")
                values[row, column, metric] = Published(value, around, misprint)
            hits = [values[row, column, metric] for metric in metrics if metric.startswith("hits@")]
            if [hit.value for hit in hits] != sorted(hit.value for hit in hits) and not any(h.misprint for h in hits):
                raise DataError(f"{where}: {row} / {column}: Hits@k fall. Mark the misprint, or correct the value.")
    if misprints:
        raise DataError(f"{where}: a misprint is marked at {next(iter(misprints))!r}, where no value stands.")
    kind, space = tables.get("kind", "table"), tables.get("space", {})
    return PaperTable(tables["label"], kind, tuple(tables["values"]), columns, metrics, values, space)


def best_printed(data: str) -> float | None:
    """The best test MRR that the paper prints for a set; None for a set that it does not have."""
    main = published()["main"].values
    return max((float(p.value) for (_, of, metric), p in main.items() if (of, metric) == (data, "mrr")), default=None)


def paper_step_time(data: str) -> float | None:
    """The solver time of one step in the paper: its scale over the steps of the whole range."""
    scale = published()["settings"].get("scale", data, "value")
    times = published()["statistics"].get(data, "times", "count")
    return float(scale.value) / (int(times.value) - 1) if scale and times else None


def systems() -> list[dict[str, Any]]:
    """The systems compared with the default model, and their test MRR, time-aware, by data set.

    ``clean`` says that a system has no look-ahead, as far as is known.
    """
    listed: list[dict[str, Any]] = read_toml(HERE / "systems.toml")["system"]
    return listed

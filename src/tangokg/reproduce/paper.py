"""What the paper publishes: every table, and every figure whose values can be read, as checked values."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from tangokg.errors import DataError

Key = tuple[str, str, str]  # row, column, metric

# In the order of the page; each has a file in paper/.
NAMES = (
    "main",
    "raw",
    "unaware",
    "validation",
    "inductive",
    "irregular",
    "ablation",
    "horizon",
    "history",
    "time-cost",
    "time",
    "settings",
    "statistics",
)
FIELDS = ("label", "title", "kind", "columns", "metrics", "unreadable", "values", "spread", "misprints", "space")


@dataclass(frozen=True)
class Published:
    """One number of the paper, with its spread over five runs where that is printed."""

    value: Any  # a number, or the name of a decoder
    spread: float | None = None
    misprint: str = ""  # why it cannot be right


@dataclass(frozen=True)
class PaperTable:
    """A table or figure: rows are models (data sets in ``statistics``, settings in ``settings``)."""

    name: str
    label: str  # in the source of the paper
    title: str
    kind: str  # table or figure
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    metrics: tuple[str, ...]
    values: Mapping[Key, Published]
    unreadable: str = ""  # why there are no values
    space: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # what was searched, setting by setting

    def get(self, row: str, column: str, metric: str) -> Published | None:
        """The number that is printed there, if one is."""
        return self.values.get((row, column, metric))


@cache
def published() -> dict[str, PaperTable]:
    """All tables and figures by name."""
    return {name: read_table(name) for name in NAMES}


def read_table(name: str) -> PaperTable:
    """One table or figure from its file in the package."""
    text = files("tangokg.reproduce").joinpath("paper", f"{name}.toml").read_text(encoding="utf-8")
    return make_table(name, tomllib.loads(text))


def make_table(name: str, found: Mapping[str, Any]) -> PaperTable:
    """Check the tables of a file: known fields, a value for each metric, Hits@k that do not fall but for misprints."""
    where = f"paper/{name}.toml"
    if unknown := [key for key in found if key not in FIELDS]:
        raise DataError(f"{where}: unknown field {unknown[0]!r}; expected {', '.join(FIELDS)}.")
    columns, metrics = tuple(found["columns"]), tuple(found["metrics"])
    values: dict[Key, Published] = {}
    misprints = dict(found.get("misprints", {}))
    for row, cells in found.get("values", {}).items():
        spread = found.get("spread", {}).get(row, {})
        for column, numbers in cells.items():
            around = spread.get(column, [None] * len(metrics))
            if column not in columns or not len(numbers) == len(around) == len(metrics):
                raise DataError(f"{where}: {row} / {column}: expected {len(metrics)} values in a known column.")
            for metric, value, own in zip(metrics, numbers, around, strict=True):
                note = misprints.pop(f"{row} / {column} / {metric}", "")
                values[row, column, metric] = Published(value, own, note)
            _check_order(where, row, column, [values[row, column, m] for m in metrics if m.startswith("hits@")])
    if misprints:
        raise DataError(f"{where}: a misprint is marked at {next(iter(misprints))!r}, where no value stands.")
    kept = ("label", "title", "unreadable")
    space = {key: tuple(choices) for key, choices in found.get("space", {}).items()}
    texts = {key: str(found[key]) for key in kept if key in found}
    return PaperTable(
        name=name,
        kind=found.get("kind", "table"),
        rows=tuple(found.get("values", {})),
        columns=columns,
        metrics=metrics,
        values=values,
        space=space,
        **texts,
    )


def _check_order(where: str, row: str, column: str, hits: list[Published]) -> None:
    """Hits@1 <= Hits@3 <= Hits@10, unless one of them is marked as a misprint."""
    numbers = [hit.value for hit in hits]
    if numbers != sorted(numbers) and not any(hit.misprint for hit in hits):
        raise DataError(f"{where}: {row} / {column}: Hits@k fall: {numbers}. Mark the misprint, or mend the value.")

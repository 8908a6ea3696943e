"""Options that several commands share, and the values that their texts stand for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import inf
from pathlib import Path
from typing import Annotated

import typer

from tangokg.errors import ConfigError, DataError

ABOUT_DATA = "A table (CSV, TSV, Parquet), a benchmark folder, the name of a known set, or 'world', the built-in one."

Data = Annotated[str, typer.Argument(metavar="DATA", help=ABOUT_DATA, show_default=False)]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output, and nothing else there.")]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="ROLE=NAME",
        help="Which column of a table is the subject, relation, object, time, or start and end. Can be repeated.",
        show_default=False,
    ),
]
Unit = Annotated[
    str | None,
    typer.Option(
        help="One step of time: second, minute, hour, day, week, month, year. Dates: day.", show_default=False
    ),
]
TrainShare = Annotated[float | None, typer.Option(help="Share of the facts to train on: the first 0.8 of a table.")]
ValidShare = Annotated[float | None, typer.Option(help="Share of the facts to validate on: the next 0.1 of a table.")]
ValidFrom = Annotated[str | None, typer.Option(metavar="DATE", help="Validate from this time on, train before it.")]
TestFrom = Annotated[str | None, typer.Option(metavar="DATE", help="Test from this time on.")]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of everything that is drawn.")]

MOST_HORIZONS = 1000


class Split(StrEnum):
    """Parts that a run can be evaluated on."""

    VALID = "valid"
    TEST = "test"


class Filter(StrEnum):
    """What else is true and does not count, as :data:`tangokg.rank.FILTERS`."""

    RAW = "raw"
    TIME_AWARE = "time-aware"
    TIME_UNAWARE = "time-unaware"


class By(StrEnum):
    """How metrics are broken down."""

    RELATION = "relation"
    TIME = "time"


@dataclass(frozen=True)
class Reading:
    """How the facts of a source are read and cut into parts."""

    columns: dict[str, str]
    unit: str | None = None
    train_share: float | None = None
    valid_share: float | None = None
    valid_from: str | None = None
    test_from: str | None = None

    def __post_init__(self) -> None:
        if (self.valid_from is None) != (self.test_from is None):
            raise DataError("--valid-from and --test-from go together: give both dates, or shares.")
        if self.by_date and self.by_share:
            raise DataError("the parts are cut by shares or by dates: give --train-share or --valid-from, not both.")

    @property
    def by_date(self) -> bool:
        return self.valid_from is not None

    @property
    def by_share(self) -> bool:
        return self.train_share is not None or self.valid_share is not None


def parse_columns(texts: list[str] | None) -> dict[str, str]:
    """``role=name`` texts -> role -> column name."""
    columns = {}
    for text in texts or []:
        role, equals, name = (piece.strip() for piece in text.partition("="))
        if not (role and equals and name):
            raise ConfigError(f"--column {text!r}: expected role=name, for example --column subject=actor.")
        columns[role] = name
    return columns


def parse_horizons(text: str) -> list[float]:
    """``3``, ``1,3,5``, ``1-8`` or a mixture -> horizons, in the order given."""
    horizons: list[float] = []
    for piece in text.split(","):
        first, dash, last = piece.strip().partition("-")
        try:
            steps = range(int(first), int(last) + 1)[: MOST_HORIZONS + 1] if dash else [float(piece)]
        except ValueError:
            steps = []
        horizons += map(float, steps)
        if not steps or not all(0 < dt < inf for dt in steps) or len(horizons) > MOST_HORIZONS:
            raise ConfigError(
                f"--horizon {text!r}: expected numbers of time steps above 0: 3, a list 1,3,5 or a range 1-8, "
                f"{MOST_HORIZONS} at most."
            )
    return horizons

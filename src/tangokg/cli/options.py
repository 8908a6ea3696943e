"""The arguments and options of the commands, and the values that their texts stand for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tangokg.config import parse_duration
from tangokg.errors import ConfigError, DataError

if TYPE_CHECKING:
    from tangokg.quads.reading import TableKeywords

ABOUT_DATA = "A table (CSV, TSV, JSON lines, Parquet), a benchmark folder, a known set, or 'world', the built-in one."
ABOUT_MODEL = (
    "tango (the default), history, tango-tucker, tango-distmult, tango-authors; baselines: distmult, tucker, compgcn, "
    "ttranse, ta-distmult, cygnet, de-simple, tntcomplex, renet; counters: recurrency, copy-last, frequency or "
    "recurrence."
)
DEVICES = ("auto", "cpu", "cuda")
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


# Of several commands
Data = Annotated[str, typer.Argument(metavar="DATA", help=ABOUT_DATA, show_default=False)]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output, and nothing else there.")]
Device = Annotated[
    str | None, typer.Option(metavar="NAME", help="auto (cuda where there is one), cpu or cuda.", show_default=False)
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the run that is there.")]
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
        help="One step of time: second, minute, hour, day, week, month, quarter, year; else by the spacing of the "
        "dates. step: times are plain numbers.",
        show_default=False,
    ),
]
Timezone = Annotated[
    str | None,
    typer.Option(
        metavar="ZONE",
        help="Zone of the dates, such as Europe/Berlin or +02:00: times with an offset are converted to it, others are "
        "read in it. Else UTC.",
        show_default=False,
    ),
]
DateFormat = Annotated[
    str | None,
    typer.Option(
        metavar="PATTERN",
        help="How times are written, where not as ISO: '%d.%m.%Y' and the like, unix, unix-ms, unix-us or unix-ns.",
        show_default=False,
    ),
]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave out rows that cannot be used, and say how many.")]
OneRelation = Annotated[
    str | None,
    typer.Option("--relation", metavar="NAME", help="The relation of all rows of a table.", show_default=False),
]
Overlap = Annotated[
    str | None,
    typer.Option(
        metavar="earlier|later",
        help="A step that two parts of a folder share goes whole to this one of them.",
        show_default=False,
    ),
]
TrainShare = Annotated[float | None, typer.Option(help="Share of the facts to train on: the first 0.8 of a table.")]
ValidShare = Annotated[float | None, typer.Option(help="Share of the facts to validate on: the next 0.1 of a table.")]
ValidFrom = Annotated[str | None, typer.Option(metavar="DATE", help="Validate from this time on, train before it.")]
TestFrom = Annotated[str | None, typer.Option(metavar="DATE", help="Test from this time on.")]

Thin = Annotated[
    int | None,
    typer.Option(min=0, metavar="SEED", help="Keep only some of the times, 1 to 4 apart, drawn from this seed."),
]

# Of `tango train` and `tango demo`
TrainData = Annotated[
    str | None,
    typer.Argument(
        metavar="DATA",
        help=f"{ABOUT_DATA} With --resume it can be left out: the run has its facts.",
        show_default=False,
    ),
]
Model = Annotated[str | None, typer.Option(help=ABOUT_MODEL, show_default=False)]
Config = Annotated[Path | None, typer.Option(metavar="FILE", help="Settings from a TOML file.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="One setting, such as dim=100. Can be repeated."),
]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of everything that is drawn.")]
SomeSeed = Annotated[int | None, typer.Option(min=0, max=2**32 - 1, help="Seed of everything that is drawn: 0.")]
Out = Annotated[
    Path | None, typer.Option(metavar="RUN", help="Folder of the run: runs/<data>-<model>.", show_default=False)
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run, with its settings.")]
From = Annotated[Path | None, typer.Option("--from", metavar="RUN", help="Go on from a trained run, with newer data.")]
AllowSeen = Annotated[
    bool, typer.Option("--allow-seen", help="Also where a run saw what is held back now; marks it not comparable.")
]
Budget = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Train for at most this long: 90s, 10m, 2h, or none.", show_default=False),
]
Epochs = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="At most so many epochs, as --set epochs=N.", show_default=False)
]
Refit = Annotated[
    bool,
    typer.Option("--refit", help="Then train on all parts, for use: figures are those before.", show_default=False),
]
PlotTraining = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Draw loss and validation MRR: .png, .svg or .pdf.")
]

# Of `tango evaluate`
Filters = Annotated[
    list[Filter] | None,
    typer.Option("--filter", help="What else is true and does not count: time-aware; with -v all.", show_default=False),
]
Horizon = Annotated[
    str | None,
    typer.Option(metavar="STEPS", help="How far ahead, in the data's unit: 3, 1,3,5 or 1-8.", show_default=False),
]
Part = Annotated[Split, typer.Option("--split", help="The part to evaluate on.")]
Breakdown = Annotated[By | None, typer.Option("--by", help="Break the figures down.", show_default=False)]
Inductive = Annotated[bool, typer.Option("--inductive", help="Only queries with an entity that training never saw.")]
MultiStep = Annotated[bool, typer.Option("--multi-step", help="Nothing from the first time of the part on is known.")]
PlotMetrics = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw --by time, several horizons, --calibration: .png, .svg, .pdf."),
]

Calibration = Annotated[
    bool, typer.Option("--calibration", help="How chances and shares compare with what happened, instead of ranks.")
]
Recent = Annotated[
    float, typer.Option(min=1, help="With --calibration: pairs with a fact in the last so many usual gaps.")
]

# Of `tango forecast`
Subject = Annotated[str | None, typer.Argument(help="Who acts; '?' asks for it.", show_default=False)]
Relation = Annotated[str | None, typer.Argument(help="What is done; '?' asks for it.", show_default=False)]
Object = Annotated[
    str | None, typer.Argument(help="To whom; without it, it is asked for. All three: yes or no.", show_default=False)
]
Until = Annotated[
    str | None,
    typer.Option("--by", metavar="TIME", help="At least once from the last fact until then.", show_default=False),
]
At = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="A date or number; else one usual gap after the last fact.", show_default=False),
]
Top = Annotated[int, typer.Option(min=1, help="How many answers.")]
Observe = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Facts to know as well, new names included. Can be repeated."),
]
Keep = Annotated[
    bool, typer.Option("--keep", help="The facts of --observe stay with the run: the next question knows them too.")
]
Why = Annotated[bool, typer.Option("--why", help="The earlier facts that raised the first three answers.")]
QueriesFile = Annotated[
    Path | None,
    typer.Option("--queries", metavar="FILE", help="A table of questions: subject, relation, object, time."),
]
AnswersFile = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="Where their answers go: .csv, .tsv or .parquet.")
]


@dataclass(frozen=True)
class Reading:
    """How the facts of a source are read and cut into parts."""

    columns: dict[str, str]
    unit: str | None = None
    train_share: float | None = None
    valid_share: float | None = None
    valid_from: str | None = None
    test_from: str | None = None
    timezone: str | None = None
    date_format: str | None = None
    skip_bad: bool = False
    relation: str | None = None
    overlap: str | None = None

    def __post_init__(self) -> None:
        if (self.valid_from is None) != (self.test_from is None):
            raise DataError("--valid-from and --test-from go together: give both dates, or shares.")
        if self.by_date and self.by_share:
            raise DataError("the parts are cut by shares or by dates: give --train-share or --valid-from, not both.")

    @property
    def table(self) -> TableKeywords:
        """The options of a table, as its readers take them."""
        return {
            "columns": self.columns,
            "unit": self.unit,
            "timezone": self.timezone,
            "date_format": self.date_format,
            "skip_bad": self.skip_bad,
            "relation": self.relation,
        }

    @property
    def by_date(self) -> bool:
        return self.valid_from is not None

    @property
    def by_share(self) -> bool:
        return self.train_share is not None or self.valid_share is not None


def parse_device(name: str | None) -> str:
    """A known name; without one, auto."""
    if name is not None and name not in DEVICES:
        raise ConfigError(f"device {name!r} is unknown; choose one of {', '.join(DEVICES)}.")
    return name or DEVICES[0]


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


def parse_budget(text: str | None) -> float | None:
    """``90``, ``90s``, ``8m``, ``2h``, ``1d`` -> seconds."""
    return None if text is None else parse_duration(text, "--budget")

"""Arguments and options shared by several commands, and the parsers of their values."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from tangokg.errors import ConfigError
from tangokg.showing import plain

if TYPE_CHECKING:
    from tangokg.quads import Dataset

ABOUT_DATA = (
    "A table (CSV, TSV, JSON lines, Parquet), the address of a database, a benchmark folder, a known set, or 'world', "
    "the built-in one."
)
ABOUT_MODEL = (
    "tango (the default), history, tango-tucker, tango-distmult, tango-authors; baselines: distmult, tucker, compgcn, "
    "ttranse, ta-distmult, cygnet, de-simple, tntcomplex, renet; counters: recurrency, copy-last, frequency or "
    "recurrence."
)
DEVICES = ("auto", "cpu", "cuda")


class Split(StrEnum):
    """Parts that a run can be evaluated on."""

    VALID = "valid"
    TEST = "test"


Data = Annotated[str, typer.Argument(metavar="DATA", help=ABOUT_DATA)]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")]
Model = Annotated[str | None, typer.Option(help=ABOUT_MODEL)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output, and nothing else there.")]
Device = Annotated[str | None, typer.Option(metavar="NAME", help="auto (cuda where it is available), cpu or cuda.")]
Devices = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Train in N processes on this machine: one for each GPU, or on the CPU."),
]
Nodes = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Train on N machines: give the same command on each, with --rendezvous."),
]
Rendezvous = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="With --nodes: one of the machines, and a free port of it.")
]
ShardEntities = Annotated[
    bool, typer.Option("--shard-entities", help="Divide the entities among the processes: for tables that do not fit.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing run.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting, such as dim=100. Can be repeated.")
]
Epochs = Annotated[int | None, typer.Option(min=1, metavar="N", help="Train for at most N epochs, as --set epochs=N.")]
Seed = Annotated[int | None, typer.Option(min=0, max=2**32 - 1, help="Seed of all random numbers; by default 0.")]
Log = Annotated[
    str | None, typer.Option(metavar="NAMES", help="Trackers, separated by commas: csv, tensorboard, wandb, mlflow.")
]
AllowSeen = Annotated[
    bool,
    typer.Option("--allow-seen", help="Accept a run that has seen facts now held back; mark it not comparable."),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="ROLE=NAME",
        help="Which column of a table is the subject, relation, object, time, or start and end. Can be repeated.",
    ),
]
Timezone = Annotated[
    str | None,
    typer.Option(
        metavar="ZONE",
        help="Time zone of the dates, such as Europe/Berlin or +02:00; by default UTC. Times with an offset are "
        "converted to it, others are read in it.",
    ),
]
DateFormat = Annotated[
    str | None,
    typer.Option(
        metavar="PATTERN",
        help="How times are written, if not in ISO form: a pattern such as '%d.%m.%Y', unix, unix-ms, unix-us or "
        "unix-ns.",
    ),
]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave out rows that cannot be used, and say how many.")]
OneRelation = Annotated[
    str | None, typer.Option("--relation", metavar="NAME", help="The relation of all rows of a table.")
]


@dataclass(frozen=True)
class Reading:
    """Options that say how a table or folder is read."""

    column: Columns = None
    unit: Annotated[
        str | None,
        typer.Option(
            help="One step of time: second, minute, hour, day, week, month, quarter or year; by default it follows "
            "from the spacing of the dates. step: times are plain numbers.",
        ),
    ] = None
    timezone: Timezone = None
    date_format: DateFormat = None
    skip_bad: SkipBad = False
    relation: OneRelation = None
    overlap: Annotated[
        str | None,
        typer.Option(metavar="earlier|later", help="The part that gets a step which two parts of a folder share."),
    ] = None

    def read(self, data: str | list[str], format: str | None = None, language: str | None = None) -> Dataset:
        """Read the data set ``data``, or published files if a ``format`` is given."""
        from tangokg.quads import find

        options = dict(vars(self))
        columns = parse_columns(options.pop("column"))
        return find(data, columns=columns, format=format, language=language, **options)


@dataclass(frozen=True)
class Splitting(Reading):
    """The same, with options for the borders of the training, validation and test parts."""

    train_share: Annotated[float | None, typer.Option(help="Share of facts to train on; the first 0.8 of a table.")] = (
        None
    )
    valid_share: Annotated[float | None, typer.Option(help="Share to validate on; the next 0.1 of a table.")] = None
    valid_from: Annotated[str | None, typer.Option(metavar="DATE", help="Validate from DATE on, train before it.")] = (
        None
    )
    test_from: Annotated[str | None, typer.Option(metavar="DATE", help="Test from DATE on.")] = None


PANEL = "How DATA is read"


def with_reading(command: Callable[..., None]) -> Callable[..., None]:
    """Expand the parameter ``reading`` of a command into options, one for each field of its type."""
    shape = signature(command, eval_str=True)
    kind = shape.parameters["reading"].annotation
    hints = get_type_hints(kind, include_extras=True)
    names = [field.name for field in fields(kind)]
    options = [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=_in_panel(hints[field.name]))
        for field in fields(kind)
    ]

    @wraps(command)
    def run(**arguments: Any) -> None:
        values = {name: arguments.pop(name) for name in names}
        command(reading=kind(**values), **arguments)

    rest = [p.replace(kind=Parameter.KEYWORD_ONLY) for p in shape.parameters.values() if p.name != "reading"]
    run.__signature__ = shape.replace(parameters=[*rest, *options])  # type: ignore[attr-defined]
    return run


def _in_panel(hint: Any) -> Any:
    """An option in the group of those about reading."""
    kind, option = get_args(hint)
    option = copy(option)
    option.rich_help_panel = PANEL
    return Annotated[kind, option]


def train_settings(settings: list[str] | None, **options: object) -> list[str]:
    """The texts of --set, plus other options as training settings; unset options are skipped."""
    texts = [f"train.{name}={plain(value)}" for name, value in options.items() if value not in (None, False)]
    return [*(settings or []), *texts]


def parse_device(name: str | None) -> str:
    """A known device; by default auto."""
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

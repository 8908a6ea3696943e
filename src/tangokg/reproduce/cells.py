"""Every cell of every table and figure: which experiment fills it, and where in its result the number stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from tangokg.errors import ConfigError, nearest, offer
from tangokg.reproduce.paper import PaperTable, published
from tangokg.reproduce.presets import (
    ABLATIONS,
    BASELINES,
    COUNTERS,
    DECODERS,
    DIFFERENCES_ON,
    HISTORIES,
    MEASURED,
    SETS,
    THINNED,
    UNNORMALISED,
    WINDOWS,
    WITHOUT_LENGTH,
    best_decoder,
    differences_measured,
    experiments,
)

RUN = "our run"  # of a baseline
FORMS = {  # whose number, and how its presets begin
    "as printed": "printed",
    "paper form": "paper",
    "ours": "tango",
    "authors' form": "authors",
    RUN: "baseline",
}
MAIN_FORMS = ("paper form", "ours")
FIGURES = ("mrr", "hits@1", "hits@3", "hits@10")
WITHOUT = " without transition"
AS_IT_IS = "as it is"


@dataclass(frozen=True)
class Cell:
    """One number of ours: ``config`` names the experiment, ``protocol`` and ``metric`` its place in the result."""

    table: str
    row: str
    column: str
    form: str  # a name in FORMS
    metric: str
    config: str
    protocol: tuple[str, ...]

    @property
    def needs(self) -> str | None:
        """The protocol that is evaluated for it, beside the single step."""
        return self.protocol[1] if self.protocol[:1] == ("protocols",) else None


@dataclass(frozen=True)
class Table:
    """A table or figure with its cells; ``paper`` is what is published, None where it is beyond the paper."""

    name: str
    title: str
    kind: str
    columns: tuple[str, ...]
    metrics: tuple[str, ...]
    cells: tuple[Cell, ...]
    paper: PaperTable | None = None

    def of(self, **wanted: str) -> list[Cell]:
        """The cells with these fields: ``of(row="TANGO-TuckER", column="WIKI")``."""
        return [cell for cell in self.cells if all(getattr(cell, key) == value for key, value in wanted.items())]


@cache
def tables() -> dict[str, Table]:
    """All tables and figures by name, the paper's first."""
    found = {}
    for name, paper in published().items():
        cells = tuple(_CELLS[name](name)) if name in _CELLS else ()
        columns = tuple(dict.fromkeys([*paper.columns, *(cell.column for cell in cells)]))
        found[name] = Table(name, paper.title, paper.kind, columns, paper.metrics, cells, paper)
    for name, (title, make) in BEYOND.items():
        cells = tuple(make(name))
        columns, metrics = (tuple(dict.fromkeys(getattr(c, key) for c in cells)) for key in ("column", "metric"))
        found[name] = Table(name, title, "table", columns, metrics, cells)
    return found


def find_table(name: str) -> Table:
    """A table by name; an unknown one is an error that offers the nearest."""
    known = tables()
    if name not in known:
        raise ConfigError(f"unknown table {name!r}.{offer(nearest(name, known))} Known: {', '.join(known)}.")
    return known[name]


@cache
def cells_of(config: str) -> tuple[Cell, ...]:
    """All cells that one experiment fills."""
    return tuple(cell for table in tables().values() for cell in table.cells if cell.config == config)


def needs_of(config: str) -> tuple[str, ...]:
    """The protocols that the cells of an experiment need, beside the single step."""
    return tuple(dict.fromkeys(cell.needs for cell in cells_of(config) if cell.needs))


def _each(data: tuple[str, ...], variant: str = "") -> Iterator[tuple[str, str, str, str]]:
    """(row, data, form, config) of both decoders and both forms, where there is such an experiment."""
    for decoder, row in DECODERS.items():
        for form, begin in [item for item in FORMS.items() if item[0] != RUN]:
            for name in data:
                config = f"{begin}-{decoder}{variant}/{name}"
                if config in experiments():
                    yield row, name, form, config


def _compared(table: str, data: tuple[str, ...]) -> Iterator[tuple[str, str, str, str]]:
    """As :func:`_each`, for the baselines that the paper has in a table, and the counters in two of them."""
    printed = published()[table].rows if table in published() else ()
    models = {row: model for row, model in BASELINES.items() if row in printed}
    models |= COUNTERS if table in ("main", "irregular") else {}
    for row, model in models.items():
        for name in data:
            yield row, name, RUN, f"baseline-{model}/{name}"


def _single(table: str, part: str, filter_name: str, data: tuple[str, ...]) -> Iterator[Cell]:
    for row, name, form, config in (*_compared(table, data), *_each(data)):
        for metric in FIGURES:
            yield Cell(table, row, name, form, metric, config, (part, filter_name))


def _inductive(table: str) -> Iterator[Cell]:
    for row, _, form, config in _compared(table, ("ICEWS05-15",)):
        for column in ("raw", "time-aware", "time-unaware"):
            for metric in FIGURES:
                yield Cell(table, row, column, form, metric, config, ("protocols", "inductive", column))
    for variant, ending in (("", ""), ("-without-transition", WITHOUT)):
        for row, _, form, config in _each(("ICEWS05-15",), variant):
            for column in ("raw", "time-aware", "time-unaware"):
                for metric in FIGURES:
                    yield Cell(table, row + ending, column, form, metric, config, ("protocols", "inductive", column))


def _ablation(table: str) -> Iterator[Cell]:
    for variant, ending in (("", ""), ("-without-transition", WITHOUT)):
        for row, name, form, config in _each(("ICEWS05-15", "WIKI"), variant):
            if form == "paper form":
                for column, group in (("larger changes", "larger"), ("all", "all")):
                    place = ("protocols", "snapshots", group)
                    yield Cell(table, f"{row}{ending} on {name}", column, form, "mrr", config, place)


def _horizon(table: str) -> Iterator[Cell]:
    for row, _, form, config in (*_compared(table, ("ICEWS05-15",)), *_each(("ICEWS05-15",))):
        if row != "TANGO-DistMult":
            for step in range(1, 9):
                place = ("protocols", "horizon", str(step), "time-aware")
                yield Cell(table, row, str(step), form, "mrr", config, place)


def _history(table: str) -> Iterator[Cell]:
    for length in sorted((*HISTORIES, 4)):
        config = f"paper-tucker{'' if length == 4 else f'-history-{length}'}/ICEWS05-15"
        for metric, place in (("mrr", ("test", "time-aware")), ("epoch_seconds", ())):
            yield Cell(table, "TANGO-TuckER", str(length), "paper form", metric, config, place)


def _time(table: str) -> Iterator[Cell]:
    data = SETS if table == "time" else ("ICEWS05-15",)
    for row, name, form, config in (*_compared("time", data), *_each(data)):
        yield Cell(table, row, name, form, "train_seconds", config, ())


def _dynamics(table: str) -> Iterator[Cell]:
    """The same weights asked without dynamics and with other graphs; trained so; and trained with other times."""
    for name in MEASURED:
        decoder = best_decoder(name)
        for form in MAIN_FORMS:
            begin = FORMS[form]
            row, place = f"{name}, {DECODERS[decoder]}", ("test", "time-aware")
            whole = f"{begin}-{decoder}/{name}"
            yield Cell(table, row, "as it is", form, "mrr", whole, place)
            for variant in ABLATIONS:
                own = ("protocols", "ablated", variant, "time-aware")
                yield Cell(table, row, f"asked {_words(variant)}", form, "mrr", whole, own)
            for variant in ABLATIONS:
                config = f"{begin}-{decoder}-{variant}/{name}"
                yield Cell(table, row, f"trained {_words(variant)}", form, "mrr", config, place)
            for window in WINDOWS:
                config = f"{begin}-{decoder}-window-{window:g}/{name}"
                yield Cell(table, row, f"window {window:g}", form, "mrr", config, place)


def _words(variant: str) -> str:
    return {"off": "without", "other-graphs": "with other graphs"}[variant]


def _distance(table: str) -> Iterator[Cell]:
    """Every preset of TANGO in which a state can travel."""
    forms = {begin: form for form, begin in FORMS.items() if form != RUN}
    for config, experiment in experiments().items():
        begin, _, variant = experiment.preset.partition("-")
        variant = variant.partition("-")[2].replace("-", " ")
        if begin in forms and variant != "off" and experiment.data in MEASURED:
            row = f"{experiment.row}, {variant}" if variant else experiment.row
            for metric in ("distance",) if begin == "authors" else ("distance", "turn"):
                yield Cell(table, row, experiment.data, forms[begin], metric, config, ("protocols", "state"))


def _multi_step(table: str) -> Iterator[Cell]:
    for row, name, form, config in _each(MEASURED):
        for metric in FIGURES:
            yield Cell(table, row, name, form, metric, config, ("protocols", "multi-step", "time-aware"))


def _differences(table: str) -> Iterator[Cell]:
    """The paper form as it is, and each difference by itself; two sets more for the length of the states."""
    rows = {AS_IT_IS: f"paper-tucker/{DIFFERENCES_ON}"}
    rows |= {found.about: f"paper-tucker-{name}/{DIFFERENCES_ON}" for name, found in differences_measured().items()}
    for data in UNNORMALISED:
        preset = f"paper-{best_decoder(data)}"
        rows[f"{AS_IT_IS}, {data}"] = f"{preset}/{data}"
        rows[f"states of any length, {data}"] = f"{preset}-{WITHOUT_LENGTH}/{data}"
    for row, config in rows.items():
        for part in ("valid", "test"):
            column = {"valid": "validation", "test": "test"}[part]
            yield Cell(table, row, column, "paper form", "mrr", config, (part, "time-aware"))


_CELLS = {
    "main": lambda name: _single(name, "test", "time-aware", SETS),
    "raw": lambda name: _single(name, "test", "raw", SETS),
    "unaware": lambda name: _single(name, "test", "time-unaware", SETS),
    "validation": lambda name: _single(name, "valid", "time-aware", MEASURED),
    "inductive": _inductive,
    "irregular": lambda name: _single(name, "test", "time-aware", (THINNED, "ICEWS05-15")),
    "ablation": _ablation,
    "horizon": _horizon,
    "history": _history,
    "time-cost": _time,
    "time": _time,
}
BEYOND = {
    "dynamics": (
        "What the dynamics add: test MRR without them, with graphs of other windows, with other solver times",
        _dynamics,
    ),
    "differences": (
        "Differences from the text, one at a time: time-aware MRR",
        _differences,
    ),
    "distance": ("How far the state travels within a window", _distance),
    "multi-step": ("Multi-step: nothing after the validation part is known, time-aware filter", _multi_step),
}

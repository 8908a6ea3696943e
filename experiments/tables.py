"""The source of each of our figures in a table: its experiment, and its place in the results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from experiments.experiment import THINNED, Experiment, experiments
from experiments.measure import ABLATIONS
from experiments.published import PaperTable, published

SETS = ("ICEWS05-15", "ICEWS18", "WIKI", "YAGO", "ICEWS14s")
PART = "ICEWS14-KE42"  # 42 of the 183 test days of the paper's ICEWS14, in whose column it stands
COLUMNS = {PART: "ICEWS14"}
RUN = "our run"  # of a baseline
FORMS = ("as printed", "paper form", "ours", "authors' form", RUN)  # in the order of the tables
COUNTERS = ("Recurrency", "Frequency", "Copy last")  # not in the paper
FIGURES = ("mrr", "hits@1", "hits@3", "hits@10")
FILTERS = ("raw", "time-aware", "time-unaware")
WINDOWS = ("0.001", "0.1", "1", "10")  # solver time of a whole window, beside the usual
HISTORIES = ("1", "2", "3", "4", "5", "6", "7")
WITHOUT = " without transition"
DIFFERENCES_ON = "ICEWS14s"
AS_IT_IS = "as it is"


@dataclass(frozen=True)
class Cell:
    """One figure of ours: ``name`` is the experiment, ``path`` and ``metric`` its place in the results."""

    row: str
    column: str
    form: str
    metric: str
    name: str
    path: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """The cells of a table, and what the paper prints there; None for a table that is beyond the paper."""

    cells: tuple[Cell, ...]
    paper: PaperTable | None

    @property
    def rows(self) -> list[str]:
        """The models, those of the paper in its order, counters at the end."""
        ours = {cell.row: None for cell in self.cells}
        rows = {**dict.fromkeys(self.paper.rows if self.paper else ()), **ours}
        return [row for row in rows if row not in COUNTERS] + [row for row in COUNTERS if row in rows]

    @property
    def columns(self) -> list[str]:
        """Those of the paper in its order, then ours; data sets in the usual order."""
        ours = sorted({cell.column: None for cell in self.cells}, key=lambda c: SETS.index(c) if c in SETS else -1)
        return list(dict.fromkeys([*(self.paper.columns if self.paper else ()), *ours]))

    @property
    def metrics(self) -> list[str]:
        return list(dict.fromkeys(cell.metric for cell in self.cells))

    def of(self, **fields: str) -> list[Cell]:
        """The cells with these fields: ``of(row="TANGO-TuckER", column="WIKI")``."""
        return [cell for cell in self.cells if all(getattr(cell, key) == value for key, value in fields.items())]


def best_decoder(data: str) -> str:
    """The decoder of the paper's best result on a set; tucker for sets that it does not have."""
    decoder = published()["settings"].get("decoder", data, "value")
    return str(decoder.value) if decoder else "tucker"


def row_of(decoder: str) -> str:
    """The paper's name of TANGO with a decoder."""
    return {"tucker": "TANGO-TuckER", "distmult": "TANGO-DistMult"}[decoder]


def _usual(table: str, data: tuple[str, ...]) -> Iterator[Experiment]:
    """The configs themselves on these sets, as far as the paper has their rows in a table."""
    rows = {*(published()[table].rows if table in published() else ("TANGO-TuckER", "TANGO-DistMult"))}
    rows |= {*COUNTERS} if table in ("main", "irregular") else set()
    for experiment in experiments().values():
        if experiment.row in rows and not experiment.variant and experiment.data in data:
            yield experiment


def _figures(table: str, *path: str, data: tuple[str, ...] = (*SETS, PART)) -> Iterator[Cell]:
    for e in _usual(table, data):
        for metric in FIGURES:
            yield Cell(e.row, COLUMNS.get(e.data, e.data), e.form, metric, e.name, path)


def _inductive() -> Iterator[Cell]:
    endings = {"": "", "without-transition": WITHOUT}
    for e in experiments().values():
        row = e.row + endings.get(e.variant, " of another variant")
        if e.data == "ICEWS05-15" and row in published()["inductive"].rows:
            for column in FILTERS:
                for metric in FIGURES:
                    yield Cell(row, column, e.form, metric, e.name, ("protocols", "inductive", column))


def _ablation() -> Iterator[Cell]:
    for name in ("ICEWS05-15", "WIKI"):
        for decoder in ("tucker", "distmult"):
            for variant, ending in (("", ""), ("-without-transition", WITHOUT)):
                for column, group in (("larger changes", "larger"), ("all", "all")):
                    row, path = f"{row_of(decoder)}{ending} on {name}", ("protocols", "snapshots", group)
                    yield Cell(row, column, "paper form", "mrr", f"paper-{decoder}{variant}/{name}", path)


def _horizon() -> Iterator[Cell]:
    for e in _usual("horizon", ("ICEWS05-15",)):
        for step in published()["horizon"].columns:
            yield Cell(e.row, step, e.form, "mrr", e.name, ("protocols", "horizon", step, "time-aware"))


def _history() -> Iterator[Cell]:
    for length in HISTORIES:
        name = f"paper-tucker{'' if length == '4' else f'-history-{length}'}/ICEWS05-15"
        for metric, path in (("mrr", ("test", "time-aware")), ("epoch_seconds", ())):
            yield Cell("TANGO-TuckER", length, "paper form", metric, name, path)


def _time() -> Iterator[Cell]:
    for e in _usual("time", (*SETS, PART)):
        yield Cell(e.row, COLUMNS.get(e.data, e.data), e.form, "train_seconds", e.name, ())


def _dynamics() -> Iterator[Cell]:
    """Ablations of the dynamics: removed or with other graphs, in evaluation or in training; and other solver times."""
    words = {"off": "without", "other-graphs": "with other graphs"}
    test = ("test", "time-aware")
    for data in SETS:
        decoder = best_decoder(data)
        for form, file in (("paper form", f"paper-{decoder}"), ("ours", f"tango-{decoder}")):
            places: dict[str, tuple[str, tuple[str, ...]]] = {AS_IT_IS: (file, test)}
            places |= {f"asked {words[v]}": (file, ("protocols", "ablated", v, "time-aware")) for v in ABLATIONS}
            places |= {f"trained {words[v]}": (f"{file}-{v}", test) for v in ABLATIONS}
            places |= {f"window {length}": (f"{file}-window-{length}", test) for length in WINDOWS}
            for column, (preset, path) in places.items():
                yield Cell(f"{data}, {row_of(decoder)}", column, form, "mrr", f"{preset}/{data}", path)


def _distance() -> Iterator[Cell]:
    """All TANGO models whose states can move."""
    for e in experiments().values():
        if e.row.startswith("TANGO") and e.variant != "off" and e.data in SETS:
            row = f"{e.row}, {e.variant.replace('-', ' ')}" if e.variant else e.row
            for metric in ("distance",) if e.model == "tango-authors" else ("distance", "turn"):
                yield Cell(row, e.data, e.form, metric, e.name, ("protocols", "state"))


def differences() -> list[str]:
    """The variants of the paper form that change anything but the dynamics."""
    dynamics = ("", *ABLATIONS, *(f"window-{length}" for length in WINDOWS))
    variants = (e.variant for e in experiments().values() if (e.file, e.data) == ("paper-tucker", DIFFERENCES_ON))
    return [variant for variant in variants if variant not in dynamics]


def _differences() -> Iterator[Cell]:
    """The unmodified paper form, and each difference alone; two more sets for the length of the states."""
    presets = [(f"paper-tucker{end}", DIFFERENCES_ON) for end in ("", *(f"-{name}" for name in differences()))]
    presets += [(f"paper-distmult{end}", data) for data in ("WIKI", "YAGO") for end in ("", "-not-normalised")]
    for preset, data in presets:
        experiment = experiments()[f"{preset}/{data}"]
        row = experiment.about if experiment.variant else AS_IT_IS
        row += "" if data == DIFFERENCES_ON else f", {data}"
        for part, column in (("valid", "validation"), ("test", "test")):
            yield Cell(row, column, "paper form", "mrr", experiment.name, (part, "time-aware"))


_CELLS: dict[str, Callable[[], Iterator[Cell]]] = {
    "main": lambda: _figures("main", "test", "time-aware"),
    "raw": lambda: _figures("raw", "test", "raw"),
    "unaware": lambda: _figures("unaware", "test", "time-unaware"),
    "validation": lambda: _figures("validation", "valid", "time-aware", data=SETS),
    "inductive": _inductive,
    "irregular": lambda: _figures("irregular", "test", "time-aware", data=(THINNED, "ICEWS05-15")),
    "ablation": _ablation,
    "horizon": _horizon,
    "history": _history,
    "time": _time,
    "dynamics": _dynamics,
    "differences": _differences,
    "distance": _distance,
    "multi-step": lambda: _figures("multi-step", "protocols", "multi-step", "time-aware", data=SETS),
}


@cache
def tables() -> dict[str, Table]:
    """All tables and figures by name."""
    return {name: Table(tuple(make()), published().get(name)) for name, make in _CELLS.items()}

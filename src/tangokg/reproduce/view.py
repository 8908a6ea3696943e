"""Cells -> tables of text: the paper's numbers, ours under them, and what is missing. For the terminal and the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tangokg.reproduce.cells import AS_IT_IS, FORMS, WITHOUT, Cell, Table, find_table
from tangokg.reproduce.inputs import NONE, Counts, best_settings, set_statistics
from tangokg.reproduce.notes import notes
from tangokg.reproduce.paper import Published, published
from tangokg.reproduce.presets import DIFFERENCES_ON
from tangokg.reproduce.store import Results, Value

MISSING, LATER = "missing", "later"
HEADINGS = {
    "mrr": "MRR",
    "hits@1": "Hits@1",
    "hits@3": "Hits@3",
    "hits@10": "Hits@10",
    "train_seconds": "seconds",
    "epoch_seconds": "seconds an epoch",
    "distance": "distance",
    "turn": "turn",
}
PAPER_METRIC = {"train_seconds": "seconds"}
GRID = ("main", "raw", "unaware", "validation", "inductive", "irregular", "multi-step")


@dataclass(frozen=True)
class Block:
    """One table of text; its first two columns hold words."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass
class View:
    """A table or figure as text, with what has to be said under it."""

    table: Table
    blocks: list[Block] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def view(name: str, results: Results, counts: Counts | None = None) -> View:
    """One table or figure of the paper, or beyond it; ``counts`` are of data sets, else those of the registry."""
    table = find_table(name)
    shown = View(table)
    if name in OWN:
        OWN[name](shown, results, counts or {})
    elif name in GRID:
        shown.blocks = [_grid(table, column, results) for column in table.columns]
    else:
        metrics = dict.fromkeys([cell.metric for cell in table.cells])
        shown.blocks = [_matrix(table, metric, results) for metric in metrics]
    shown.notes += notes(table, results)
    return shown


def filled(table: Table, results: Results) -> tuple[int, int]:
    """How many cells have a value, and how many there are."""
    return sum(results.value(cell) is not None for cell in table.cells), len(table.cells)


def number(value: Value | None, metric: str) -> str:
    """``42.86 ± 0.20``; seconds without digits behind the point from ten on."""
    if value is None:
        return MISSING
    digits = 3 if metric in ("distance", "turn") else 2
    if "seconds" in metric:
        digits = 0 if value.mean >= 10 else 2
    around = "" if value.spread is None else f" ± {value.spread:,.{digits}f}"
    return f"{value.mean:,.{digits}f}{around}"


def paper_number(printed: Published | None, metric: str) -> str:
    """As the paper prints it; a misprint has a mark."""
    if printed is None:
        return NONE
    digits = 0 if "seconds" in metric else 2
    around = "" if printed.spread is None else f" ± {printed.spread:g}"
    return f"{printed.value:,.{digits}f}{around}{' (!)' if printed.misprint else ''}"


def _rows(table: Table) -> list[str]:
    """The models, the paper's order first; what is ours alone after them."""
    of_paper = table.paper.rows if table.paper else ()
    return list(dict.fromkeys([*of_paper, *(cell.row for cell in table.cells)]))


def _grid(table: Table, column: str, results: Results) -> Block:
    """One data set or filter: models down, metrics across."""
    rows = []
    for row in _rows(table):
        own = table.of(row=row, column=column)
        paper = table.paper
        if paper and (row in paper.rows) and column in paper.columns:
            figures = [paper_number(paper.get(row, column, m), m) for m in table.metrics]
            rows.append((row, "paper" if own else f"paper; ours {LATER}", *figures, ""))
        for form in FORMS:
            cells = {cell.metric: cell for cell in own if cell.form == form}
            if cells:
                values = [results.value(cells[metric]) for metric in table.metrics]
                seeds = max((value.seeds for value in values if value), default=0)
                figures = [number(value, metric) for value, metric in zip(values, table.metrics, strict=True)]
                rows.append((row, form, *figures, str(seeds) if seeds else ""))
    return Block(column, ("model", "from", *(HEADINGS[m] for m in table.metrics), "seeds"), tuple(rows))


def _matrix(table: Table, metric: str, results: Results) -> Block:
    """One metric: models down, data sets or steps across."""
    rows = []
    for row in _rows(table):
        own = [cell for cell in table.of(row=row) if cell.metric == metric]
        printed = [_printed(table, row, column, metric) for column in table.columns]
        if any(printed):
            whose = "paper" if own else f"paper; ours {LATER}"
            rows.append((row, whose, *(paper_number(number, metric) for number in printed)))
        for form in FORMS:
            cells = {cell.column: cell for cell in own if cell.form == form}
            if cells:
                values = (_cell(cells.get(column), results) for column in table.columns)
                rows.append((row, form, *values))
    return Block(HEADINGS[metric], ("model", "from", *table.columns), tuple(rows))


def _cell(cell: Cell | None, results: Results) -> str:
    return NONE if cell is None else number(results.value(cell), cell.metric)


def _printed(table: Table, row: str, column: str, metric: str) -> Published | None:
    paper = published()["time"] if table.name == "time-cost" else table.paper
    return paper.get(row, column, PAPER_METRIC.get(metric, metric)) if paper else None


def _time_cost(shown: View, results: Results, counts: Counts) -> None:
    """As the table of training times, one set: its rows are those of that table."""
    table = shown.table
    rows = []
    for row in published()["time"].rows:
        own = table.of(row=row)
        whose = "paper" if own else f"paper; ours {LATER}"
        rows.append((row, whose, paper_number(_printed(table, row, "ICEWS05-15", "train_seconds"), "seconds")))
        rows += [(row, cell.form, number(results.value(cell), cell.metric)) for cell in own]
    shown.blocks = [Block("seconds", ("model", "from", "ICEWS05-15"), tuple(rows))]


def _ablation(shown: View, results: Results, counts: Counts) -> None:
    """With, without and the gain, for each model and set."""
    table, rows = shown.table, []
    for row in [row for row in _rows(table) if WITHOUT not in row]:
        model, _, data = row.partition(" on ")
        pairs = [_pair(table, model, data, column, results) for column in table.columns]
        for place, label in enumerate(("with", "without")):
            rows.append((row, label, *(number(pair[place], "mrr") for pair in pairs)))
        rows.append((row, "gain", *(_gain(*pair) for pair in pairs)))
    shown.blocks = [Block("MRR", ("model and set", "transition layer", *table.columns), tuple(rows))]
    shown.notes.append("Larger changes: the half of the target snapshots whose transition tensor has the larger norm.")


def _pair(table: Table, model: str, data: str, column: str, results: Results) -> tuple[Value | None, Value | None]:
    """With and without the transition layer."""
    first, second = (table.of(row=f"{model}{end} on {data}", column=column)[0] for end in ("", WITHOUT))
    return results.value(first), results.value(second)


def _gain(with_it: Value | None, without: Value | None) -> str:
    return f"{with_it.mean - without.mean:+.2f}" if with_it and without else NONE


def _differences(shown: View, results: Results, counts: Counts) -> None:
    """Each difference with its preset, and what it changes against the paper form as it is."""
    table, rows = shown.table, []
    own = {row: [results.value(table.of(row=row, column=c)[0]) for c in table.columns] for row in _rows(table)}
    for row, values in own.items():
        preset, _, data = table.of(row=row)[0].config.partition("/")
        whole = AS_IT_IS if data == DIFFERENCES_ON else f"{AS_IT_IS}, {data}"
        changed = [NONE if row == whole else _gain(*pair) for pair in zip(values, own[whole], strict=True)]
        figures = [text for v, change in zip(values, changed, strict=True) for text in (number(v, "mrr"), change)]
        rows.append((row, preset if data == DIFFERENCES_ON else f"{preset}/{data}", *figures))
    across = [text for column in table.columns for text in (column, "change")]
    shown.blocks = [Block("MRR", ("difference", "preset", *across), tuple(rows))]
    shown.notes.append(
        f"On {DIFFERENCES_ON} with TuckER, where no other set is named. One seed of each difference: a change below "
        "0.3 points says nothing. docs/differences.md says what each is."
    )


def _settings(shown: View, results: Results, counts: Counts) -> None:
    headings, rows, note = best_settings()
    shown.blocks, shown.notes = [Block("", headings, rows)], [note]


def _statistics(shown: View, results: Results, counts: Counts) -> None:
    headings, rows, note = set_statistics(counts)
    shown.blocks, shown.notes = [Block("", headings, rows)], [note]


OWN: dict[str, Callable[[View, Results, Counts], None]] = {
    "ablation": _ablation,
    "differences": _differences,
    "settings": _settings,
    "statistics": _statistics,
    "time-cost": _time_cost,
}

"""Tables in Markdown: the paper's numbers, with ours below."""

from __future__ import annotations

from experiments.bench.shown import markdown
from experiments.experiment import THINNED, counts_of, experiments
from experiments.published import Published, paper_step_time, published
from experiments.store import Results, Value
from experiments.tables import (
    AS_IT_IS,
    COLUMNS,
    DIFFERENCES_ON,
    FORMS,
    PART,
    SETS,
    WITHOUT,
    Cell,
    Table,
    best_decoder,
    tables,
)

MISSING, NONE = "missing", "–"
HEADINGS = {"mrr": "MRR", "train_seconds": "seconds", "epoch_seconds": "seconds an epoch"}  # else the metric's name
PAPER_METRIC = {"train_seconds": "seconds"}
BY_METRIC = ("horizon", "history", "time", "dynamics", "distance")  # one block a metric, columns across
WHERE_PART = f"ours on {PART}: 42 of 183 test days"
OUR_SETTINGS = ("step_time", "identity", "normalise", "length", "learning_rate", "batch_windows")


def show(name: str, results: Results) -> str:
    """One table of the paper, or beyond it."""
    if name in SPECIAL:
        return SPECIAL[name](results)
    table = tables()[name]
    if name in BY_METRIC:
        blocks = {HEADINGS.get(metric, metric): _by_metric(table, metric, results) for metric in table.metrics}
    else:
        blocks = {title(column): _by_column(table, column, results) for column in table.columns}
    titles = len(blocks) > 1
    return "\n\n".join(f"**{title}**\n\n{block}" if titles else block for title, block in blocks.items())


def title(column: str) -> str:
    """A heading, with a mark if our numbers use only a part of the set."""
    return f"{column} ({WHERE_PART})" if column in COLUMNS.values() else column


def number(value: Value | None, metric: str = "mrr") -> str:
    """``42.86 ± 0.20``; seconds without digits behind the point from ten on."""
    if value is None:
        return MISSING
    digits = 3 if metric in ("distance", "turn") else 0 if "seconds" in metric and value.mean >= 10 else 2
    around = "" if value.spread is None else f" ± {value.spread:,.{digits}f}"
    return f"{value.mean:,.{digits}f}{around}"


def paper_number(printed: Published | None, metric: str = "mrr") -> str:
    """As the paper prints it; a misprint has a mark."""
    if printed is None:
        return NONE
    around = "" if printed.spread is None else f" ± {printed.spread:g}"
    return f"{printed.value:,.{0 if 'seconds' in metric else 2}f}{around}{' (!)' if printed.misprint else ''}"


def value_of(cell: Cell, results: Results) -> Value | None:
    """The value of a cell; None if it is missing."""
    return results.value(cell.name, *cell.path, cell.metric)


def _by_column(table: Table, column: str, results: Results) -> str:
    """One data set or filter: models down, metrics across."""
    rows = []
    for row in table.rows:
        paper = table.paper
        if paper and row in paper.rows and column in paper.columns:
            rows.append((row, "paper", *(paper_number(paper.get(row, column, m), m) for m in table.metrics), ""))
        for form in FORMS:
            cells = {cell.metric: cell for cell in table.of(row=row, column=column, form=form)}
            if cells:
                values = [value_of(cells[metric], results) for metric in table.metrics]
                seeds = str(values[0].seeds) if values[0] else ""
                part = ", part" if PART in cells["mrr"].name else ""
                rows.append((row, form + part, *map(number, values), seeds))
    return markdown(
        ("model", "from", *(HEADINGS.get(metric, metric.capitalize()) for metric in table.metrics), "seeds"),
        rows,
        left=2,
    )


def _by_metric(table: Table, metric: str, results: Results) -> str:
    """One metric: models down, data sets or steps across."""
    rows = []
    for row in table.rows:
        if table.paper and row in table.paper.rows:
            printed = (table.paper.get(row, column, PAPER_METRIC.get(metric, metric)) for column in table.columns)
            rows.append((row, "paper", *(paper_number(number, metric) for number in printed)))
        for form in FORMS:
            cells = {cell.column: cell for cell in table.of(row=row, form=form, metric=metric)}
            if cells:
                shown = {column: number(value_of(cell, results), metric) for column, cell in cells.items()}
                rows.append((row, form, *(shown.get(column, NONE) for column in table.columns)))
    return markdown(("model", "from", *map(title, table.columns)), rows, left=2)


def gain(more: Value | None, less: Value | None, missing: str = NONE) -> str:
    """The difference of two MRRs."""
    return f"{more.mean - less.mean:+.2f}" if more and less else missing


def transition_pair(table: Table, row: str, column: str, results: Results) -> tuple[Value | None, Value | None]:
    """A figure of the ablation with the transition layer, and without."""
    rows = (row, row.replace(" on ", f"{WITHOUT} on "))
    more, less = (value_of(table.of(row=name, column=column)[0], results) for name in rows)
    return more, less


def _ablation(results: Results) -> str:
    """With the transition layer, without, and the gain, for each model and set."""
    table, rows = tables()["ablation"], []
    for row in [row for row in table.rows if WITHOUT not in row]:
        pairs = [transition_pair(table, row, column, results) for column in table.columns]
        rows += [(row, label, *(number(pair[n]) for pair in pairs)) for n, label in enumerate(("with", "without"))]
        rows.append((row, "gain", *(gain(*pair) for pair in pairs)))
    return markdown(("model and set", "transition layer", *table.columns), rows, left=2)


def _differences(results: Results) -> str:
    """Each difference with its preset, and its change against the unmodified paper form."""
    table, rows = tables()["differences"], []
    values = {row: [value_of(table.of(row=row, column=c)[0], results) for c in table.columns] for row in table.rows}
    for row, of_parts in values.items():
        preset, _, data = table.of(row=row)[0].name.partition("/")
        reference = AS_IT_IS if data == DIFFERENCES_ON else f"{AS_IT_IS}, {data}"
        changed = [NONE if row == reference else gain(*pair) for pair in zip(of_parts, values[reference], strict=True)]
        shown = [text for value, change in zip(of_parts, changed, strict=True) for text in (number(value), change)]
        rows.append((row, f"`{preset}`" if data == DIFFERENCES_ON else f"`{preset}/{data}`", *shown))
    across = [text for column in table.columns for text in (column, "change")]
    return markdown(("difference", "config of its run", *across), rows, left=2)


def _settings(results: Results) -> str:
    """The paper's best settings, and those of our configs with the same decoder."""
    paper, data = published()["settings"], ("ICEWS14", *SETS)
    names = [f"{best_decoder(name)}/{PART if name == 'ICEWS14' else name}" for name in data]
    files = {"paper form": "paper", "ours": "tango"}
    ours = {form: [_flat(f"{file}-{name}") for name in names] for form, file in files.items()}
    rows = []
    for key in (*paper.rows, *OUR_SETTINGS):
        searched = ", ".join(map(str, paper.space.get(key, ())))
        if key in paper.rows:
            printed = (paper.get(key, name, "value") for name in data)
            rows.append((key, "paper", *(NONE if p is None else str(p.value) for p in printed), searched))
        elif key == "step_time":
            times = (paper_step_time(name) for name in data)
            rows.append((key, "paper", *(NONE if time is None else f"{time:.1g}" for time in times), ""))
        if key != "scale":
            rows += [(key, form, *(plain(config[key]) for config in configs), "") for form, configs in ours.items()]
    return markdown(("setting", "from", *data, "searched in the paper"), rows, left=2)


def _flat(name: str) -> dict[str, object]:
    config = experiments()[name].config().to_tables()
    return {**config["train"], **config["settings"]}


def plain(value: object) -> str:
    """A setting in readable form."""
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _statistics(results: Results) -> str:
    """The paper's counts of each set, and ours from the registry, which are checked on reading."""
    paper, rows = published()["statistics"], []
    for data in dict.fromkeys([*paper.rows, "ICEWS14s", PART, THINNED]):
        if data in paper.rows:
            printed = (paper.get(data, column, "count") for column in paper.columns)
            rows.append((data, "paper", *(NONE if p is None else f"{p.value:,}" for p in printed)))
        if counts := counts_of(data):
            rows.append((data, "ours", *(f"{counts[c]:,}" if counts[c] else NONE for c in paper.columns)))
    return markdown(("data set", "from", *paper.columns), rows, left=2)


SPECIAL = {"ablation": _ablation, "differences": _differences, "settings": _settings, "statistics": _statistics}

"""``tango compare``: models trained or loaded on one data set, one table, one plot, a test between the first two."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tangokg.cli.next_steps import next_command
from tangokg.cli.options import (
    AllowSeen,
    Columns,
    Data,
    DateFormat,
    Device,
    Epochs,
    Json,
    OneRelation,
    Overlap,
    Reading,
    Settings,
    SkipBad,
    SomeSeed,
    TestFrom,
    Timezone,
    TrainShare,
    Unit,
    ValidFrom,
    ValidShare,
    parse_columns,
    parse_device,
)
from tangokg.cli.output import FIGURES, Output, figures, make_table
from tangokg.cli.training import fit_shown
from tangokg.errors import DataError

if TYPE_CHECKING:
    from tangokg.cli.entries import Entry
    from tangokg.forecast import Forecaster
    from tangokg.quads import Dataset
    from tangokg.rank import Metrics
    from tangokg.report.compare import Comparison, Measured

ModelNames = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="A model to compare, or all. Can be repeated. Without it and --run: frequency, recurrency, tango.",
        show_default=False,
    ),
]
RunFolders = Annotated[
    list[Path] | None,
    typer.Option(
        "--run",
        metavar="RUN",
        help="A finished run on the same data, in place of training its model.",
        show_default=False,
    ),
]
OutFolder = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FOLDER",
        help="Where runs are kept, each under its model's name: runs/<data>-compare. Those that are there are loaded.",
        show_default=False,
    ),
]
PlotComparison = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        help="MRR against training time: .png, .svg or .pdf; else compare.png beside the runs.",
    ),
]


def compare(
    ctx: typer.Context,
    data: Data,
    model: ModelNames = None,
    run: RunFolders = None,
    out: OutFolder = None,
    settings: Settings = None,
    epochs: Epochs = None,
    seed: SomeSeed = None,
    device: Device = None,
    allow_seen: AllowSeen = False,
    plot: PlotComparison = None,
    train_share: TrainShare = None,
    valid_share: ValidShare = None,
    valid_from: ValidFrom = None,
    test_from: TestFrom = None,
    column: Columns = None,
    unit: Unit = None,
    timezone: Timezone = None,
    date_format: DateFormat = None,
    skip_bad: SkipBad = False,
    relation: OneRelation = None,
    overlap: Overlap = None,
    as_json: Json = False,
) -> None:
    """Train or load several models on the same data, and show how well and how fast each of them is."""
    output: Output = ctx.obj
    reading = Reading(
        parse_columns(column),
        unit,
        train_share,
        valid_share,
        valid_from,
        test_from,
        timezone,
        date_format,
        skip_bad,
        relation,
        overlap,
    )
    assignments = [*(settings or []), *([f"train.epochs={epochs}"] if epochs else [])]
    place = parse_device(device)
    _check(plot)
    from tangokg.cli.entries import make_plan
    from tangokg.cli.sources import read_source, tell
    from tangokg.report.compare import compare as compare_measured

    plan = make_plan(model or [], run or [], assignments, seed, place)
    dataset = read_source(data, reading)
    if not len(dataset.test):
        raise DataError(f"{dataset.name}: no test part, on which models are compared. Give dates with --valid-from.")
    tell(output, dataset)
    folder = out or Path("runs") / f"{dataset.name}-compare"
    entries = plan.entries(folder)
    for entry in entries:
        entry.check(dataset, allow_seen)
    measured = []
    for number, entry in enumerate(entries, 1):
        done = "loaded from" if entry.finished else "goes on in" if entry.there else "trained into"
        output.say(f"{number} of {len(entries)}: {entry.name}, {done} {entry.path}")
        measured.append(_measure(output, dataset, entry, place))
    _report(output, dataset, compare_measured(measured, seed or 0), entries, plot or folder / "compare.png", as_json)


def _check(plot: Path | None) -> None:
    """What can be told before anything is read."""
    if plot:
        from tangokg.report import check_figure

        check_figure(plot)


def _measure(output: Output, dataset: Dataset, entry: Entry, device: str) -> Measured:
    """A model that is loaded or trained, on the test part; once trained it stays, whatever happens to the next one."""
    from tangokg.forecast import load
    from tangokg.report.compare import Measured

    if entry.finished:
        forecaster = load(entry.path, device).as_made
    else:
        again = ["tango", *output.words]
        forecaster = fit_shown(output, dataset, entry.config, entry.path, again, resume=entry.there)
    began = time.perf_counter()
    metrics = _ranks(output, forecaster)
    name = f"{entry.name} (not comparable)" if metrics.not_comparable else entry.name
    return Measured(name, metrics, _train_seconds(entry.path), time.perf_counter() - began)


def _ranks(output: Output, forecaster: Forecaster) -> Metrics:
    with output.progress("ranking") as bar:
        task = bar.task_ids[0]
        return forecaster.evaluate(progress=lambda done, total: bar.update(task, completed=done, total=total))


def _train_seconds(path: Path) -> float | None:
    """What training took, over all its sessions; None where the run does not say."""
    try:
        return float(json.loads((path / "metrics.json").read_text(encoding="utf-8"))["train_seconds"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _report(
    output: Output, dataset: Dataset, comparison: Comparison, entries: list[Entry], plot: Path, as_json: bool
) -> None:
    from tangokg.report.compare import FILTER, plot_comparison

    queries = comparison.rows[0].figures.queries
    title = f"{dataset.name}, test part, {FILTER}, {queries:,} queries"
    if as_json:
        runs = {entry.name: {"run": str(entry.path), "seed": entry.config.seed} for entry in entries}
        runs |= {f"{name} (not comparable)": run | {"not_comparable": True} for name, run in runs.items()}
        found = comparison.to_dict()
        found["models"] = [row | runs[row["model"]] for row in found["models"]]
        output.json({"dataset": dataset.name, "split": "test"} | found)
    else:
        output.show(_table(title, comparison))
        if comparison.test:
            output.show(_tell_test(comparison))
    plot.parent.mkdir(parents=True, exist_ok=True)
    plot_comparison(plot, comparison.rows, title)
    output.say(f"The figure is in {plot}.")
    best = next(entry for entry in entries if entry.name == comparison.rows[0].name.removesuffix(" (not comparable)"))
    output.say(f"Next: {next_command(output.words, 'evaluate', str(best.path), '--by', 'relation')}")


def _table(title: str, comparison: Comparison) -> Any:
    rows = []
    for row in comparison.rows:
        mrr, *hits = figures(row.figures.to_dict())
        trained = "" if row.train_seconds is None else f"{row.train_seconds:,.1f}"
        cells = [row.name, mrr, f"{row.low:.2f} to {row.high:.2f}", *hits, trained, f"{row.queries_per_second:,.0f}"]
        rows.append(cells)
    columns = ("model", FIGURES[0], "95 % interval", *FIGURES[1:], "training (s)", "queries/s")
    return make_table(title, columns, rows)


def _tell_test(comparison: Comparison) -> str:
    test, (first, second) = comparison.test, comparison.rows[:2]
    assert test is not None
    return (
        f"{first.name} less {second.name}: MRR {test.difference:+.2f}, 95 % interval {test.low:+.2f} to "
        f"{test.high:+.2f}, p = {test.p:.4f} (sign-flip test over the queries)"
    )

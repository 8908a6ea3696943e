"""``tango compare``: models trained or loaded on one data set, one table, one plot, a test between the first two."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tangokg.cli.data import tell_data
from tangokg.cli.fitting import fit_shown
from tangokg.cli.next_steps import next_command
from tangokg.cli.options import (
    AllowSeen,
    Data,
    Device,
    Epochs,
    Json,
    Seed,
    Settings,
    Splitting,
    parse_device,
    with_reading,
)
from tangokg.cli.output import Output
from tangokg.cli.tables import FIGURES, figures, make_table

if TYPE_CHECKING:
    from tangokg.forecast.comparing import Entry
    from tangokg.report.compare import Comparison


@with_reading
def compare(
    ctx: typer.Context,
    data: Data,
    reading: Splitting,
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A model to compare, or all. Can be repeated. Without it and --run: frequency, recurrency, tango.",
        ),
    ] = None,
    run: Annotated[
        list[Path] | None,
        typer.Option(metavar="RUN", help="A finished run on the same data, in place of training its model."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where runs are kept, each under its model's name; by default runs/<data>-compare. Existing runs are "
            "loaded.",
        ),
    ] = None,
    settings: Settings = None,
    epochs: Epochs = None,
    seed: Seed = None,
    device: Device = None,
    allow_seen: AllowSeen = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="MRR against training time: .png, .svg or .pdf; by default compare.png beside the runs.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Train or load several models on the same data, and show how well and how fast each of them is."""
    output: Output = ctx.obj
    place = parse_device(device)
    output.check_figure(plot)
    from tangokg.forecast.comparing import check_entries, select_models
    from tangokg.report.compare import FILTER
    from tangokg.report.compare import compare as compare_measured

    assignments = [*(settings or []), *([f"train.epochs={epochs}"] if epochs else [])]
    selection = select_models(model, run or [], assignments, seed, place)
    dataset = reading.read(data)
    folder = out or Path("runs") / f"{dataset.name}-compare"
    entries = selection.entries(folder)
    check_entries(entries, dataset, allow_seen)
    tell_data(output, dataset)
    train = partial(fit_shown, output, again=["tango", *output.words])
    measured = []
    for number, entry in enumerate(entries, 1):
        action = "loaded from" if entry.finished else "resumed in" if entry.existing else "trained into"
        output.say(f"{number} of {len(entries)}: {entry.name}, {action} {entry.path}")
        forecaster = entry.obtain(dataset, place, train)
        with output.progress("ranking") as advance:
            measured.append(entry.measure(forecaster, advance))
    comparison = compare_measured(measured, seed or 0)
    title = f"{dataset.name}, test part, {FILTER}, {comparison.rows[0].figures.queries:,} queries"
    if as_json:
        output.json({"dataset": dataset.name, "split": "test"} | _with_runs(comparison, entries))
    else:
        _show(output, title, comparison)
    _plot(output, plot or folder / "compare.png", title, comparison)
    best = next(entry for entry in entries if comparison.rows[0].name in _names(entry))
    output.say(f"Next: {next_command(output.words, 'evaluate', str(best.path), '--by', 'relation')}")


def _names(entry: Entry) -> tuple[str, str]:
    """How a row of it may be called."""
    return entry.name, f"{entry.name} (not comparable)"


def _with_runs(comparison: Comparison, entries: list[Entry]) -> dict[str, Any]:
    """The rows for a program, each with its run."""
    runs = {name: entry for entry in entries for name in _names(entry)}
    found = comparison.to_dict()
    for row in found["models"]:
        entry = runs[row["model"]]
        row |= {"run": str(entry.path), "seed": entry.config.seed}
        row |= {"not_comparable": True} if row["model"] != entry.name else {}
    return found


def _show(output: Output, title: str, comparison: Comparison) -> None:
    rows = []
    for row in comparison.rows:
        mrr, *hits = figures(row.figures.to_dict())
        trained = "" if row.train_seconds is None else f"{row.train_seconds:,.1f}"
        cells = [row.name, mrr, f"{row.low:.2f} to {row.high:.2f}", *hits, trained, f"{row.queries_per_second:,.0f}"]
        rows.append(cells)
    columns = ("model", FIGURES[0], "95 % interval", *FIGURES[1:], "training (s)", "queries/s")
    output.show(make_table(title, columns, rows))
    if comparison.test:
        output.show(comparison.sentence)


def _plot(output: Output, path: Path, title: str, comparison: Comparison) -> None:
    from tangokg.report.compare import plot_comparison

    path.parent.mkdir(parents=True, exist_ok=True)
    plot_comparison(path, comparison.rows, title)
    output.say(f"The figure is in {path}.")

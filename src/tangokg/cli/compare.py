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
    train_settings,
    with_reading,
)
from tangokg.cli.output import Output

if TYPE_CHECKING:
    from tangokg.forecast.comparing import Entry
    from tangokg.report.compare import Comparison

Models = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="A model to compare, or all. Can be repeated. Without it and --run: frequency, recurrency, tango.",
    ),
]
Runs = Annotated[
    list[Path] | None,
    typer.Option(metavar="RUN", help="A finished run on the same data, in place of training its model."),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Where runs are kept, each under its model's name; by default runs/<data>-compare. Existing runs are "
        "loaded.",
    ),
]
Plot = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="MRR against training time: .png, .svg or .pdf; by default compare.png beside the runs."
    ),
]


@with_reading
def compare(
    ctx: typer.Context,
    data: Data,
    reading: Splitting,
    model: Models = None,
    run: Runs = None,
    out: Out = None,
    settings: Settings = None,
    epochs: Epochs = None,
    seed: Seed = None,
    device: Device = None,
    allow_seen: AllowSeen = False,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Train or load several models on the same data, and show how well and how fast each of them is."""
    output: Output = ctx.obj
    place = parse_device(device)
    output.check_figure(plot)
    from tangokg.forecast import plot as draw
    from tangokg.forecast.comparing import check_entries, select_models
    from tangokg.report.compare import FILTER, HEADINGS
    from tangokg.report.compare import compare as compare_measured

    selection = select_models(model, run or [], train_settings(settings, epochs=epochs), seed, place)
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
        output.table(title, HEADINGS, [row.cells() for row in comparison.rows])
        if comparison.test:
            output.show(comparison.sentence)
    figure = plot or folder / "compare.png"
    figure.parent.mkdir(parents=True, exist_ok=True)
    output.say(f"The figure is in {draw(comparison, figure, title=title)}.")
    best = next(entry for entry in entries if comparison.rows[0].name in entry.labels)
    output.say(f"Next: {next_command(output.words, 'evaluate', str(best.path), '--by', 'relation')}")


def _with_runs(comparison: Comparison, entries: list[Entry]) -> dict[str, Any]:
    """The rows for a program, each with its run."""
    runs = {name: entry for entry in entries for name in entry.labels}
    payload = comparison.to_dict()
    for row in payload["models"]:
        entry = runs[row["model"]]
        row |= {"run": str(entry.path), "seed": entry.config.seed}
        row |= {"not_comparable": True} if row["model"] != entry.name else {}
    return payload

"""``tango tune``: settings by search, judged by the validation part alone."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tangokg.cli.next_steps import next_command
from tangokg.cli.options import (
    Columns,
    Data,
    DateFormat,
    Device,
    Json,
    Model,
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
    parse_budget,
    parse_columns,
    parse_device,
)
from tangokg.cli.output import Output, Stopped, counted, make_table
from tangokg.errors import ConfigError, TrainingError, nearest, offer

if TYPE_CHECKING:
    from tangokg.tune import Outcome, Plan, Search

SHOWN = 10  # trials in the table, without -v

PresetName = Annotated[
    str, typer.Option("--preset", metavar="NAME", help="paper-grid (the paper's 432 trials) or search (a sampler).")
]
Trials = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Trials of the study in all: 24, or the whole grid.", show_default=False),
]
StudyFile = Annotated[
    Path | None,
    typer.Option(
        "--study",
        metavar="FILE",
        help="Where trials are kept: runs/<data>-<preset>.study. One that is there goes on.",
        show_default=False,
    ),
]
Workers = Annotated[int, typer.Option(min=1, metavar="N", help="Processes that take trials side by side.")]
Budget = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="Stop after this long, such as 8m; trials under way are kept.", show_default=False
    ),
]
Pruner = Annotated[
    str,
    typer.Option("--pruner", metavar="NAME", help="When a trial is given up: median, halving (ASHA) or none."),
]
PlotStudy = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw the trials, in order and by setting: .png, .svg or .pdf."),
]
BestFile = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="FILE", help="Write the best config, for `tango train --config`.", show_default=False
    ),
]


def tune(
    ctx: typer.Context,
    data: Data,
    model: Model = None,
    preset: PresetName = "search",
    trials: Trials = None,
    study: StudyFile = None,
    workers: Workers = 1,
    budget: Budget = None,
    settings: Settings = None,
    pruner: Pruner = "median",
    seed: SomeSeed = None,
    device: Device = None,
    plot: PlotStudy = None,
    out: BestFile = None,
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
    """Search for good settings on the validation part; the test part is never looked at."""
    output: Output = ctx.obj
    began = time.time()
    seconds = parse_budget(budget)
    _check(pruner, plot, out)
    from tangokg.cli.sources import read_source, tell
    from tangokg.tune import PRESETS, Search, load_optuna, make_plan

    load_optuna()
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
    dataset = read_source(data, reading)
    assignments = [*(settings or []), *([f"device={parse_device(device)}"] if device else [])]
    plan = make_plan(dataset, preset, model, assignments, seed or 0)
    most = min(trials or plan.size or PRESETS[preset].trials, plan.points or 10**9)
    path = study or Path("runs") / f"{dataset.name}-{preset}.study"
    deadline = None if seconds is None else began + seconds
    search = Search(dataset, plan, path, most, pruner, deadline)
    tell(output, dataset)
    _tell_plan(output, search)
    outcomes = _search_shown(output, search, workers)
    _finish(output, search, outcomes, out, plot, as_json, data)


def _check(pruner: str, plot: Path | None, out: Path | None) -> None:
    """What can be told before anything is read."""
    from tangokg.tune.sampling import PRUNERS

    if pruner not in PRUNERS:
        raise ConfigError(f"unknown pruner {pruner!r}.{offer(nearest(pruner, PRUNERS))} Known: {', '.join(PRUNERS)}.")
    if out is not None and (out.is_dir() or not out.absolute().parent.is_dir()):
        raise ConfigError(f"--out {out}: expected the name of a file in a folder that is there.")
    if plot:
        from tangokg.report import check_figure

        check_figure(plot)


def _tell_plan(output: Output, search: Search) -> None:
    from tangokg.tune import PRESETS

    plan = search.plan
    size = f" of {plan.size:,} in its grid" if plan.size else ""
    output.say(f"{plan.preset}: {PRESETS[plan.preset].about}; {counted(search.trials, 'trial')}{size}.")
    output.say(f"  searched: {', '.join(plan.space)}")
    output.say(f"  the study is {search.path}; further workers can join it with the same command")


def _search_shown(output: Output, search: Search, workers: int) -> list[Outcome]:
    """All trials, with a display; an interruption says how to go on."""
    from tangokg.train import Interrupted
    from tangokg.tune import work, work_together
    from tangokg.tune.display import Display

    try:
        with Display(output.notes, search.trials) as display:
            if workers > 1:
                return work_together(search, workers, display.hear)
            return work(search, hear=display.hear)
    except Interrupted as stop:
        raise Stopped(
            f"interrupted; the study is {search.path}, and trials under way have a checkpoint. Go on with:\n"
            f"  {shlex.join(['tango', *output.words])}",
            stop.status,
        ) from stop


def _finish(
    output: Output,
    search: Search,
    outcomes: list[Outcome],
    out: Path | None,
    plot: Path | None,
    as_json: bool,
    data: str,
) -> None:
    """The table, the best config and the figure."""
    from tangokg.tune import OVER, best_of

    best = best_of(outcomes)
    over = sum(outcome.state in OVER for outcome in outcomes)
    if best is None and over == search.trials:
        raise TrainingError(f"no trial of {search.path} came to an epoch; the last one: {outcomes[-1].note}")
    if as_json:
        found = {"best": best.to_dict() if best else None, "trials": [outcome.to_dict() for outcome in outcomes]}
        output.json({"study": str(search.path), "dataset": search.dataset.name, **search.plan.to_dict()} | found)
    else:
        _show(output, search, outcomes)
    if over < search.trials:
        output.say(f"{over} of {counted(search.trials, 'trial')} are over; the same command goes on.")
    if best is None:
        output.say("No trial has come to an epoch yet, so that there is nothing to write.")
        return
    if out is not None:
        _write_best(out, search.plan, best, search.dataset.name, over)
        output.say(f"The best config is in {out}. Next:")
        of_config = ("--config", "--model", "--set", "--seed", "--budget", "--device")
        command = next_command(output.words, "train", data, "--config", str(out), without=of_config)
        output.say(f"  {command}")
    if plot is not None:
        from tangokg.tune.figure import plot_study

        plot_study(plot, outcomes, search.plan.space, f"{search.plan.preset} on {search.dataset.name}")
        output.say(f"The figure is in {plot}.")


def _show(output: Output, search: Search, outcomes: list[Outcome]) -> None:
    """The best trials first."""
    from tangokg.tune.display import cell

    ranked = sorted(outcomes, key=lambda o: (-1.0 if o.mrr is None else o.mrr, -o.number), reverse=True)
    names = list(search.plan.space)
    shown = ranked if output.verbose else ranked[:SHOWN]
    rows = [
        [
            str(o.number),
            o.state,
            *(cell(o.values.get(name, "")) for name in names),
            "" if o.mrr is None else f"{o.mrr:.2f}",
            str(o.epochs),
            "" if o.seconds is None else f"{o.seconds:.0f}",
        ]
        for o in shown
    ]
    title = f"{search.dataset.name}, validation MRR in per cent: {len(shown)} of {counted(len(outcomes), 'trial')}"
    output.show(make_table(title, ("trial", "", *names, "MRR", "epochs", "seconds"), rows, left=2))


def _write_best(path: Path, plan: Plan, best: Outcome, name: str, trials: int) -> None:
    from tangokg.config import to_toml
    from tangokg.train.checkpoint import write_atomically

    head = (
        f"# Best of {counted(trials, 'trial')} of {plan.preset}: validation MRR {best.mrr:.2f} (trial {best.number})\n"
    )
    tables = plan.final(best.values).to_tables() | {"data": {"name": name}}
    write_atomically(path, (head + to_toml(tables)).encode())

"""``tango tune``: settings by search, judged by the validation part alone."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tangokg.cli.data import tell_data
from tangokg.cli.next_steps import next_command
from tangokg.cli.options import (
    Data,
    Device,
    Json,
    Model,
    Seed,
    Settings,
    Splitting,
    parse_device,
    train_settings,
    with_reading,
)
from tangokg.cli.output import Output, Stopped
from tangokg.config import parse_duration
from tangokg.errors import ConfigError, TrainingError, nearest, offer
from tangokg.showing import counted

if TYPE_CHECKING:
    from tangokg.tune.outcomes import Outcome
    from tangokg.tune.work import Search

SHOWN = 10  # trials in the table, without -v

Preset = Annotated[str, typer.Option(metavar="NAME", help="paper-grid (the paper's 432 trials) or search (a sampler).")]
Trials = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Trials of the whole study; by default 24, or the whole grid.")
]
Study = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Where trials are kept; by default runs/<data>-<preset>.study. An existing study is resumed. With "
        "--storage a name, by default <data>-<preset>.",
    ),
]
Storage = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Share the study with workers on other machines: postgresql://user@host/database, or grpc://host:port.",
    ),
]
Workers = Annotated[int, typer.Option(min=1, metavar="N", help="Processes that run trials side by side.")]
Budget = Annotated[
    str | None, typer.Option(metavar="TIME", help="Stop after this long, such as 8m; unfinished trials are kept.")
]
Pruner = Annotated[str, typer.Option(metavar="NAME", help="When a trial is given up: median, halving (ASHA) or none.")]
Plot = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Draw the trials, in order and by setting: .png, .svg or .pdf.")
]
Out = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the best config, for `tango train --config`.")]


@with_reading
def tune(
    ctx: typer.Context,
    data: Data,
    reading: Splitting,
    model: Model = None,
    preset: Preset = "search",
    trials: Trials = None,
    study: Study = None,
    storage: Storage = None,
    workers: Workers = 1,
    budget: Budget = None,
    settings: Settings = None,
    pruner: Pruner = "median",
    seed: Seed = None,
    device: Device = None,
    plot: Plot = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Search for good settings on the validation part; the test part is never looked at."""
    output: Output = ctx.obj
    deadline = None if budget is None else time.time() + parse_duration(budget, "--budget")
    _check(pruner, out)
    output.check_figure(plot)
    from tangokg.train.memory import keep_freed_memory
    from tangokg.tune.python import choose_place, make_search
    from tangokg.tune.sampling import load_optuna

    load_optuna()
    keep_freed_memory()
    dataset = reading.read(data)
    assignments = train_settings(settings, device=parse_device(device) if device else None)
    usual = Path("runs") / f"{dataset.name}-{preset}.study"
    path, shared = choose_place(study, storage, dataset.name, preset, usual)
    search = make_search(dataset, preset, model, assignments, seed or 0, path, trials, pruner, deadline, shared)
    tell_data(output, dataset)
    _tell_search(output, search)
    outcomes = _run(output, search, workers)
    _show(output, search, outcomes, as_json)
    _finish(output, search, outcomes, out, plot, data)


def _check(pruner: str, out: Path | None) -> None:
    """Raise an error, before anything is read, if an option cannot be used."""
    from tangokg.tune.sampling import PRUNERS

    if pruner not in PRUNERS:
        raise ConfigError(f"unknown pruner {pruner!r}.{offer(nearest(pruner, PRUNERS))} Known: {', '.join(PRUNERS)}.")
    if out is not None and (out.is_dir() or not out.absolute().parent.is_dir()):
        raise ConfigError(f"--out {out}: expected the name of a file in an existing folder.")


def _tell_search(output: Output, search: Search) -> None:
    from tangokg.tune.space import PRESETS

    plan = search.plan
    size = f" of {plan.size:,} in its grid" if plan.size else ""
    output.say(f"{plan.preset}: {PRESETS[plan.preset].about}; {counted(search.trials, 'trial')}{size}.")
    output.say(f"  searched: {', '.join(plan.space)}")
    output.say(f"  the study is {search.where}; further workers can join it with the same command")


def _run(output: Output, search: Search, workers: int) -> list[Outcome]:
    """Run all trials with a display; after an interruption, say how to resume."""
    from tangokg.train import Interrupted
    from tangokg.tune.python import run_search

    try:
        return run_search(search, workers, output.notes)
    except Interrupted as stop:
        raise Stopped(
            f"interrupted; the study is {search.where}, and unfinished trials have a checkpoint. Go on with:\n"
            f"  {shlex.join(['tango', *output.words])}",
            stop.status,
        ) from stop


def _show(output: Output, search: Search, outcomes: list[Outcome], as_json: bool) -> None:
    """The best trials first."""
    from tangokg.tune.display import cells
    from tangokg.tune.outcomes import OVER, best_of

    best = best_of(outcomes)
    over = sum(outcome.state in OVER for outcome in outcomes)
    if best is None and over == search.trials:
        raise TrainingError(f"no trial of {search.where} completed an epoch; the last one: {outcomes[-1].note}")
    if as_json:
        result = {"best": best.to_dict() if best else None, "trials": [outcome.to_dict() for outcome in outcomes]}
        output.json({"study": search.where, "dataset": search.dataset.name, **search.plan.to_dict()} | result)
    else:
        ranked = sorted(outcomes, key=lambda o: (-1.0 if o.mrr is None else o.mrr, -o.number), reverse=True)
        shown = ranked if output.verbose else ranked[:SHOWN]
        title = f"{search.dataset.name}, validation MRR in per cent: {len(shown)} of {counted(len(outcomes), 'trial')}"
        columns = ("trial", "", *search.plan.space, "MRR", "epochs", "seconds")
        output.table(title, columns, [cells(outcome, search.plan.space) for outcome in shown], left=2)
    if over < search.trials:
        output.say(f"{over} of {counted(search.trials, 'trial')} have ended; the same command goes on.")


def _finish(
    output: Output, search: Search, outcomes: list[Outcome], out: Path | None, plot: Path | None, data: str
) -> None:
    """The best config and the figure."""
    from tangokg.tune.python import tuned

    result = tuned(search, outcomes)
    if result is None:
        output.say("No trial has completed an epoch yet, so there is nothing to write.")
        return
    if out is not None:
        result.save(out)
        output.say(f"The best config is in {out}. Next:")
        of_config = ("--config", "--model", "--set", "--seed", "--budget", "--device")
        command = next_command(output.words, "train", data, "--config", str(out), without=of_config)
        output.say(f"  {command}")
    if plot is not None:
        result.draw(plot)
        output.say(f"The figure is in {plot}.")

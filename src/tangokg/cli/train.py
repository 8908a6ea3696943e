"""``tango train``: data and settings in, a run folder out."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tangokg.cli.data import tell_data
from tangokg.cli.fitting import fit_shown
from tangokg.cli.next_steps import next_command
from tangokg.cli.options import (
    ABOUT_DATA,
    AllowSeen,
    Device,
    Devices,
    Epochs,
    Json,
    Log,
    Model,
    Nodes,
    Overwrite,
    Rendezvous,
    Seed,
    Settings,
    ShardEntities,
    Splitting,
    train_settings,
    with_reading,
)
from tangokg.cli.output import Output
from tangokg.cli.processes import first_speaks
from tangokg.config import parse_duration
from tangokg.errors import ConfigError, DataError, RunError
from tangokg.showing import FIGURES, counted, figures

if TYPE_CHECKING:
    from tangokg.forecast import Forecaster
    from tangokg.quads import Dataset
    from tangokg.train import RunConfig

QUICK = ("recurrency", "frequency")  # quick models to compare a run with
OF_MODEL = ("--model", "--set", "--epochs", "--seed")  # options that a comparison does not take over
FILTERS = ("time-aware", "raw", "time-unaware")  # the first is shown without -v
FEW_FACTS, FEW_ENTITIES = 2000, 500  # to train on; below either, smaller settings are faster and usually better
SMALL = ("dim=32", "history=2", "epochs=10", "learning_rate=0.01")

DataOrNone = Annotated[
    str | None,
    typer.Argument(metavar="DATA", help=f"{ABOUT_DATA} With --resume it can be left out: the run has its own facts."),
]
Config = Annotated[Path | None, typer.Option(metavar="FILE", help="Settings from a TOML file.")]
Out = Annotated[Path | None, typer.Option(metavar="RUN", help="Folder of the run; by default runs/<data>-<model>.")]
Resume = Annotated[bool, typer.Option("--resume", help="Resume an interrupted run, with its settings.")]
From = Annotated[Path | None, typer.Option("--from", metavar="RUN", help="Start from a trained run, with newer data.")]
Budget = Annotated[str | None, typer.Option(metavar="TIME", help="Train for at most this long: 90s, 10m, 2h, or none.")]
Refit = Annotated[bool, typer.Option("--refit", help="Then train on all parts, for use; the figures are from before.")]
Plot = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw loss and validation MRR: .png, .svg or .pdf.")]


@with_reading
@first_speaks
def train(
    ctx: typer.Context,
    reading: Splitting,
    data: DataOrNone = None,
    model: Model = None,
    config: Config = None,
    settings: Settings = None,
    seed: Seed = None,
    out: Out = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    start: From = None,
    allow_seen: AllowSeen = False,
    budget: Budget = None,
    epochs: Epochs = None,
    refit: Refit = False,
    device: Device = None,
    devices: Devices = None,
    nodes: Nodes = None,
    rendezvous: Rendezvous = None,
    shard_entities: ShardEntities = False,
    plot: Plot = None,
    log: Log = None,
    as_json: Json = False,
) -> None:
    """Train a model on dated facts, and keep it in a run folder."""
    output: Output = ctx.obj
    if resume and overwrite:
        raise ConfigError("--resume goes on with a run and --overwrite replaces it: give one of them.")
    output.check_figure(plot)
    from tangokg.forecast.outcome import kept_results
    from tangokg.train import RunFolder, processes
    from tangokg.train.loggers import choose_loggers

    loggers = choose_loggers(log)
    if processes.to_start(devices, nodes, rendezvous):
        raise typer.Exit(processes.start(output.words, devices, nodes or 1, rendezvous))
    helps = processes.place()[0] > 0  # another process writes and says everything
    output.quiet = output.quiet or helps
    dataset = reading.read(data) if data is not None else _kept_data(out if resume else None)
    limits = {"epochs": epochs, "budget": _seconds(budget), "refit": refit, "shard_entities": shard_entities}
    assignments = train_settings(settings, **limits, device=device)
    resolved = _resolve(RunFolder(start).config() if start else None, model, config, assignments, seed)
    folder = out or Path("runs") / f"{dataset.name}-{resolved.model}"
    if resume and RunFolder(folder).begun:
        resolved = _resolve(RunFolder(folder).config(), model, config, assignments, seed)
    tell_data(output, dataset)
    if not (config or settings or resume or start) and getattr(resolved.settings, "dim", 0) > 0:
        _hint_smaller(output, dataset, folder)
    if start:
        _tell_start(output, start, dataset)
    again = ["tango", *(word for word in output.words if word not in ("--resume", "--overwrite")), "--resume"]
    options = {"resume": resume, "overwrite": overwrite, "start_from": start, "allow_seen": allow_seen}
    forecaster = fit_shown(output, dataset, resolved, out=folder, again=again, loggers=loggers, **options)
    if helps:
        return
    _show(output, kept_results(RunFolder(folder), forecaster), folder, as_json)
    if plot:
        _plot(output, plot, forecaster, folder)
    _what_next(output, forecaster, folder, data)


def _kept_data(resumed: Path | None) -> Dataset:
    """The facts that an interrupted run has stored."""
    from tangokg.train import RunFolder

    if resumed is None:
        raise DataError(
            "no data were given: name a file, a folder or a known set, for example `tango train events.csv`. "
            "Only a run that is resumed (--out RUN --resume) has its facts already."
        )
    RunFolder(resumed).config()
    return RunFolder(resumed).dataset().made_with


def _seconds(budget: str | None) -> float | None:
    """``--budget`` as a setting."""
    return None if budget is None else -1.0 if budget == "none" else parse_duration(budget, "--budget")


def _resolve(
    base: RunConfig | None, model: str | None, file: Path | None, assignments: list[str], seed: int | None
) -> RunConfig:
    """Settings from a file, else from the run to resume, else the model's defaults; options override them."""
    from tangokg.train import load_config, make_config

    if file is not None:
        return load_config(file, model, assignments, seed)
    return make_config(model, base.to_tables() if base else {}, assignments, seed)


def _hint_smaller(output: Output, dataset: Dataset, folder: Path) -> None:
    """For small data, the same command with smaller settings and a folder of its own."""
    if len(dataset.train) < FEW_FACTS or dataset.vocab.num_entities < FEW_ENTITIES:
        small = [word for setting in SMALL for word in ("--set", setting)]
        output.say("  hint: for data as small as these, smaller settings are faster and usually better:")
        output.say(f"    {shlex.join(['tango', *_without_out(output.words), '--out', f'{folder}-small', *small])}")


def _without_out(words: Sequence[str]) -> list[str]:
    """The words of a command without ``--out RUN``."""
    kept = [word for word in words if not word.startswith("--out=")]
    while "--out" in kept:
        place = kept.index("--out")
        del kept[place : place + 2]
    return kept


def _tell_start(output: Output, start: Path, dataset: Dataset) -> None:
    """Report how many names of these data the starting run knows."""
    from tangokg.quads import Vocabulary

    old, new = Vocabulary.load(start / "vocab"), dataset.vocab
    names, relations = set(old.entities) & set(new.entities), set(old.relations) & set(new.relations)
    output.say(
        f"  taken over from {start}: {len(names):,} of {counted(new.num_entities, 'name')}, "
        f"{len(relations):,} of {counted(new.num_relations, 'relation')}"
    )


def _show(output: Output, metrics: dict[str, Any], folder: Path, as_json: bool) -> None:
    """Print validation and test metrics, next to those of the counter."""
    try:
        title, rows = _title(metrics), _rows(metrics, FILTERS if as_json or output.verbose else FILTERS[:1])
    except (ValueError, LookupError, TypeError, AttributeError):
        raise RunError(f"{folder / 'metrics.json'}: damaged; delete it, and --resume measures again.") from None
    if as_json:
        output.json(metrics)
    else:
        output.table(title, ("part", "model", "filter", *FIGURES, "queries"), rows, left=3)


def _title(metrics: dict[str, Any]) -> str:
    title = f"{metrics['model']} on {metrics['dataset']}, seed {metrics['seed']}, {counted(metrics['epochs'], 'epoch')}"
    return title + (f", NOT COMPARABLE: {metrics['not_comparable']}" if metrics.get("not_comparable") else "")


def _rows(metrics: dict[str, Any], filters: tuple[str, ...]) -> list[list[str]]:
    from tangokg.forecast.counters import BESIDE

    measured = {metrics["model"]: metrics} | ({BESIDE: metrics[BESIDE]} if BESIDE in metrics else {})
    return [
        [part, model, name, *figures(values[part][name]), f"{metrics['queries'][part]:,}"]
        for part in ("valid", "test")
        if part in metrics
        for model, values in measured.items()
        for name in filters
    ]


def _plot(output: Output, path: Path, forecaster: Forecaster, out: Path) -> None:
    from tangokg.report import plot_training, read_log

    config, log = forecaster.config, read_log(out / "log.csv")
    if not log:
        output.say(f"There is no figure: {config.model} has nothing to train.")
        return
    plot_training(path, log, f"{config.model} on {forecaster.dataset.name}, seed {config.seed}")
    output.say(f"The figure is in {path}.")


def _what_next(output: Output, forecaster: Forecaster, out: Path, data: str | None) -> None:
    """Print the run folder, and commands to copy with known names, without commands that would fail."""
    from tangokg.quads import worth_asking

    of_data = ("--column", "--skip-bad")  # the run has its data; --observe FILE may have other headings
    output.say(f"The run is in {out}. Next:")
    question = worth_asking(forecaster.facts)
    output.say(f"  {next_command(output.words, 'forecast', str(out), *question, without=of_data)}")
    if not len(forecaster.dataset.test) or forecaster.exposure.refit:
        return
    for words in (["--by", "relation"], ["--calibration"]):
        output.say(f"  {next_command(output.words, 'evaluate', str(out), *words)}")
    if data is not None:
        counters = [name for name in QUICK if name != forecaster.config.model]
        models = [word for name in counters for word in ("--model", name)]
        words = ["compare", data, "--run", str(out), *models]
        output.say(f"  {next_command(output.words, *words, without=OF_MODEL)}")

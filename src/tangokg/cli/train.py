"""``tango train``: data and settings in, a run folder out."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tangokg.cli.data import tell_data
from tangokg.cli.fitting import fit_shown
from tangokg.cli.next_steps import next_command, worth_asking
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
    with_reading,
)
from tangokg.cli.output import Output
from tangokg.cli.processes import first_speaks
from tangokg.cli.tables import FIGURES, counted, figures, make_table
from tangokg.config import parse_duration
from tangokg.errors import ConfigError, DataError, RunError

if TYPE_CHECKING:
    from tangokg.forecast import Forecaster
    from tangokg.quads import Dataset
    from tangokg.train import RunConfig

QUICK = ("recurrency", "frequency")  # quick models to compare a run with
OF_MODEL = ("--model", "--set", "--epochs", "--seed")  # options that a comparison does not take over
FILTERS = ("time-aware", "raw", "time-unaware")  # the first is shown without -v
FEW_FACTS, FEW_ENTITIES = 2000, 500  # to train on; below either, smaller settings are faster and usually better
SMALL = ("dim=32", "history=2", "epochs=10", "learning_rate=0.01")


@with_reading
@first_speaks
def train(
    ctx: typer.Context,
    reading: Splitting,
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA", help=f"{ABOUT_DATA} With --resume it can be left out: the run has its own facts."
        ),
    ] = None,
    model: Model = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Settings from a TOML file.")] = None,
    settings: Settings = None,
    seed: Seed = None,
    out: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Folder of the run; by default runs/<data>-<model>.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted run, with its settings.")] = False,
    overwrite: Overwrite = False,
    start: Annotated[
        Path | None, typer.Option("--from", metavar="RUN", help="Start from a trained run, with newer data.")
    ] = None,
    allow_seen: AllowSeen = False,
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="Train for at most this long: 90s, 10m, 2h, or none.")
    ] = None,
    epochs: Epochs = None,
    refit: Annotated[
        bool, typer.Option("--refit", help="Then train on all parts, for use; the figures are from before.")
    ] = False,
    device: Device = None,
    devices: Devices = None,
    nodes: Nodes = None,
    rendezvous: Rendezvous = None,
    shard_entities: ShardEntities = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw loss and validation MRR: .png, .svg or .pdf.")
    ] = None,
    log: Log = None,
    as_json: Json = False,
) -> None:
    """Train a model on dated facts, and keep it in a run folder."""
    output: Output = ctx.obj
    if resume and overwrite:
        raise ConfigError("--resume goes on with a run and --overwrite replaces it: give one of them.")
    output.check_figure(plot)
    from tangokg.forecast.counters import counted_parts
    from tangokg.train import RunFolder, processes
    from tangokg.train.loggers import choose_loggers

    loggers = choose_loggers(log)
    if processes.to_start(devices, nodes, rendezvous):
        raise typer.Exit(processes.start(output.words, devices, nodes or 1, rendezvous))
    helps = processes.place()[0] > 0  # another process writes and says everything
    output.quiet = output.quiet or helps
    dataset = reading.read(data) if data is not None else _kept_data(out if resume else None)
    limits = _limits(budget, epochs, refit) + (["train.shard_entities=true"] if shard_entities else [])
    assignments = [*(settings or []), *limits, *([f"train.device={device}"] if device else [])]
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
    metrics = _metrics(forecaster, folder) | counted_parts(forecaster)
    if as_json:
        output.json(metrics)
    else:
        output.show(_table(metrics, FILTERS if output.verbose else FILTERS[:1]))
    if plot:
        _plot(output, plot, forecaster, folder)
    _what_next(output, forecaster, folder, data)


def _kept_data(resumed: Path | None) -> Dataset:
    """The facts that an interrupted run keeps."""
    from tangokg.train import RunFolder

    if resumed is None:
        raise DataError(
            "no data were given: name a file, a folder or a known set, for example `tango train events.csv`. "
            "Only a run that is resumed (--out RUN --resume) has its facts already."
        )
    RunFolder(resumed).config()
    return RunFolder(resumed).dataset().made_with


def _limits(budget: str | None, epochs: int | None, refit: bool) -> list[str]:
    """``--budget``, ``--epochs`` and ``--refit`` as settings."""
    seconds = None if budget is None else -1.0 if budget == "none" else parse_duration(budget, "--budget")
    values = {"epochs": epochs, "budget": seconds, "refit": "true" if refit else None}
    return [f"train.{name}={value}" for name, value in values.items() if value is not None]


def _resolve(
    base: RunConfig | None, model: str | None, file: Path | None, assignments: list[str], seed: int | None
) -> RunConfig:
    """Settings from a file, else from the run to go on with, else the model's own; then those given by options."""
    from tangokg.train import load_config, make_config

    if file is not None:
        config = load_config(file, model, assignments)
        return config if seed is None else replace(config, seed=seed)
    tables = base.to_tables() if base else {}
    if base and model not in (None, base.model):
        tables.pop("settings", None)  # of another model
    return make_config(model, tables, assignments, seed)


def _hint_smaller(output: Output, dataset: Dataset, folder: Path) -> None:
    """For small data, the same command with smaller settings and a folder of its own."""
    if len(dataset.train) < FEW_FACTS or dataset.vocab.num_entities < FEW_ENTITIES:
        small = [word for setting in SMALL for word in ("--set", setting)]
        output.say("  hint: for data as small as these, smaller settings are faster and usually better:")
        output.say(f"    {shlex.join(['tango', *_without_out(output.words), '--out', f'{folder}-small', *small])}")


def _without_out(words: Sequence[str]) -> list[str]:
    """The words of a command less its ``--out RUN``."""
    kept = [word for word in words if not word.startswith("--out=")]
    while "--out" in kept:
        place = kept.index("--out")
        del kept[place : place + 2]
    return kept


def _tell_start(output: Output, start: Path, dataset: Dataset) -> None:
    """How many names of these data the run to start from knows."""
    from tangokg.quads import Vocabulary

    old, new = Vocabulary.load(start / "vocab"), dataset.vocab
    names, relations = set(old.entities) & set(new.entities), set(old.relations) & set(new.relations)
    output.say(
        f"  taken over from {start}: {len(names):,} of {counted(new.num_entities, 'name')}, "
        f"{len(relations):,} of {counted(new.num_relations, 'relation')}"
    )


def _metrics(forecaster: Forecaster, out: Path) -> dict[str, Any]:
    """What the run measured; a run without it measures now."""
    from tangokg.forecast import results
    from tangokg.train import RunFolder

    path = out / "metrics.json"
    if not path.exists():
        RunFolder(out).save_metrics(results(forecaster))
    try:
        metrics: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        _table(metrics, FILTERS)
    except (ValueError, LookupError, TypeError, AttributeError):
        raise RunError(f"{path}: damaged; delete it, and --resume measures again.") from None
    return metrics


def _table(metrics: dict[str, Any], filters: tuple[str, ...]) -> Any:
    """Validation and test metrics, those of the counter beside them."""
    from tangokg.forecast.counters import BESIDE

    measured = {metrics["model"]: metrics} | ({BESIDE: metrics[BESIDE]} if BESIDE in metrics else {})
    rows = [
        [part, model, name, *figures(values[part][name]), f"{metrics['queries'][part]:,}"]
        for part in ("valid", "test")
        if part in metrics
        for model, values in measured.items()
        for name in filters
    ]
    title = f"{metrics['model']} on {metrics['dataset']}, seed {metrics['seed']}, {counted(metrics['epochs'], 'epoch')}"
    title += f", NOT COMPARABLE: {metrics['not_comparable']}" if metrics.get("not_comparable") else ""
    return make_table(title, ("part", "model", "filter", *FIGURES, "queries"), rows, left=3)


def _plot(output: Output, path: Path, forecaster: Forecaster, out: Path) -> None:
    from tangokg.report import plot_training, read_log

    config, log = forecaster.config, read_log(out / "log.csv")
    if not log:
        output.say(f"There is no figure: {config.model} has nothing to train.")
        return
    plot_training(path, log, f"{config.model} on {forecaster.dataset.name}, seed {config.seed}")
    output.say(f"The figure is in {path}.")


def _what_next(output: Output, forecaster: Forecaster, out: Path, data: str | None) -> None:
    """The run, and commands to copy, with names that it knows; those that it would refuse are left out."""
    of_data = ("--column", "--skip-bad")  # the run has its data; --observe FILE may have other headings
    output.say(f"The run is in {out}. Next:")
    question = worth_asking(forecaster.facts)
    output.say(f"  {next_command(output.words, 'forecast', str(out), *question, without=of_data)}")
    if not len(forecaster.dataset.test) or forecaster.exposure.refit:
        return
    for words in (["--by", "relation"], ["--calibration"]):
        output.say(f"  {next_command(output.words, 'evaluate', str(out), *words)}")
    if data is not None:
        others = [name for name in QUICK if name != forecaster.config.model]
        models = [word for name in others for word in ("--model", name)]
        words = ["compare", data, "--run", str(out), *models]
        output.say(f"  {next_command(output.words, *words, without=OF_MODEL)}")

"""``tango train``: data and settings in, a run folder out."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tangokg.cli.aside import all_or_nothing
from tangokg.cli.counting import BESIDE, counted_parts
from tangokg.cli.hints import tell_before, tell_settings, tell_start
from tangokg.cli.next_steps import next_command, worth_asking
from tangokg.cli.options import (
    AllowSeen,
    Budget,
    Columns,
    Config,
    DateFormat,
    Device,
    Epochs,
    From,
    Json,
    Model,
    OneRelation,
    Out,
    Overlap,
    Overwrite,
    PlotTraining,
    Reading,
    Refit,
    Resume,
    Settings,
    SkipBad,
    SomeSeed,
    TestFrom,
    Timezone,
    TrainData,
    TrainShare,
    Unit,
    ValidFrom,
    ValidShare,
    parse_budget,
    parse_columns,
)
from tangokg.cli.output import FIGURES, Output, Stopped, counted, figures, make_table
from tangokg.errors import ConfigError, DataError, RunError

if TYPE_CHECKING:
    from tangokg.forecast import Forecaster
    from tangokg.quads import Dataset
    from tangokg.train import RunConfig

COUNTERS = ("recurrency", "frequency")  # that a run is compared with: quick
OF_MODEL = ("--model", "--set", "--epochs", "--seed")  # options of a training that others do not take over
FILTERS = ("time-aware", "raw", "time-unaware")  # the one that is shown without -v first


def train(
    ctx: typer.Context,
    data: TrainData = None,
    model: Model = None,
    config: Config = None,
    settings: Settings = None,
    seed: SomeSeed = None,
    out: Out = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    start: From = None,
    allow_seen: AllowSeen = False,
    budget: Budget = None,
    epochs: Epochs = None,
    refit: Refit = False,
    device: Device = None,
    plot: PlotTraining = None,
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
    """Train a model on dated facts, and keep it in a run folder."""
    output: Output = ctx.obj
    _check(resume, overwrite, plot)
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
    dataset = _read(data, reading, out if resume else None)
    assignments = [*(settings or []), *limits(budget, epochs, refit), *([f"train.device={device}"] if device else [])]
    resolved, folder = Wishes(model, config, assignments, seed).resolve(dataset, out, resume, start)
    tell_before(output, dataset, resolved, folder, hint=not (config or settings or resume or start))
    if start:
        tell_start(output, start, dataset)
    again = ["tango", *(word for word in output.words if word not in ("--resume", "--overwrite")), "--resume"]
    options = {"resume": resume, "overwrite": overwrite, "start_from": start, "allow_seen": allow_seen}
    forecaster = fit_shown(output, dataset, resolved, folder, again, **options)
    found = _metrics(forecaster, folder) | counted_parts(forecaster)
    report(output, found, as_json)
    if plot:
        _plot(output, plot, forecaster, folder)
    _what_next(output, forecaster, folder, data)


def limits(budget: str | None, epochs: int | None, refit: bool = False) -> list[str]:
    """``--budget``, ``--epochs`` and ``--refit`` as settings."""
    seconds = -1.0 if budget == "none" else parse_budget(budget)
    values = {"epochs": epochs, "budget": seconds, "refit": "true" if refit else None}
    return [f"train.{name}={value}" for name, value in values.items() if value is not None]


def _check(resume: bool, overwrite: bool, plot: Path | None) -> None:
    """What can be told before anything is read."""
    if resume and overwrite:
        raise ConfigError("--resume goes on with a run and --overwrite replaces it: give one of them.")
    if plot:
        from tangokg.report import check_figure

        check_figure(plot)


@dataclass(frozen=True)
class Wishes:
    """What was said of model and settings."""

    model: str | None
    config: Path | None
    assignments: list[str]
    seed: int | None

    def resolve(self, dataset: Dataset, out: Path | None, resume: bool, start: Path | None) -> tuple[RunConfig, Path]:
        """The whole config, and the folder of the run."""
        from tangokg.train import RunFolder

        found = self._over(RunFolder(start).config() if start else None)
        folder = out or Path("runs") / f"{dataset.name}-{found.model}"
        if resume and (folder / "config.toml").exists():
            found = self._over(RunFolder(folder).config())
        return found, folder

    def _over(self, base: RunConfig | None) -> RunConfig:
        """Settings from a file, else from the run to go on with, else the model's own; then what was given by hand."""
        from tangokg.train import load_config, make_config

        if self.config is not None:
            found = load_config(self.config, self.model, self.assignments)
            return found if self.seed is None else replace(found, seed=self.seed)
        tables = base.to_tables() if base else {}
        if base and self.model not in (None, base.model):
            tables.pop("settings", None)  # of another model
        return make_config(self.model, tables, self.assignments, self.seed)


def _read(data: str | None, reading: Reading, resumed: Path | None) -> Dataset:
    """The facts of ``data``; without it those that an interrupted run keeps."""
    from tangokg.cli.sources import read_source
    from tangokg.train import RunFolder

    if data is not None:
        return read_source(data, reading)
    if resumed is None:
        raise DataError(
            "no data were given: name a file, a folder or a known set, for example `tango train events.csv`. "
            "Only a run that is resumed (--out RUN --resume) has its facts already."
        )
    RunFolder(resumed).config()
    return RunFolder(resumed).dataset().made_with


def fit_shown(
    output: Output, dataset: Dataset, config: RunConfig, out: Path | None, again: list[str], **options: Any
) -> Forecaster:
    """Train with a display; a failed start leaves nothing behind, an interruption says how to go on (``again``)."""
    from tangokg.forecast import fit
    from tangokg.train import Interrupted, resolve
    from tangokg.train.display import Display

    if options.get("resume") and out is not None and not out.exists():
        output.say(f"There is no run in {out} yet: a new one begins.")
    elif hasattr(config.settings, "dim") and not options.get("resume"):
        output.say(tell_settings(resolve(config, dataset)))
    try:
        with all_or_nothing(out, options.get("overwrite", False), output.say), Display(output.notes) as display:
            return fit(dataset, config, out=out, reporter=display, **options)
    except Interrupted as stop:
        text = str(stop)
        if out is not None and stop.forecaster is not None:
            text += f" The run in {out} is usable as it is; stopped early, it has no figures yet."
        if out is not None and (stop.forecaster is not None or stop.checkpoint is not None):
            text += f" Go on with:\n  {shlex.join(again)}"
        raise Stopped(text, stop.status) from stop


def _metrics(forecaster: Forecaster, out: Path) -> dict[str, Any]:
    """What the run measured; a run without it measures now."""
    from tangokg.forecast import results
    from tangokg.train import RunFolder

    path = out / "metrics.json"
    if not path.exists():
        RunFolder(out).save_metrics(results(forecaster))
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        _table(found, FILTERS)
    except (ValueError, LookupError, TypeError, AttributeError):
        raise RunError(f"{path}: damaged; delete it, and --resume measures again.") from None
    return found


def report(output: Output, found: dict[str, Any], as_json: bool) -> None:
    """Validation and test metrics: time-aware, with -v under all filters."""
    if as_json:
        output.json(found)
        return
    output.show(_table(found, FILTERS if output.verbose else FILTERS[:1]))


def _table(found: dict[str, Any], filters: tuple[str, ...]) -> Any:
    measured = {found["model"]: found} | ({BESIDE: found[BESIDE]} if BESIDE in found else {})
    rows = [
        [part, model, name, *figures(metrics[part][name]), f"{found['queries'][part]:,}"]
        for part in ("valid", "test")
        if part in found
        for model, metrics in measured.items()
        for name in filters
    ]
    title = f"{found['model']} on {found['dataset']}, seed {found['seed']}, {counted(found['epochs'], 'epoch')}"
    title += f", NOT COMPARABLE: {found['not_comparable']}" if found.get("not_comparable") else ""
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
    asked = worth_asking(forecaster.facts)
    output.say(f"  {next_command(output.words, 'forecast', str(out), *asked, without=of_data)}")
    if not len(forecaster.dataset.test) or forecaster.exposure.refit:
        return
    for words in (["--by", "relation"], ["--calibration"]):
        output.say(f"  {next_command(output.words, 'evaluate', str(out), *words)}")
    if data is not None:
        others = [name for name in COUNTERS if name != forecaster.config.model]
        models = [word for name in others for word in ("--model", name)]
        words = ["compare", data, "--run", str(out), *models]
        output.say(f"  {next_command(output.words, *words, without=OF_MODEL)}")

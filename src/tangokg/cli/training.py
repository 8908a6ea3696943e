"""``tango train``: data and settings in, a run folder out."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tangokg.cli.options import (
    ABOUT_DATA,
    Columns,
    Json,
    Reading,
    TestFrom,
    TrainShare,
    Unit,
    ValidFrom,
    ValidShare,
    parse_columns,
)
from tangokg.cli.output import FIGURES, Output, figures, make_table
from tangokg.errors import ConfigError, DataError

if TYPE_CHECKING:
    from tangokg.forecast import Forecaster
    from tangokg.quads import Dataset
    from tangokg.train import RunConfig

ABOUT_MODEL = "tango (the default), tango-tucker, tango-distmult, copy-last, frequency or recurrence."


def train(
    ctx: typer.Context,
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            help=f"{ABOUT_DATA} With --resume it can be left out: the run has its facts.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[str | None, typer.Option(help=ABOUT_MODEL, show_default=False)] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Settings from a TOML file.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="One setting, such as dim=100. Can be repeated."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**32 - 1, help="Seed of everything that is drawn: 0.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Folder of the run: runs/<data>-<model>.", show_default=False)
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run, with its settings.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run that is there.")] = False,
    start: Annotated[
        Path | None, typer.Option("--from", metavar="RUN", help="Go on from a trained run, with newer data.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or mps.", show_default=False)] = None,
    train_share: TrainShare = None,
    valid_share: ValidShare = None,
    valid_from: ValidFrom = None,
    test_from: TestFrom = None,
    column: Columns = None,
    unit: Unit = None,
    as_json: Json = False,
) -> None:
    """Train a model on dated facts, and keep it in a run folder."""
    from tangokg.cli.sources import tell
    from tangokg.train import RunFolder

    output: Output = ctx.obj
    if resume and overwrite:
        raise ConfigError("--resume goes on with a run and --overwrite replaces it: give one of them.")
    reading = Reading(parse_columns(column), unit, train_share, valid_share, valid_from, test_from)
    dataset = _read(data, reading, out if resume else None)
    assignments = [*(settings or []), *([f"train.device={device}"] if device else [])]
    base = RunFolder(start).config() if start else None
    resolved = resolve(model, config, assignments, seed, base)
    folder = RunFolder(out or Path("runs") / f"{dataset.name}-{resolved.model}")
    if resume and (folder.path / "config.toml").exists():
        resolved = resolve(model, config, assignments, seed, folder.config())
    tell(output, dataset)
    again = ["tango", *(word for word in output.words if word not in ("--resume", "--overwrite")), "--resume"]
    options = {"resume": resume, "overwrite": overwrite, "start_from": start}
    forecaster = fit_shown(output, dataset, resolved, folder.path, again, **options)
    found = _metrics(forecaster, folder.path)
    if as_json:
        output.json(found)
    else:
        report(output, found)
    _what_next(output, forecaster, folder.path)


def resolve(
    model: str | None, config: Path | None, assignments: list[str], seed: int | None, base: RunConfig | None
) -> RunConfig:
    """Settings from a file, else from the run to go on with, else the model's own; then what was given by hand."""
    from tangokg.train import load_config, make_config

    if config is not None:
        found = load_config(config, model, assignments)
        return found if seed is None else replace(found, seed=seed)
    tables = base.to_tables() if base else {}
    if base and model not in (None, base.model):
        tables.pop("settings", None)  # of another model
    return make_config(model, tables, assignments, seed)


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
    return RunFolder(resumed).dataset()


def fit_shown(
    output: Output, dataset: Dataset, config: RunConfig, out: Path | None, again: list[str], **options: Any
) -> Forecaster:
    """Train with a display; a failed start leaves nothing behind, an interruption says how to go on (``again``)."""
    from tangokg.forecast import fit
    from tangokg.train import Interrupted
    from tangokg.train.display import Display

    try:
        with all_or_nothing(out, options.get("overwrite", False)), Display(output.notes) as display:
            return fit(dataset, config, out=out, reporter=display, **options)
    except Interrupted as stop:
        if out is not None:
            stop.args = (f"{stop} Go on with:\n  {shlex.join(again)}",)
        raise


@contextmanager
def all_or_nothing(out: Path | None, overwrite: bool) -> Iterator[None]:
    """A start that fails before the first checkpoint leaves the disk as it was, an overwritten run included."""
    from tangokg.train import RunFolder

    if out is None:
        yield
        return
    missing = [path for path in (out, *out.parents) if not path.exists()]
    empty = out.is_dir() and not any(out.iterdir())
    aside = out.with_name(f".{out.name}.replaced-{os.getpid()}") if overwrite else None
    if aside and (out / "config.toml").exists():
        out.rename(aside)
    try:
        yield
    except BaseException:
        kept = RunFolder(out).checkpoint.exists() or RunFolder(out).finished
        if not kept and (missing or empty or (aside and aside.exists())):
            shutil.rmtree(out, ignore_errors=True)
            if empty:
                out.mkdir()
            if aside and aside.exists():
                aside.rename(out)
            for folder in missing[1:]:
                with suppress(OSError):  # another run may have come to lie in it
                    folder.rmdir()
        raise
    finally:
        if aside and aside.exists():
            shutil.rmtree(aside, ignore_errors=True)


def _metrics(forecaster: Forecaster, out: Path) -> dict[str, Any]:
    """What the run measured; a run that was stopped between its weights and its metrics measures now."""
    from tangokg.forecast import results
    from tangokg.train import RunFolder

    path = out / "metrics.json"
    if not path.exists():
        RunFolder(out).save_metrics(results(forecaster))
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def report(output: Output, found: dict[str, Any]) -> None:
    """Validation and test metrics: time-aware, with -v under all filters."""
    filters = ("time-aware", "raw", "time-unaware") if output.verbose else ("time-aware",)
    rows = [
        [part, name, *figures(found[part][name]), f"{found['queries'][part]:,}"]
        for part in ("valid", "test")
        if part in found
        for name in filters
    ]
    title = f"{found['model']} on {found['dataset']}, seed {found['seed']}, {found['epochs']} epochs"
    output.show(make_table(title, ("part", "filter", *FIGURES, "queries"), rows, left=2))


def _what_next(output: Output, forecaster: Forecaster, out: Path) -> None:
    """The run, and two commands to copy, with names that it knows."""
    facts = forecaster.facts
    s, r = facts.vocab.entities[facts.s[-1]], facts.vocab.relations[facts.r[-1]]
    output.say(f"The run is in {out}. Next:")
    output.say(f"  {shlex.join(['tango', 'forecast', str(out), s, r])}")
    if len(forecaster.dataset.test):
        output.say(f"  {shlex.join(['tango', 'evaluate', str(out), '--by', 'relation'])}")

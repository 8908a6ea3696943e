"""``tango evaluate``: the metrics of a finished run, under any protocol, whole and broken down."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tangokg.cli.calibration import show_calibration
from tangokg.cli.options import Device, Json, Run, Split, parse_device
from tangokg.cli.output import Output
from tangokg.config import parse_horizons
from tangokg.errors import ConfigError
from tangokg.showing import FIGURES

MOST_ROWS = 20  # of a breakdown, without -v


class Filter(StrEnum):
    """Which other true facts are left out of the ranking, as :data:`tangokg.rank.FILTERS`."""

    RAW = "raw"
    TIME_AWARE = "time-aware"
    TIME_UNAWARE = "time-unaware"


class ProtocolName(StrEnum):
    """Protocols that need no number, as :data:`tangokg.rank.protocols.PLAIN`."""

    SINGLE_STEP = "single-step"
    TGB = "tgb"


class By(StrEnum):
    """How metrics are broken down."""

    RELATION = "relation"
    TIME = "time"


Part = Annotated[Split, typer.Option(help="The part to evaluate on.")]
Filters = Annotated[
    list[Filter] | None,
    typer.Option(
        "--filter",
        help="Which other true facts are left out of the ranking; by default time-aware, with -v all. Can be repeated.",
    ),
]
Horizon = Annotated[
    str | None, typer.Option(metavar="STEPS", help="How far ahead to forecast, in the data's unit: 3, 1,3,5 or 1-8.")
]
Inductive = Annotated[bool, typer.Option("--inductive", help="Only queries with an entity that training never saw.")]
MultiStep = Annotated[
    bool, typer.Option("--multi-step", help="Hide all facts from the start of the evaluated part on.")
]
Protocol = Annotated[ProtocolName, typer.Option(help="tgb: rank as the Temporal Graph Benchmark does.")]
Candidates = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Rank among lists from a Parquet file, not among all entities.")
]
Breakdown = Annotated[By | None, typer.Option(help="Break the figures down.")]
Calibrated = Annotated[
    bool, typer.Option("--calibration", help="Compare chances and shares with what happened, instead of ranking.")
]
Recent = Annotated[
    float, typer.Option(min=1, help="With --calibration: pairs with a fact in the last N usual gaps.", metavar="N")
]
Plot = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Draw --by time, several horizons, or --calibration: .png, .svg or .pdf."),
]


def evaluate(
    ctx: typer.Context,
    run: Run,
    split: Part = Split.TEST,
    filters: Filters = None,
    horizon: Horizon = None,
    inductive: Inductive = False,
    multi_step: MultiStep = False,
    protocol: Protocol = ProtocolName.SINGLE_STEP,
    candidates: Candidates = None,
    by: Breakdown = None,
    calibration: Calibrated = False,
    recent: Recent = 30,
    plot: Plot = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Rank the true answers of a part from what was known before, and print MRR and Hits@k in per cent."""
    output: Output = ctx.obj
    horizons: list[float | None] = [*parse_horizons(horizon)] if horizon else [None]
    as_tgb = protocol is ProtocolName.TGB
    if calibration:
        _check_calibration(by, horizons, filters, inductive or multi_step or as_tgb or candidates is not None)
    if by and len(horizons) > 1:
        raise ConfigError("--by breaks one horizon down: give a single --horizon with it.")
    if plot and by is not By.TIME and len(horizons) == 1 and not calibration:
        raise ConfigError("--plot draws figures over time or over horizons: add --by time, or --horizon 1-8.")
    output.check_figure(plot)
    place = parse_device(device)
    from tangokg.forecast import load
    from tangokg.forecast.evaluating import EvaluationSettings, evaluate_run

    settings = EvaluationSettings(split.value, tuple(horizons), inductive, multi_step, protocol.value, candidates)
    forecaster = load(run, place)
    if calibration:
        show_calibration(output, forecaster, split.value, recent, horizons[0], plot, as_json)
        return
    with output.progress("ranking") as advance:
        evaluation = evaluate_run(forecaster, settings, advance)
    names = _filters(filters, as_json or output.verbose, as_tgb)
    if forecaster.progress.ended in ("stopped", "chosen"):
        output.say(f"Training was stopped early: `tango train --out {run} --resume` goes on.")
    if plot:
        evaluation.draw(plot, names[0])
        output.say(f"The figure is in {plot}.")
    groups = evaluation.groups(by.value, names[0]) if by else []
    if as_json:
        output.json(evaluation.to_dict(names) | ({"by": by.value, "filter": names[0], "rows": groups} if by else {}))
        return
    output.show(evaluation.table(names))
    if by:
        _show_groups(output, by, names[0], groups)


def _filters(chosen: list[Filter] | None, show_all: bool, as_tgb: bool) -> list[str]:
    """The filters to show: the chosen ones, else the usual one, or all."""
    if chosen:
        return [choice.value for choice in chosen]
    usual = ["tgb"] if as_tgb else []
    return usual + [choice.value for choice in Filter] if show_all else usual or [Filter.TIME_AWARE.value]


def _check_calibration(
    by: By | None, horizons: list[float | None], filters: list[Filter] | None, protocol: bool
) -> None:
    if by or filters or protocol or len(horizons) > 1:
        raise ConfigError(
            "--calibration asks about all recently active pairs, at one horizon: leave out --by, --filter, --protocol, "
            "--candidates, --inductive and --multi-step, and give one --horizon at most."
        )


def _show_groups(output: Output, by: By, name: str, groups: list[dict[str, Any]]) -> None:
    shown = groups if output.verbose else groups[:MOST_ROWS]
    rows = []
    for row in shown:
        label, queries, *values = row.values()
        rows.append([str(label), *(f"{value:.2f}" for value in values), f"{queries:,}"])
    left_out = f" (the first {len(shown)} of {len(groups)}; -v shows all)" if len(shown) < len(groups) else ""
    output.table(f"by {by.value}, {name}{left_out}", (by.value, *FIGURES, "queries"), rows)

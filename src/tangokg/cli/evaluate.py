"""``tango evaluate``: the metrics of a finished run, under any protocol, whole and broken down."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tangokg.cli.calibration import show_calibration
from tangokg.cli.options import Device, Json, Run, parse_device
from tangokg.cli.output import Output
from tangokg.cli.protocols import ProtocolName, Protocols, make_protocols, parse_horizons, read_lists
from tangokg.cli.tables import FIGURES, figures, make_table
from tangokg.errors import ConfigError

if TYPE_CHECKING:
    from tangokg.forecast import Forecaster
    from tangokg.rank import CandidateLists, Metrics

Measured = list[tuple[float | None, "Metrics"]]  # by horizon

MOST_ROWS = 20  # of a breakdown, without -v


class Split(StrEnum):
    """Parts that a run can be evaluated on."""

    VALID = "valid"
    TEST = "test"


class Filter(StrEnum):
    """Which other true facts are left out of the ranking, as :data:`tangokg.rank.FILTERS`."""

    RAW = "raw"
    TIME_AWARE = "time-aware"
    TIME_UNAWARE = "time-unaware"


class By(StrEnum):
    """How metrics are broken down."""

    RELATION = "relation"
    TIME = "time"


def evaluate(
    ctx: typer.Context,
    run: Run,
    split: Annotated[Split, typer.Option(help="The part to evaluate on.")] = Split.TEST,
    filters: Annotated[
        list[Filter] | None,
        typer.Option(
            "--filter",
            help="Which other true facts are left out of the ranking; by default time-aware, with -v all. Can be "
            "repeated.",
        ),
    ] = None,
    horizon: Annotated[
        str | None,
        typer.Option(metavar="STEPS", help="How far ahead to forecast, in the data's unit: 3, 1,3,5 or 1-8."),
    ] = None,
    inductive: Annotated[
        bool, typer.Option("--inductive", help="Only queries with an entity that training never saw.")
    ] = False,
    multi_step: Annotated[
        bool, typer.Option("--multi-step", help="Hide all facts from the start of the evaluated part on.")
    ] = False,
    protocol: Annotated[
        ProtocolName, typer.Option(help="tgb: rank as the Temporal Graph Benchmark does.")
    ] = ProtocolName.SINGLE_STEP,
    candidates: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Rank among lists from a Parquet file, not among all entities.")
    ] = None,
    by: Annotated[By | None, typer.Option(help="Break the figures down.")] = None,
    calibration: Annotated[
        bool,
        typer.Option("--calibration", help="Compare chances and shares with what happened, instead of ranking."),
    ] = False,
    recent: Annotated[
        float, typer.Option(min=1, help="With --calibration: pairs with a fact in the last N usual gaps.", metavar="N")
    ] = 30,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw --by time, several horizons, or --calibration: .png, .svg or .pdf."),
    ] = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Rank the true answers of a part from what was known before, and print MRR and Hits@k in per cent."""
    output: Output = ctx.obj
    horizons: list[float | None] = [*parse_horizons(horizon)] if horizon else [None]
    as_tgb = protocol is ProtocolName.TGB
    if calibration:
        _check_calibration(by, horizons, filters, inductive or multi_step or as_tgb or candidates is not None)
    _check(by, horizons, plot, multi_step, calibration)
    if as_tgb and (inductive or multi_step or horizon):
        raise ConfigError("--protocol tgb asks all queries one step ahead: leave out the other protocols.")
    output.check_figure(plot)
    place = parse_device(device)
    from tangokg.forecast import load
    from tangokg.forecast.counters import BESIDE, counter_beside

    forecaster = load(run, place)
    if calibration:
        show_calibration(output, forecaster, split.value, recent, horizons[0], plot, as_json)
        return
    protocols = make_protocols(forecaster, split.value, horizons, inductive, multi_step, as_tgb)
    lists = read_lists(forecaster, candidates)
    measured = {forecaster.config.model: _measure(output, forecaster, split, protocols, lists)}
    if counter := counter_beside(forecaster):
        measured[BESIDE] = _measure(output, counter, split, protocols, lists)
    names = _filters(filters, as_json or output.verbose, as_tgb)
    about, title = _about(forecaster, run, split, inductive, multi_step)
    if as_tgb or candidates is not None:
        about |= {"protocol": protocol.value, "candidates": None if candidates is None else str(candidates)}
        title += ", protocol of TGB" * as_tgb + ", among listed candidates" * (candidates is not None)
    if forecaster.progress.ended in ("stopped", "chosen"):
        about["ended"] = forecaster.progress.ended
        output.say(f"Training was stopped early: `tango train --out {run} --resume` goes on.")
    if plot:
        _plot(plot, forecaster, measured, names[0], title)
        output.say(f"The figure is in {plot}.")
    own = measured[forecaster.config.model]
    groups = _breakdown(forecaster, own[0][1], by, names[0]) if by else []
    if as_json:
        results = _plain(own, names)
        for row, distance in zip(results, _distances(forecaster, split, protocols), strict=True):
            row |= {} if distance is None else {"distance": distance}
        counts = {BESIDE: _plain(measured[BESIDE], names)} if counter else {}
        parts = {"by": by.value, "filter": names[0], "rows": groups} if by else {}
        output.json(about | {"results": results} | counts | parts)
        return
    output.show(_table(title, about["unit"], measured, names))
    if by:
        output.show(_groups_table(by, names[0], groups, output.verbose))


def _filters(chosen: list[Filter] | None, every: bool, as_tgb: bool) -> list[str]:
    """The ranks that are shown: those that were asked for, else the usual one, or all."""
    if chosen:
        return [one.value for one in chosen]
    usual = ["tgb"] if as_tgb else []
    return usual + [one.value for one in Filter] if every else usual or [Filter.TIME_AWARE.value]


def _about(
    forecaster: Forecaster, run: Path, split: Split, inductive: bool, multi_step: bool
) -> tuple[dict[str, Any], str]:
    """What was evaluated and how, for a program and as a title."""
    model, dataset = forecaster.config.model, forecaster.dataset.name
    about: dict[str, Any] = {"run": str(run), "model": model, "dataset": dataset, "split": split.value}
    about |= {"inductive": inductive, "multi_step": multi_step, "unit": forecaster.facts.clock.unit}
    kinds = [name for name, chosen in (("inductive", inductive), ("multi-step", multi_step)) if chosen]
    title = ", ".join([f"{model} on the {split.value} part of {dataset}", *kinds])
    if mark := forecaster.exposure.seen:
        about["not_comparable"], title = mark, f"{title}, NOT COMPARABLE: {mark}"
    return about, title


def _check_calibration(
    by: By | None, horizons: list[float | None], filters: list[Filter] | None, protocol: bool
) -> None:
    if by or filters or protocol or len(horizons) > 1:
        raise ConfigError(
            "--calibration asks about all recently active pairs, at one horizon: leave out --by, --filter, --protocol, "
            "--candidates, --inductive and --multi-step, and give one --horizon at most."
        )


def _check(by: By | None, horizons: list[float | None], plot: Path | None, multi_step: bool, calibration: bool) -> None:
    """An error, before the run is loaded, if options do not go together."""
    if multi_step and horizons != [None]:
        raise ConfigError("--multi-step and --horizon both set where the history ends: give one of them.")
    if by and len(horizons) > 1:
        raise ConfigError("--by breaks one horizon down: give a single --horizon with it.")
    if plot and by is not By.TIME and len(horizons) == 1 and not calibration:
        raise ConfigError("--plot draws figures over time or over horizons: add --by time, or --horizon 1-8.")


def _plot(path: Path, forecaster: Forecaster, measured: dict[str, Measured], name: str, title: str) -> None:
    """The figures by horizon if there are several, else by time."""
    from tangokg.report import plot_by_time, plot_horizons

    clock, title = forecaster.facts.clock, f"{title}, {name}"
    curves = {
        model: {dt: m[name] for dt, m in sorted(rows, key=lambda row: row[0] or 0) if dt}
        for model, rows in measured.items()
    }
    own = forecaster.config.model
    if len(measured[own]) > 1:
        plot_horizons(path, curves.pop(own), clock.unit, title, curves)
    else:
        plot_by_time(path, measured[own][0][1].by_time(name), clock, title)


def _measure(
    output: Output, forecaster: Forecaster, split: Split, protocols: Protocols, lists: CandidateLists | None
) -> Measured:
    """Each horizon with its metrics."""
    part = getattr(forecaster.dataset, split.value)
    measured = []
    with output.progress("ranking") as advance:
        for i, (dt, protocol) in enumerate(protocols):

            def advance_all(done: int, total: int, before: int = i) -> None:
                advance(before * total + done, len(protocols) * total)

            measured.append((dt, forecaster.evaluate(part, protocol, progress=advance_all, candidates=lists)))
    return measured


def _distances(forecaster: Forecaster, split: Split, protocols: Protocols) -> list[float | None]:
    """How far states move, for each horizon; None for models without states."""
    import torch

    from tangokg.rank import distance_travelled
    from tangokg.snapshots.timeline import build_timeline

    model = forecaster.model
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    timeline = build_timeline(forecaster.facts).to(device)
    times = torch.from_numpy(getattr(forecaster.dataset, split.value).t).unique().to(timeline.t)
    target = torch.searchsorted(timeline.t, times)
    return [distance_travelled(model, timeline, target, protocol) for _, protocol in protocols]


def _breakdown(forecaster: Forecaster, metrics: Metrics, by: By, name: str) -> list[dict[str, Any]]:
    """Figures of each relation, the most frequent first, or of each time in order."""
    facts = forecaster.facts
    if by is By.TIME:
        return [
            {"time": facts.clock.format(t), "queries": group.queries} | group.to_dict()
            for t, group in metrics.by_time(name).items()
        ]
    groups = sorted(metrics.by_relation(name).items(), key=lambda item: -item[1].queries)
    return [{"relation": r, "queries": g.queries} | g.to_dict() for r, g in groups]


def _plain(measured: Measured, names: list[str]) -> list[dict[str, Any]]:
    return [{"horizon": dt, "queries": m.queries} | {n: m[n].to_dict() for n in names} for dt, m in measured]


def _table(title: str, unit: str, models: dict[str, Measured], names: list[str]) -> Any:
    """A row for each horizon, model and filter."""
    rows = []
    for of_models in zip(*models.values(), strict=True):
        for model, (dt, metrics) in zip(models, of_models, strict=True):
            far = [] if dt is None else [f"{dt:g}"]
            for name in names:
                rows.append([*far, model, name, *figures(metrics[name].to_dict()), f"{metrics.queries:,}"])
    columns = ([f"horizon ({unit}s)"] if far else []) + ["model", "filter", *FIGURES, "queries"]
    return make_table(title, columns, rows, left=2 + len(far))


def _groups_table(by: By, name: str, groups: list[dict[str, Any]], verbose: bool) -> Any:
    shown = groups if verbose else groups[:MOST_ROWS]
    rows = []
    for row in shown:
        label, queries, *values = row.values()
        rows.append([str(label), *(f"{value:.2f}" for value in values), f"{queries:,}"])
    left_out = f" (the first {len(shown)} of {len(groups)}; -v shows all)" if len(shown) < len(groups) else ""
    return make_table(f"by {by.value}, {name}{left_out}", (by.value, *FIGURES, "queries"), rows)

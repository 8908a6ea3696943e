"""``tango evaluate``: the metrics of a finished run, under any protocol, whole and broken down."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tangokg.cli.counting import BESIDE, counter_beside
from tangokg.cli.options import (
    Breakdown,
    By,
    Calibration,
    Device,
    Filter,
    Filters,
    Horizon,
    Inductive,
    Json,
    MultiStep,
    Part,
    PlotMetrics,
    Recent,
    Run,
    Split,
    parse_device,
    parse_horizons,
)
from tangokg.cli.output import FIGURES, Output, figures, make_table
from tangokg.errors import ConfigError

if TYPE_CHECKING:
    from tangokg.forecast import Forecaster
    from tangokg.rank import Metrics, Protocol

Measured = list[tuple[float | None, "Metrics"]]  # by horizon
Protocols = list[tuple[float | None, "Protocol"]]

MOST_ROWS = 20  # of a breakdown, without -v


def evaluate(
    ctx: typer.Context,
    run: Run,
    split: Part = Split.TEST,
    filters: Filters = None,
    horizon: Horizon = None,
    inductive: Inductive = False,
    multi_step: MultiStep = False,
    by: Breakdown = None,
    calibration: Calibration = False,
    recent: Recent = 30,
    plot: PlotMetrics = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Rank the true answers of a part from what was known before, and print MRR and Hits@k in per cent."""
    output: Output = ctx.obj
    horizons: list[float | None] = [*parse_horizons(horizon)] if horizon else [None]
    if calibration:
        _check_calibration(by, horizons, filters, inductive or multi_step)
    _check(by, horizons, plot, multi_step, calibration)
    place = parse_device(device)
    from tangokg.forecast import load

    forecaster = load(run, place)
    if calibration:
        from tangokg.cli.calibration import show_calibration

        show_calibration(output, forecaster, split.value, recent, horizons[0], plot, as_json)
        return
    protocols = _protocols(forecaster, split, horizons, inductive, multi_step)
    measured = _measure(output, forecaster, split, protocols)
    counter = counter_beside(forecaster)
    beside = _measure(output, counter, split, protocols) if counter else []
    every = as_json or output.verbose
    names = [f.value for f in filters or (list(Filter) if every else [Filter.TIME_AWARE])]
    broken = _breakdown(forecaster, measured[0][1], by, names[0]) if by else []
    about: dict[str, Any] = {"run": str(run), "model": forecaster.config.model, "dataset": forecaster.dataset.name}
    about |= {"split": split.value, "inductive": inductive, "multi_step": multi_step}
    about |= {"unit": forecaster.facts.clock.unit}
    kinds = [name for name, chosen in (("inductive", inductive), ("multi-step", multi_step)) if chosen]
    title = ", ".join([f"{about['model']} on the {split.value} part of {about['dataset']}", *kinds])
    if mark := forecaster.exposure.seen:
        about["not_comparable"], title = mark, f"{title}, NOT COMPARABLE: {mark}"
    if forecaster.progress.ended in ("stopped", "chosen"):
        about["ended"] = forecaster.progress.ended
        output.say(f"Training was stopped early: `tango train --out {run} --resume` goes on.")
    if plot:
        _plot(plot, forecaster, measured, beside, names[0], title)
        output.say(f"The figure is in {plot}.")
    if as_json:
        counts = {BESIDE: _plain(beside, names)} if beside else {}
        parts = {"by": by.value, "filter": names[0], "rows": broken} if by else {}
        results = _plain(measured, names)
        for row, distance in zip(results, _distances(forecaster, split, protocols), strict=True):
            row |= {} if distance is None else {"distance": distance}
        output.json(about | {"results": results} | counts | parts)
        return
    models = {about["model"]: measured} | ({BESIDE: beside} if beside else {})
    output.show(_whole(title, about["unit"], models, names))
    if by:
        output.show(_broken(by, names[0], broken, output.verbose))


def _check_calibration(
    by: By | None, horizons: list[float | None], filters: list[Filter] | None, protocol: bool
) -> None:
    if by or filters or protocol or len(horizons) > 1:
        raise ConfigError(
            "--calibration asks all pairs that were active lately, from one horizon: leave out --by, --filter, "
            "--inductive and --multi-step, and give one --horizon at most."
        )


def _check(by: By | None, horizons: list[float | None], plot: Path | None, multi_step: bool, calibration: bool) -> None:
    """What does not go together is told before the run is loaded."""
    if multi_step and horizons != [None]:
        raise ConfigError("--multi-step and --horizon both say where the history ends: give one of them.")
    if by and len(horizons) > 1:
        raise ConfigError("--by breaks one horizon down: give a single --horizon with it.")
    if plot:
        from tangokg.report import check_figure

        if by is not By.TIME and len(horizons) == 1 and not calibration:
            raise ConfigError("--plot draws figures over time or over horizons: add --by time, or --horizon 1-8.")
        check_figure(plot)


def _plot(path: Path, forecaster: Forecaster, measured: Measured, beside: Measured, name: str, title: str) -> None:
    """The horizons where there are several, else the times of the only one."""
    from tangokg.report import plot_by_time, plot_horizons

    clock, title = forecaster.facts.clock, f"{title}, {name}"
    if len(measured) > 1:
        own, others = (
            {dt: metrics[name] for dt, metrics in sorted(found, key=lambda row: row[0] or 0) if dt}
            for found in (measured, beside)
        )
        plot_horizons(path, own, clock.unit, title, {BESIDE: others} if others else {})
    else:
        plot_by_time(path, measured[0][1].by_time(name), clock, title)


def _protocols(
    trained: Forecaster, split: Split, horizons: list[float | None], inductive: bool, multi_step: bool
) -> Protocols:
    """What is known and asked for each horizon; None is the single step. What was ``trained`` says who is new."""
    from tangokg import rank

    base = rank.inductive(trained.seen) if inductive else rank.SINGLE_STEP
    if multi_step:
        times = getattr(trained.dataset, split.value).t
        base = rank.multi_step(float(times.min()) if len(times) else 0.0, base)  # without times nothing is asked
    return [(dt, base if dt is None else rank.horizon(dt, base)) for dt in horizons]


def _measure(output: Output, forecaster: Forecaster, split: Split, protocols: Protocols) -> Measured:
    """Each horizon with its metrics."""
    part = getattr(forecaster.dataset, split.value)
    measured = []
    with output.progress("ranking") as bar:
        task = bar.task_ids[0]
        for i, (dt, protocol) in enumerate(protocols):

            def advance(done: int, total: int, before: int = i) -> None:
                bar.update(task, completed=before * total + done, total=len(protocols) * total)

            measured.append((dt, forecaster.evaluate(part, protocol, progress=advance)))
    return measured


def _distances(forecaster: Forecaster, split: Split, protocols: Protocols) -> list[float | None]:
    """How far states travel, for each horizon; None for models without states."""
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


def _whole(title: str, unit: str, models: dict[str, Measured], names: list[str]) -> Any:
    """A row for each horizon, model and filter."""
    rows = []
    for of_models in zip(*models.values(), strict=True):
        for model, (dt, metrics) in zip(models, of_models, strict=True):
            far = [] if dt is None else [f"{dt:g}"]
            for name in names:
                rows.append([*far, model, name, *figures(metrics[name].to_dict()), f"{metrics.queries:,}"])
    columns = ([f"horizon ({unit}s)"] if far else []) + ["model", "filter", *FIGURES, "queries"]
    return make_table(title, columns, rows, left=2 + len(far))


def _broken(by: By, name: str, broken: list[dict[str, Any]], verbose: bool) -> Any:
    shown = broken if verbose else broken[:MOST_ROWS]
    rows = []
    for row in shown:
        label, queries, *values = row.values()
        rows.append([str(label), *(f"{value:.2f}" for value in values), f"{queries:,}"])
    left_out = f" (the first {len(shown)} of {len(broken)}; -v shows all)" if len(shown) < len(broken) else ""
    return make_table(f"by {by.value}, {name}{left_out}", (by.value, *FIGURES, "queries"), rows)

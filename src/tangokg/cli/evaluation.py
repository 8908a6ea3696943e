"""``tango evaluate``: the metrics of a finished run, under any protocol, whole and broken down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tangokg.cli.options import By, Filter, Json, Run, Split, parse_horizons
from tangokg.cli.output import FIGURES, Output, figures, make_table
from tangokg.errors import ConfigError

if TYPE_CHECKING:
    from tangokg.forecast import Forecaster
    from tangokg.rank import Metrics

MOST_ROWS = 20  # of a breakdown, without -v


def evaluate(
    ctx: typer.Context,
    run: Run,
    split: Annotated[Split, typer.Option(help="The part to evaluate on.")] = Split.TEST,
    filters: Annotated[
        list[Filter] | None,
        typer.Option(
            "--filter", help="What else is true and does not count: time-aware; with -v all.", show_default=False
        ),
    ] = None,
    horizon: Annotated[
        str | None,
        typer.Option(metavar="STEPS", help="How far ahead, in the data's unit: 3, 1,3,5 or 1-8.", show_default=False),
    ] = None,
    inductive: Annotated[
        bool, typer.Option("--inductive", help="Only queries with an entity that training never saw.")
    ] = False,
    by: Annotated[By | None, typer.Option(help="Break the figures down.", show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """Rank the true answers of a part from what was known before, and print MRR and Hits@k in per cent."""
    from tangokg.forecast import load

    output: Output = ctx.obj
    horizons: list[float | None] = [*parse_horizons(horizon)] if horizon else [None]
    if by and len(horizons) > 1:
        raise ConfigError("--by breaks one horizon down: give a single --horizon with it.")
    forecaster = load(run)
    measured = _measure(output, forecaster, split, horizons, inductive)
    everything = as_json or output.verbose
    names = [f.value for f in filters or (list(Filter) if everything else [Filter.TIME_AWARE])]
    broken = _breakdown(forecaster, measured[0][1], by, names[0]) if by else []
    if as_json:
        rows = [{"horizon": dt, "queries": m.queries} | {n: m[n].to_dict() for n in names} for dt, m in measured]
        about: dict[str, Any] = {"run": str(run), "model": forecaster.config.model, "dataset": forecaster.dataset.name}
        about |= {"split": split.value, "inductive": inductive, "unit": forecaster.facts.clock.unit}
        output.json(about | {"results": rows} | ({"by": by.value, "filter": names[0], "rows": broken} if by else {}))
        return
    title = f"{forecaster.config.model} on the {split.value} part of {forecaster.dataset.name}"
    output.show(_whole(title + (", inductive" if inductive else ""), forecaster.facts.clock.unit, measured, names))
    if by:
        output.show(_broken(by, names[0], broken, output.verbose))


def _measure(
    output: Output, forecaster: Forecaster, split: Split, horizons: list[float | None], inductive: bool
) -> list[tuple[float | None, Metrics]]:
    """Each horizon with its metrics; None is the single step."""
    from tangokg import rank

    base = rank.inductive(forecaster.seen) if inductive else rank.SINGLE_STEP
    part = getattr(forecaster.dataset, split.value)
    measured = []
    with output.progress("ranking") as bar:
        task = bar.task_ids[0]
        for i, dt in enumerate(horizons):
            protocol = base if dt is None else rank.horizon(dt, base)

            def advance(done: int, total: int, before: int = i) -> None:
                bar.update(task, completed=before * total + done, total=len(horizons) * total)

            measured.append((dt, forecaster.evaluate(part, protocol, progress=advance)))
    return measured


def _breakdown(forecaster: Forecaster, metrics: Metrics, by: By, name: str) -> list[dict[str, Any]]:
    """Figures of each relation, the most frequent first, or of each time in order."""
    facts = forecaster.facts
    if by is By.TIME:
        return [
            {"time": facts.clock.format(t), "queries": group.queries} | group.to_dict()
            for t, group in metrics.by_time(name).items()
        ]
    groups = sorted(metrics.by_relation(name).items(), key=lambda item: -item[1].queries)
    return [{"relation": facts.vocab.relations[r], "queries": g.queries} | g.to_dict() for r, g in groups]


def _whole(title: str, unit: str, measured: list[tuple[float | None, Metrics]], names: list[str]) -> Any:
    far = [] if measured[0][0] is None else [f"horizon ({unit}s)"]
    rows = [
        [*([f"{dt:g}"] if dt is not None else []), name, *figures(metrics[name].to_dict()), f"{metrics.queries:,}"]
        for dt, metrics in measured
        for name in names
    ]
    return make_table(title, (*far, "filter", *FIGURES, "queries"), rows, left=1 + len(far))


def _broken(by: By, name: str, broken: list[dict[str, Any]], verbose: bool) -> Any:
    shown = broken if verbose else broken[:MOST_ROWS]
    rows = []
    for row in shown:
        label, queries, *values = row.values()
        rows.append([str(label), *(f"{value:.2f}" for value in values), f"{queries:,}"])
    left_out = f" (the first {len(shown)} of {len(broken)}; -v shows all)" if len(shown) < len(broken) else ""
    return make_table(f"by {by.value}, {name}{left_out}", (by.value, *FIGURES, "queries"), rows)

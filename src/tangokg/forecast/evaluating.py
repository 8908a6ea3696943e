"""Evaluate a run on one of its parts under any protocol: at several horizons, next to a counter, with breakdowns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from tangokg import rank
from tangokg.errors import ConfigError
from tangokg.forecast.counters import BESIDE, counter_for
from tangokg.forecast.forecaster import Forecaster
from tangokg.rank import Metrics, Protocol, distance_travelled, read_candidates
from tangokg.report import plot_by_time, plot_horizons
from tangokg.showing import FIGURES, figures, make_table

if TYPE_CHECKING:
    from rich.console import Group

Measured = list[tuple[float | None, Metrics]]  # by horizon
Progress = Callable[[int, int], None]  # done, of


@dataclass(frozen=True)
class EvaluationSettings:
    """How to evaluate a run: the part, the horizons and the protocol."""

    split: str = "test"
    horizons: tuple[float | None, ...] = (None,)  # None: one step ahead
    inductive: bool = False
    multi_step: bool = False
    protocol: str = "single-step"
    candidates: Path | None = None  # a Parquet file of lists; None: all entities are ranked

    def __post_init__(self) -> None:
        if self.multi_step and self.horizons != (None,):
            raise ConfigError("--multi-step and --horizon both set the end of the history: give one of them.")
        if self.protocol == "tgb" and (self.inductive or self.multi_step or self.horizons != (None,)):
            raise ConfigError("--protocol tgb asks all queries one step ahead: leave out the other protocols.")

    def protocols(self, forecaster: Forecaster) -> list[tuple[float | None, Protocol]]:
        """The protocol of each horizon; an entity is new if training did not see it."""
        base = rank.inductive(forecaster.seen) if self.inductive else rank.named(self.protocol)
        if self.multi_step:
            times = forecaster.dataset.parts[self.split].t
            base = rank.multi_step(float(times.min()) if len(times) else 0.0, base)  # an empty part has no queries
        return [(dt, base if dt is None else rank.horizon(dt, base)) for dt in self.horizons]

    def describe(self, forecaster: Forecaster) -> tuple[dict[str, Any], str]:
        """What is evaluated and how, for a program and as a title."""
        model, dataset, path = forecaster.config.model, forecaster.dataset.name, forecaster.path
        about: dict[str, Any] = {"run": None if path is None else str(path), "model": model, "dataset": dataset}
        about |= {"split": self.split, "inductive": self.inductive, "multi_step": self.multi_step}
        about |= {"unit": forecaster.facts.clock.unit}
        kinds = [name for name, chosen in (("inductive", self.inductive), ("multi-step", self.multi_step)) if chosen]
        title = ", ".join([f"{model} on the {self.split} part of {dataset}", *kinds])
        if mark := forecaster.exposure.seen:
            about["not_comparable"], title = mark, f"{title}, NOT COMPARABLE: {mark}"
        if self.protocol == "tgb" or self.candidates is not None:
            about["protocol"] = self.protocol
            about["candidates"] = None if self.candidates is None else str(self.candidates)
            title += ", protocol of TGB" if self.protocol == "tgb" else ""
            title += ", among listed candidates" if self.candidates is not None else ""
        return about, title


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The metrics of a run by horizon, and those of a counter that knows the same facts."""

    forecaster: Forecaster
    asked: EvaluationSettings
    own: Measured
    beside: dict[str, Measured]  # by name; nothing beside a run that is a counter itself

    @property
    def measured(self) -> dict[str, Measured]:
        """All models by name, the run first."""
        return {self.forecaster.config.model: self.own} | self.beside

    def to_dict(self, names: list[str]) -> dict[str, Any]:
        """The figures under these filters, and how far states move, for JSON."""
        about, _ = self.asked.describe(self.forecaster)
        if self.forecaster.progress.ended in ("stopped", "chosen"):
            about["ended"] = self.forecaster.progress.ended
        results = _plain(self.own, names)
        for row, distance in zip(results, self.distances(), strict=True):
            row |= {} if distance is None else {"distance": distance}
        return about | {"results": results} | {name: _plain(rows, names) for name, rows in self.beside.items()}

    def distances(self) -> list[float | None]:
        """How far states move, for each horizon; None for models without states."""
        model, timeline = self.forecaster.model, self.forecaster._timeline
        times = torch.from_numpy(self.forecaster.dataset.parts[self.asked.split].t).unique()
        target = torch.searchsorted(timeline.t, times.to(timeline.t))
        return [distance_travelled(model, timeline, target, p) for _, p in self.asked.protocols(self.forecaster)]

    def groups(self, by: str, name: str) -> list[dict[str, Any]]:
        """Figures of each relation, the most frequent first, or of each time in order, under one filter."""
        metrics, clock = self.own[0][1], self.forecaster.facts.clock
        if by == "time":
            groups = [(clock.format(t), group) for t, group in metrics.by_time(name).items()]
        else:
            groups = sorted(metrics.by_relation(name).items(), key=lambda item: -item[1].queries)
        return [{by: label, "queries": group.queries} | group.to_dict() for label, group in groups]

    def table(self, names: list[str]) -> Group:
        """A row for each horizon, model and filter."""
        about, title = self.asked.describe(self.forecaster)
        rows = []
        for of_models in zip(*self.measured.values(), strict=True):
            for model, (dt, metrics) in zip(self.measured, of_models, strict=True):
                far = [] if dt is None else [f"{dt:g}"]
                for name in names:
                    rows.append([*far, model, name, *figures(metrics[name].to_dict()), f"{metrics.queries:,}"])
        columns = ([f"horizon ({about['unit']}s)"] if far else []) + ["model", "filter", *FIGURES, "queries"]
        return make_table(title, columns, rows, left=2 + len(far))

    def draw(self, path: Path, name: str) -> None:
        """The figures by horizon if there are several, else by time, under one filter."""
        clock, title = self.forecaster.facts.clock, f"{self.asked.describe(self.forecaster)[1]}, {name}"
        if len(self.own) == 1:
            plot_by_time(path, self.own[0][1].by_time(name), clock, title)
            return
        ordered = {model: sorted(rows, key=lambda row: row[0] or 0) for model, rows in self.measured.items()}
        curves = {model: {dt: m[name] for dt, m in rows if dt} for model, rows in ordered.items()}
        plot_horizons(path, curves.pop(self.forecaster.config.model), clock.unit, title, curves)


def evaluate_run(forecaster: Forecaster, asked: EvaluationSettings, progress: Progress | None = None) -> Evaluation:
    """Rank the true answers of a part by a run and by a counter, from what was known before."""
    counter, protocols = counter_for(forecaster), asked.protocols(forecaster)
    part, known = forecaster.dataset.parts[asked.split], forecaster.facts
    lists = None if asked.candidates is None else read_candidates(asked.candidates, known.vocab, known.clock)
    models = [forecaster, *([counter] if counter else [])]
    measured: list[Measured] = []
    for number, model in enumerate(models):
        rows: Measured = []
        for i, (dt, protocol) in enumerate(protocols, number * len(protocols)):

            def advance(done: int, total: int, before: int = i) -> None:
                if progress is not None:
                    progress(before * total + done, len(models) * len(protocols) * total)

            rows.append((dt, model.evaluate(part, protocol, progress=advance, candidates=lists)))
        measured.append(rows)
    return Evaluation(forecaster, asked, measured[0], {BESIDE: measured[1]} if counter else {})


def _plain(measured: Measured, names: list[str]) -> list[dict[str, Any]]:
    return [{"horizon": dt, "queries": m.queries} | {n: m[n].to_dict() for n in names} for dt, m in measured]

"""Measure everything that a report shows: with the one evaluator, on the same questions for all models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tangokg import rank
from tangokg.forecast.calibrating import KINDS, MOST, ask_recent, calibrate
from tangokg.forecast.comparing import Entry
from tangokg.forecast.counters import BESIDE, make_counter
from tangokg.forecast.examples import Answered, find_examples
from tangokg.forecast.forecaster import Forecaster
from tangokg.forecast.training import fit
from tangokg.history.hazard_queries import RECENT
from tangokg.history.series import usual_gap
from tangokg.quads.values import Quadruples
from tangokg.rank.calibration import Calibration
from tangokg.rank.significance import Paired
from tangokg.rank.strata import strata
from tangokg.report.compare import FILTER, Comparison, Measured, compare
from tangokg.report.figures import read_log
from tangokg.report.findings import Findings, Ranked, RunFindings, on_host
from tangokg.report.runs import describe, describe_parts
from tangokg.snapshots.timeline import build_timeline
from tangokg.snapshots.windows import Queries
from tangokg.train import RunFolder
from tangokg.train.devices import device_of

QUESTIONS = 10_000  # that are ranked at most
AHEAD = (1, 2, 4, 8)  # usual gaps
FITTED = "recurrency"  # a counter whose parameters are chosen on validation
CHEAP = 50_000  # facts up to which it is fitted for a report

Progress = Callable[[int, int, str], None]  # done, of, what


@dataclass(frozen=True, eq=False)
class Subject:
    """A model of the report."""

    entry: Entry
    forecaster: Forecaster


@dataclass(frozen=True, eq=False)
class Asking:
    """The questions for all models: those of a part, or a sample of them."""

    part: Quadruples
    exam: rank.Exam
    target: Tensor  # its snapshots
    total: int  # questions that the part has
    pairs: int  # whose chances are compared with what happened, at most
    protocol: rank.Protocol
    horizons: Sequence[float]


class Course:
    """Measurements in sequence that share one progress callback."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def part(self, what: str, size: int) -> Callable[[int, int], None]:
        """The progress callback of the next measurement."""
        before, self.done = self.done, self.done + size

        def advance(done: int, total: int) -> None:
            if self.progress is not None:
                self.progress(before + size * done // max(total, 1), self.total, what)

        advance(0, 1)
        return advance


def measure(
    subjects: Sequence[Subject],
    split: str,
    horizons: Sequence[float] | None = None,
    questions: int = QUESTIONS,
    progress: Progress | None = None,
) -> Findings:
    """All figures of some runs on the same data, with those of counters for comparison."""
    first = subjects[0].forecaster
    asking = _asking(first, split, horizons, questions)
    models = [*subjects, *(Subject(Entry(c.config.model, c.config, forecaster=c), c) for c in _counters(subjects))]
    size, count = len(asking.exam), len(subjects)
    course = Course(progress, size * (len(models) * (1 + len(asking.horizons)) + 2 * count))
    ranked = [_rank(subject, asking, course) for subject in models]
    measured, ahead = [result for result, _ in ranked], [curve for _, curve in ranked]
    runs = [_run(*of, split, asking, course) for of in zip(subjects, measured, ahead, strict=False)]
    counted = [Ranked(result.name, result.metrics, curve) for result, curve in ranked[count:]]
    answered = [Answered(run.name, of.forecaster, run.metrics) for run, of in zip(runs, subjects, strict=True)]
    examples, reasons = find_examples(answered, course.part("questions", size * count))
    compared = compare(measured)
    return Findings(
        dataset=first.dataset.name,
        split=split,
        clock=first.facts.clock,
        total=asking.total,
        runs=runs,
        beside=counted,
        rows=compared.rows,
        tested=_tested(compare(measured[:count]) if count > 1 else compared),
        groups=strata(asking.exam) | {"newcomers": rank.inductive(first.seen).keep(asking.exam.queries)},
        kinds=KINDS,
        pairs=asking.pairs,
        examples=examples,
        reasons=reasons,
        made=datetime.now(UTC).date().isoformat(),
        version=import_module("tangokg").__version__,
    )


def _tested(comparison: Comparison) -> tuple[str, str, Paired] | None:
    """The test of the first two models, with their names."""
    if comparison.test is None:
        return None
    return comparison.rows[0].name, comparison.rows[1].name, comparison.test


def drawn(most: int) -> rank.Protocol:
    """The single-step protocol with at most so many questions, drawn evenly and always the same."""

    def keep(queries: Queries) -> Tensor:
        chosen = torch.zeros(len(queries), dtype=torch.bool)
        chosen[torch.randperm(len(queries), generator=torch.Generator().manual_seed(0))[:most]] = True
        return chosen.to(queries.s.device)

    return replace(rank.SINGLE_STEP, keep=keep)


def _asking(forecaster: Forecaster, split: str, horizons: Sequence[float] | None, questions: int) -> Asking:
    """The questions, and by default horizons of some usual gaps that fit into what is known."""
    part, timeline = forecaster.dataset.parts[split], build_timeline(forecaster.facts)
    target = torch.searchsorted(timeline.t, torch.from_numpy(part.t).unique().to(timeline.t))
    protocol = drawn(questions)
    if horizons is None:
        gap, longest = usual_gap(timeline.t), float(timeline.t[target[0]] - timeline.t[0])
        horizons = [n * gap for n in AHEAD if n * gap <= longest]
    total = int(timeline.num_edges[target.numpy()].sum())
    exam, far = rank.prepare(timeline, target, protocol), sorted(set(map(float, horizons)))
    return Asking(part, exam, target, total, min(2 * questions, MOST), protocol, far)


def _counters(subjects: Sequence[Subject]) -> list[Forecaster]:
    """The baselines that are not among the runs: counting, and counting with fitted parameters."""
    models, first = {subject.entry.config.model for subject in subjects}, subjects[0].forecaster
    counters = [] if BESIDE in models else [make_counter(first)]
    dataset = first.dataset
    if FITTED not in models and len(dataset.facts) <= CHEAP and len(dataset.valid):
        counters.append(fit(dataset, FITTED, device="cpu", verbose=False))
    return counters


def _rank(subject: Subject, asking: Asking, course: Course) -> tuple[Measured, dict[float, rank.Summary]]:
    """Rank a model on the questions, and on the same ones from further ahead."""
    name, size, forecaster = subject.entry.name, len(asking.exam), subject.forecaster
    measured = subject.entry.measure(forecaster, course.part(f"ranking: {name}", size), asking.part, asking.protocol)
    assert torch.equal(measured.metrics.answer.cpu(), asking.exam.queries.answer), "all models are asked the same"
    curve = {}
    for dt in asking.horizons:
        advance = course.part(f"{dt:g} ahead: {name}", size)
        curve[dt] = forecaster.evaluate(asking.part, rank.horizon(dt, asking.protocol), progress=advance)[FILTER]
    return replace(measured, metrics=on_host(measured.metrics)), curve


def _run(
    subject: Subject, measured: Measured, curve: dict[float, rank.Summary], split: str, asking: Asking, course: Course
) -> RunFindings:
    """The findings that only a run has: its description, epochs and calibration."""
    course.part(f"calibration: {measured.name}", len(asking.exam))
    entry, forecaster = subject.entry, subject.forecaster
    about, log = _describe_run(entry.path, forecaster)
    stored = about.pop("metrics", {}).get(split)
    return RunFindings(measured.name, measured.metrics, curve, about, log, _calibration(forecaster, asking), stored)


def _calibration(forecaster: Forecaster, asking: Asking) -> dict[str, Calibration]:
    """Like :meth:`Forecaster.calibration` for the part, on a sample if there are many pairs."""
    chances, timeline = forecaster.chances, asking.exam.timeline
    queries = ask_recent(timeline, chances, asking.target, RECENT)
    queries = queries.sample(asking.pairs, torch.Generator().manual_seed(0))
    return calibrate(forecaster.model, chances, timeline.to(device_of(forecaster.model)), timeline, queries)


def _describe_run(path: Path | None, forecaster: Forecaster) -> tuple[dict[str, Any], Sequence[dict[str, float]]]:
    """The description of a run, without its path, and its epochs."""
    if path is None:
        return describe_parts(forecaster.config, forecaster.dataset), forecaster.progress.log
    about, folder = describe(path), RunFolder(path)
    about["run"]["weights written"] = datetime.fromtimestamp(folder.weights.stat().st_mtime, UTC).date().isoformat()
    if folder.origin is not None:
        about["data"]["goes on from"] = folder.origin.name
    return about, read_log(folder.log) if folder.log.exists() else []

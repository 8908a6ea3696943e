"""The hardest and the easiest questions by name: the question, the true answer, each run's answers, and reasons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from tangokg.forecast.answering import Answering, AskedAt
from tangokg.forecast.answers import Forecast
from tangokg.forecast.forecaster import Forecaster
from tangokg.forecast.known import Known
from tangokg.forecast.questions import Question
from tangokg.forecast.why import explain
from tangokg.history.index import build_index
from tangokg.rank import Metrics
from tangokg.report.compare import FILTER
from tangokg.report.findings import Example, Explained, Said

SHOWN, TRIED, FIRST = 8, 200, 3  # questions of a kind, those that may be the easiest, names said to each
EXPLAINED = 2  # questions of a kind whose first answers get reasons
HEADINGS = ("explains", "earlier fact", "when", "share without it")


@dataclass(frozen=True, eq=False)
class Answered:
    """A run with its ranks, ready to answer."""

    name: str
    forecaster: Forecaster
    metrics: Metrics

    @cached_property
    def answering(self) -> Answering:
        forecaster = self.forecaster
        return Answering(forecaster.model, Known(forecaster.model, build_index(forecaster.facts)), forecaster.chances)

    @property
    def rank(self) -> Tensor:
        return self.metrics.ranks[FILTER].realistic

    def truth(self, rows: Tensor) -> Tensor:
        """The shares of the true answers of some questions, calibrated as all shares are."""
        of, m = self.answering, self.metrics
        step = m.t[rows].double()
        when = AskedAt(torch.searchsorted(of.known.index.times, step), step, step, span=False)
        share, _, _ = of.chances_of(m.s[rows] * of.labels + m.r[rows], m.answer[rows], when)
        return share

    def question(self, row: int) -> Question:
        m, count = self.metrics, self.metrics.num_relations
        s, r, t = int(m.s[row]), int(m.r[row]), float(m.t[row])
        return Question(s, r, None, t) if r < count else Question(None, r - count, s, t)


def find_examples(
    runs: Sequence[Answered], advance: Callable[[int, int], None]
) -> tuple[dict[str, list[Example]], list[Explained]]:
    """Questions by kind, and reasons for a few of the hardest and of the easiest."""
    chosen = _choose(runs)
    rows = list(dict.fromkeys(row for group in chosen.values() for row in group))
    explained = [row for group in list(chosen.values())[:2] for row in group[:EXPLAINED]]
    advance(1, 2 + len(explained))
    forecasts = [
        dict(zip(rows, run.answering.answer(list(map(run.question, rows)), FIRST), strict=True)) for run in runs
    ]
    truths = [dict(zip(rows, run.truth(torch.tensor(rows)).tolist(), strict=True)) for run in runs]
    examples = {}
    for title, group in chosen.items():
        examples[title] = [_example(runs, row, [f[row] for f in forecasts], [t[row] for t in truths]) for row in group]
    reasons = []
    for done, row in enumerate(dict.fromkeys(explained), 2):
        advance(done, 2 + len(explained))
        reasons += [_explain(run, row, answers[row]) for run, answers in zip(runs, forecasts, strict=True)]
    advance(1, 1)
    return examples, reasons


def _choose(runs: Sequence[Answered]) -> dict[str, list[int]]:
    """Rows of the questions of each kind; with several runs, a question is hard or easy if it is so for all."""
    ranks = torch.stack([run.rank for run in runs])  # (M, B)
    hardest = ranks.amin(0).argsort(descending=True, stable=True)
    worst = ranks.amax(0)
    easy = torch.nonzero(worst == worst.min())[:, 0]
    tried = easy[torch.linspace(0, len(easy) - 1, min(TRIED, len(easy))).round().long()]
    truth = torch.stack([run.truth(tried) for run in runs]).mean(0)
    for_all = " for all runs" if len(runs) > 1 else ""
    chosen = {
        f"Hardest questions{for_all}": _distinct(runs[0].metrics, hardest, SHOWN),
        f"Easiest questions{for_all}": _distinct(runs[0].metrics, tried[truth.argsort(descending=True)], SHOWN),
    }
    if len(runs) > 1:
        log_ratio = (ranks[0] / ranks[1]).log()
        for ahead, behind, sign in ((0, 1, 1), (1, 0, -1)):
            order = (sign * log_ratio).argsort(stable=True)
            better = order[(sign * log_ratio)[order] < 0]
            title = f"Questions on which {runs[ahead].name} is furthest ahead of {runs[behind].name}"
            chosen |= {title: _distinct(runs[0].metrics, better, SHOWN)} if len(better) else {}
    return chosen


def _distinct(metrics: Metrics, order: Tensor, count: int) -> list[int]:
    """The first rows of an order, one for each subject and relation."""
    kept: dict[tuple[int, int], int] = {}
    for row in order.tolist():
        kept.setdefault((int(metrics.s[row]), int(metrics.r[row])), row)
        if len(kept) == count:
            break
    return list(kept.values())


def _example(runs: Sequence[Answered], row: int, forecasts: Sequence[Forecast], truths: Sequence[float]) -> Example:
    answers = tuple(
        Said(float(run.rank[row]), truth, tuple((candidate.name, candidate.share) for candidate in forecast.answers))
        for run, forecast, truth in zip(runs, forecasts, truths, strict=True)
    )
    answer = runs[0].forecaster.facts.vocab.entities[int(runs[0].metrics.answer[row])]
    return Example(_words(forecasts[0]), forecasts[0].at, answer, answers)


def _words(forecast: Forecast) -> str:
    """``(Anna, visits, ?)``."""
    return f"({forecast.subject}, {forecast.relation}, {forecast.object})"


def _explain(run: Answered, row: int, forecast: Forecast) -> Explained:
    """Reasons for the first answer."""
    of, facts = run.answering, run.forecaster.facts
    first = explain(of.model, facts, of.known.whole(), run.question(row), forecast, 1).answers[0]
    assert first.reasons is not None, "the first answer is explained"
    why = first.reasons
    return Explained(run.name, _words(forecast), forecast.at, first.name, why.model_share, HEADINGS, why.rows())

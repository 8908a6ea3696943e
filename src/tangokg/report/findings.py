"""The contents of a report: all measurements, before they become a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tangokg.quads.clock import Clock
from tangokg.rank.calibration import Calibration
from tangokg.rank.metrics import Metrics, Summary
from tangokg.rank.ranks import Ranks
from tangokg.rank.significance import Paired
from tangokg.report.compare import Row

MOST_TIMES = 60  # points of a curve over time


@dataclass(frozen=True, eq=False)
class Ranked:
    """A model on the questions of the report; ``horizons`` has the same questions asked further ahead."""

    name: str
    metrics: Metrics
    horizons: Mapping[float, Summary]


@dataclass(frozen=True, eq=False)
class RunFindings(Ranked):
    """A trained run, with the data that counters lack."""

    about: Mapping[str, Mapping[str, Any]]  # see describe()
    log: Sequence[Mapping[str, float]]  # its epochs
    calibration: Mapping[str, Calibration]  # by kind
    stored: tuple[Mapping[str, float], int] | None  # time-aware figures of the whole part, and how many questions


@dataclass(frozen=True)
class Said:
    """The answers of a run to a question."""

    rank: float
    truth: float  # the share of the true answer
    first: tuple[tuple[str, float], ...]  # the names with the largest shares


@dataclass(frozen=True)
class Example:
    """A question with its true answer, and the answers of each run."""

    question: str
    at: str
    answer: str
    said: tuple[Said, ...]


@dataclass(frozen=True)
class Explained:
    """Why a run gave its first answer to a question."""

    run: str
    question: str
    at: str
    answer: str
    share: float  # of the model itself, not calibrated
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, eq=False)
class Findings:
    """All data that a report shows."""

    dataset: str
    split: str
    clock: Clock
    total: int  # questions that the part has
    runs: Sequence[RunFindings]
    beside: Sequence[Ranked]  # counters
    rows: Sequence[Row]  # of runs and counters, the best first
    tested: tuple[str, str, Paired] | None  # the two models that were compared
    groups: Mapping[str, Tensor]  # (B,) bool: the questions of each group
    kinds: Mapping[str, str]  # kinds of probabilities, with descriptions
    pairs: int  # upper limit of the pairs whose chances are judged
    examples: Mapping[str, Sequence[Example]]  # by title
    reasons: Sequence[Explained]
    made: str  # the date of the report
    version: str

    @property
    def models(self) -> list[Ranked]:
        """The runs, then the counters."""
        return [*self.runs, *self.beside]

    @property
    def asked(self) -> int:
        """Questions that were ranked."""
        return self.runs[0].metrics.queries

    @property
    def sampled(self) -> bool:
        return self.asked < self.total


def on_host(metrics: Metrics) -> Metrics:
    """The same metrics, on the CPU."""
    return _with(metrics, lambda column: column.cpu())


def narrowed(metrics: Metrics, rows: Tensor) -> Metrics:
    """The metrics of some of the queries; ``rows`` is (B,) bool."""
    return _with(metrics, lambda column: column[rows])


def _with(metrics: Metrics, change: Any) -> Metrics:
    def changed(ranks: Ranks) -> Ranks:
        return Ranks(*(change(getattr(ranks, field.name)) for field in fields(Ranks)))

    columns = {name: change(getattr(metrics, name)) for name in ("s", "r", "answer", "t")}
    return replace(metrics, ranks={name: changed(ranks) for name, ranks in metrics.ranks.items()}, **columns)


def directions(metrics: Metrics) -> dict[str, Tensor]:
    """(B,) bool: the questions that ask for the object, and those that ask for the subject."""
    forward = metrics.r < metrics.num_relations
    return {"object": forward, "subject": ~forward}


def over_time(metrics: Metrics, filter_name: str, most: int = MOST_TIMES) -> dict[float, Summary]:
    """Metrics of each time; if there are more than ``most`` times, neighbours are merged under the first of them."""
    times = torch.unique(metrics.t)
    parts = np.array_split(times.numpy(), min(most, len(times)))
    first = torch.tensor([part[0] for part in parts], dtype=metrics.t.dtype)
    part = torch.searchsorted(first, metrics.t, right=True) - 1
    return replace(metrics, t=first[part]).by_time(filter_name)

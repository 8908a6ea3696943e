"""Evaluates models of other libraries, which only have to score (s, r, ?) at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from tangokg.errors import DataError, RunError, checked
from tangokg.forecast.forecaster import Forecaster
from tangokg.models import Model, NoSettings
from tangokg.quads.values import Dataset
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows
from tangokg.train import RunConfig, TrainSettings

Score = Callable[[Any, Any, Any], Any]


@dataclass(frozen=True, eq=False)
class Encoded:
    """The time of each window, and the sizes that scores must have."""

    t: Tensor  # (W,)
    num_entities: int
    num_relations: int


class Foreign(Model):
    """Scores from foreign functions of arrays. The functions may use any data: no law about the future is checked."""

    looks_back: ClassVar = False

    def __init__(self, score: Score, score_subjects: Score | None = None) -> None:
        super().__init__()
        self._score, self._score_subjects = score, score_subjects

    def encode(self, timeline: Timeline, windows: Windows) -> Encoded:
        return Encoded(windows.t, timeline.num_entities, timeline.num_relations)

    def score(self, encoded: Encoded, queries: Queries) -> Tensor:
        t = encoded.t.index_select(0, queries.window)
        if self._score_subjects is None:
            return _scores(self._score, queries.s, queries.r, t, encoded.num_entities)
        inverse, count = queries.r >= encoded.num_relations, encoded.num_relations
        scores = torch.empty(len(queries), encoded.num_entities, dtype=torch.float64)
        for rows, function, shift in ((~inverse, self._score, 0), (inverse, self._score_subjects, count)):
            if rows.any():
                columns = queries.s[rows], queries.r[rows] - shift, t[rows]
                scores[rows] = _scores(function, *columns, encoded.num_entities)
        return scores


def _scores(function: Score, s: Tensor, r: Tensor, t: Tensor, num_entities: int) -> Tensor:
    """The checked scores of a function: (B, N), in float64 so that distinct scores stay distinct."""
    result = function(s.numpy(), r.numpy(), t.numpy())
    scores = torch.as_tensor(result.detach().cpu() if isinstance(result, Tensor) else np.asarray(result)).double()
    if scores.shape != (len(s), num_entities):
        raise DataError(
            f"the foreign model gave scores of shape {tuple(scores.shape)}; expected {(len(s), num_entities)}: a row "
            f"for each question, a column for each entity of the data."
        )
    if scores.isnan().any():
        raise DataError("the foreign model gave NaN for a score: such a candidate has no rank.")
    return scores


class ForeignForecaster(Forecaster):
    """A forecaster of a foreign model, which lives as long as this process."""

    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Not possible: a run folder holds no code."""
        raise RunError(f"{self.config.model!r} is a foreign model, which has no run folder: save it with its library.")


@checked
def foreign(data: Dataset, score: Score, score_subjects: Score | None = None, *, name: str = "foreign") -> Forecaster:
    """A forecaster from any function ``score(s, r, t) -> (B, N)``, to evaluate and for :func:`tangokg.compare`.

    ``s`` and ``r`` (B,) are ids of ``data.vocab`` as numpy arrays, ``t`` (B,) the steps asked for; larger scores are
    likelier. Subjects are asked for by ``score_subjects(o, r, t)``; without it ``score`` is given the reciprocal
    relation r + R and the object in place of the subject. Both directions, filters and ties are ours. The function must
    not look at facts at or after ``t``.
    """
    return ForeignForecaster(Foreign(score, score_subjects), data, RunConfig(name, NoSettings(), TrainSettings()))

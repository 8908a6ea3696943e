"""The learning rate of a step, by the schedule of the settings."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tangokg.train.settings import TrainSettings

LEAST_RATE = 0.02  # of the learning rate, at the end of a cosine schedule


def learning_rate(settings: TrainSettings, epochs_done: float, log: Sequence[dict[str, float]]) -> float:
    """The rate after ``epochs_done``, fractions included; ``log`` has the epochs whose validation counts."""
    if settings.schedule == "cosine":
        return settings.learning_rate * _cosine(epochs_done / settings.epochs, settings.warmup)
    marks = [row["valid_mrr"] for row in log if "valid_mrr" in row]
    behind = sum(marks[i] <= max(marks[:i]) for i in range(max(1, settings.patience), len(marks)))
    return settings.learning_rate * settings.rate_decay**behind


def _cosine(done: float, warmup: float) -> float:
    """A linear rise over the share ``warmup`` of all steps, then half a cosine down."""
    if done < warmup:
        return done / warmup
    fall = (done - warmup) / (1 - warmup)
    return LEAST_RATE + (1 - LEAST_RATE) * (1 + math.cos(math.pi * fall)) / 2

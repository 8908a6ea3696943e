"""Validation by one or several processes."""

from __future__ import annotations

from tangokg.models import Model
from tangokg.rank import Exam, examine
from tangokg.train.processes import Group


def validate(model: Model, exam: Exam, group: Group) -> dict[str, float]:
    """Time-aware MRR and Hits; each process takes some windows, or ranks its own entities in all of them."""
    count, rank, size = len(exam.windows), group.rank, group.size
    if count < size or not group.divides_windows:
        return examine(model, exam)["time-aware"].to_dict()
    windows = slice(count * rank // size, count * (rank + 1) // size)
    metrics = examine(model, exam, among=windows)
    figures = metrics["time-aware"].to_dict()
    return {name: group.mean(value, metrics.queries) for name, value in figures.items()}

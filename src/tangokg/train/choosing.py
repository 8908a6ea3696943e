"""Models without parameters: nothing is learned, but values may be chosen on the validation part."""

from __future__ import annotations

import time

from tangokg.models import Model
from tangokg.rank import Exam, examine
from tangokg.train.checkpoint import Progress


def choose(model: Model, exam: Exam | None) -> tuple[Model, Progress]:
    """Let the model choose by its time-aware ranks in ``exam``; returns the model and the time taken."""
    began = time.monotonic()
    if exam is not None:
        model.choose(exam.queries.r, lambda: 1 / examine(model, exam).ranks["time-aware"].realistic)
    return model, Progress(seconds=time.monotonic() - began)

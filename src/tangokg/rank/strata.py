"""Queries grouped by what was known of their answer: the same fact, another fact of the same pair, or nothing."""

from __future__ import annotations

import torch
from torch import Tensor

from tangokg.history import meetings_of, occurrences_of
from tangokg.history.occurrences import Occurrences
from tangokg.rank.evaluate import Exam

STRATA = ("recurrent", "pair-only", "cold")


def strata(exam: Exam) -> dict[str, Tensor]:
    """(B,) bool for each stratum: (s, r, answer) is known, only another fact of s and answer is, or none of them."""
    q, known = exam.queries, exam.windows.known.index_select(0, exam.queries.window)
    typed, untyped = occurrences_of(exam.timeline), meetings_of(exam.timeline)
    fact = happened(typed, q.s * typed.num_labels + q.r, q.answer, known)
    pair = happened(untyped, q.s, q.answer, known)
    return dict(zip(STRATA, (fact, pair & ~fact, ~pair), strict=True))


def happened(occurrences: Occurrences, group: Tensor, o: Tensor, known: Tensor) -> Tensor:
    """(B,) bool: whether ``o`` occurs with ``group`` in the snapshots ``0 .. known - 1``."""
    n, last = occurrences.num_entities, len(occurrences.pair) - 1
    wanted = group * n + o
    fact = torch.searchsorted(occurrences.pair * n + occurrences.o, wanted).clamp(max=last)
    match = (occurrences.pair * n + occurrences.o).index_select(0, fact) == wanted
    first = occurrences.j.index_select(0, occurrences.first.index_select(0, fact))
    return match & (first < known)

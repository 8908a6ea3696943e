"""Strata of queries against sets of what was known."""

from __future__ import annotations

import torch

from conftest import make_timeline
from tangokg.rank import prepare
from tangokg.rank.strata import strata


def test_every_query_has_the_stratum_that_sets_of_earlier_facts_say() -> None:
    timeline = make_timeline(2)
    exam = prepare(timeline, torch.arange(1, len(timeline)))
    found = strata(exam)
    assert torch.stack(list(found.values())).sum(0).eq(1).all()
    q = exam.queries
    for i in range(len(exam)):
        edges = int(timeline.offset[int(exam.windows.known[q.window[i]])])
        known = set(zip(*(c[:edges].tolist() for c in (timeline.s, timeline.r, timeline.o)), strict=True))
        s, r, o = int(q.s[i]), int(q.r[i]), int(q.answer[i])
        name = "recurrent" if (s, r, o) in known else "pair-only" if (s, o) in {(a, c) for a, _, c in known} else "cold"
        assert found[name][i]
    assert all(mask.any() for mask in found.values())

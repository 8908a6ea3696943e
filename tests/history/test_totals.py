"""Totals of events that are added in any order say what a look at every event says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from conftest import N, R, make_timeline
from tangokg.history.activity import event_statistics
from tangokg.history.runs import starts_among
from tangokg.history.totals import EventTotals
from tangokg.snapshots.windows import Windows

GAP = 1.5


@pytest.mark.parametrize("starts", [False, True])
@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("order", ["by time", "late ones last", "all at once"])
def test_events_added_in_any_order_have_the_statistics_of_all(labelled: bool, order: str, starts: bool) -> None:
    timeline = make_timeline(7)
    t = timeline.t.long().numpy()[np.repeat(np.arange(len(timeline)), timeline.num_edges)]
    s, label, o = (column.numpy() for column in (timeline.s, timeline.r, timeline.o))
    edges: tuple[NDArray[Any], ...] = (s, t, label // R, label % R, o)
    edges = tuple(column[starts_among(edges, GAP)] for column in edges) if starts else edges
    rows = (
        np.arange(len(edges[0])) if order != "late ones last" else np.random.default_rng(0).permutation(len(edges[0]))
    )
    totals = EventTotals(labelled, GAP)
    for part in [rows] if order == "all at once" else np.array_split(rows, 9):
        totals = totals.add(tuple(column[part] for column in edges))
    entity = torch.arange(N).repeat_interleave(2 * R)
    asked = torch.arange(2 * R).repeat(N) if labelled else None
    end = Windows(torch.tensor([len(timeline)]), timeline.t[-1:] + 0.7)
    whole = event_statistics(timeline)(end, torch.zeros_like(entity), entity, asked, GAP, torch.float64, starts)
    found = totals.statistics(entity, asked, end.t.expand(len(entity)), R, torch.float64)
    assert torch.allclose(found, whole, rtol=0, atol=1e-12)
    assert (whole != 0).any()


def test_layers_stay_few() -> None:
    totals = EventTotals(False, GAP)
    for i in range(500):
        totals = totals.add(tuple(np.array([x]) for x in (i, i, 0, 0, 0)))
    assert len(totals.layers) <= 10
    assert sum(map(len, totals.layers)) == 500

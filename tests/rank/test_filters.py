"""True facts are found as a dictionary of sets finds them, now and at any time."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
import torch
from torch import Tensor

from tangokg.quads.clock import Clock
from tangokg.quads.values import Quadruples
from tangokg.quads.vocabulary import Vocabulary
from tangokg.rank.filters import FILTERS, true_facts
from tangokg.snapshots.timeline import build_timeline
from tangokg.snapshots.windows import Queries

N, R = 6, 2
TIMES = (0, 1, 3, 4, 8)  # irregular


def random_facts(count: int = 60, seed: int = 0) -> Quadruples:
    rng = np.random.default_rng(seed)
    s, r, o = (rng.integers(size, size=count) for size in (N, R, N))
    t = rng.choice(TIMES, size=count)
    return Quadruples(s, r, o, t, Vocabulary(tuple("abcdef"), ("likes", "meets")), Clock("step"))


def all_queries() -> tuple[Queries, Tensor]:
    """Every (s, r) at every time from -1 to 9, observed or not."""
    s, r, t = torch.cartesian_prod(torch.arange(N), torch.arange(2 * R), torch.arange(-1, 10)).unbind(1)
    return Queries(torch.zeros_like(s), s, r, torch.zeros_like(s)), t.double()


@pytest.mark.parametrize("name", FILTERS)
def test_filters_leave_out_what_a_dictionary_of_sets_does(name: str) -> None:
    facts = random_facts()
    now: dict[tuple[int, ...], set[int]] = defaultdict(set)
    ever: dict[tuple[int, ...], set[int]] = defaultdict(set)
    for s, r, o, t in zip(facts.s, facts.r, facts.o, facts.t, strict=True):
        for a, label, b in ((s, r, o), (o, r + R, s)):
            now[a, label, t].add(b)
            ever[a, label].add(b)
    timeline = build_timeline(facts)
    queries, t = all_queries()
    row, o = FILTERS[name](true_facts(timeline), queries, t).pairs()
    found: dict[int, list[int]] = defaultdict(list)
    for i, b in zip(row.tolist(), o.tolist(), strict=True):
        found[i].append(b)
    for i, (s, r, at) in enumerate(zip(queries.s.tolist(), queries.r.tolist(), t.tolist(), strict=True)):
        expected = {"raw": set(), "time-aware": now[s, r, at], "time-unaware": ever[s, r]}[name]
        assert sorted(found[i]) == sorted(expected)  # as lists: no object twice


@pytest.mark.parametrize("name", FILTERS)
def test_some_rows_have_the_pairs_that_they_have_among_all(name: str) -> None:
    queries, t = all_queries()
    left_out = FILTERS[name](true_facts(build_timeline(random_facts())), queries, t)
    row, o = left_out.pairs()
    for first, last in ((0, 0), (0, 7), (5, 6), (40, len(queries))):
        some = (row >= first) & (row < last)
        found = left_out.pairs(first, last)
        assert [column.tolist() for column in found] == [(row[some] - first).tolist(), o[some].tolist()]


def test_keys_of_a_large_set_do_not_overflow() -> None:
    """A million entities, a thousand relations: (s, r) alone passes 2**30, with a time 2**40."""
    n, labels, steps = 10**6, 10**3, 10**5
    last = np.array([n - 1]), np.array([labels - 1]), np.array([n - 2])
    s, r, o = (np.repeat(column, steps) for column in last)
    facts = Quadruples(s, r, o, np.arange(steps), Vocabulary(("a",), ("b",)), Clock("step"))
    true = true_facts(build_timeline(facts, n, labels))
    ask = torch.tensor([n - 1, n - 2]), torch.tensor([labels - 1, 2 * labels - 1])
    now = true.at(*ask, torch.tensor([steps - 1.0, steps - 1.0], dtype=torch.float64))
    assert [column.tolist() for column in now.pairs()] == [[0, 1], [n - 2, n - 1]]
    assert [column.tolist() for column in true.ever(*ask).pairs()] == [[0, 1], [n - 2, n - 1]]

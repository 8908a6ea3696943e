"""Features of a lasting fact: the age of its run, and what began since (docs/maths.md, row M60)."""

from __future__ import annotations

import torch
from torch import Tensor

from tangokg.history.activity import activity_of
from tangokg.history.occurrences import Past
from tangokg.history.partners import Partners
from tangokg.history.runs import find_runs
from tangokg.history.statistics import LOG_AGE, NUM_STATISTICS

AGES = (1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5, 12.5, 15.5, 20.5, 30.5, 60.5)  # bounds, in median gaps
NUM_RUN_FEATURES = 4 + len(AGES) + 1
NUM_BEGUN = 4  # roles in which something may have begun since
NUM_LASTING = NUM_RUN_FEATURES + NUM_BEGUN + NUM_STATISTICS
SAME_AGE = 1e-4  # of logarithms of ages


def run_features(partners: Partners, past: Past, gap: float, dtype: torch.dtype) -> Tensor:
    """(P, F) of facts (s, r, o) of queries: their runs, what began since, and the starts of o in its role."""
    queries, windows = partners.queries, partners.windows
    window, s, r = (column.index_select(0, past.row) for column in (queries.window, queries.s, queries.r))
    known, t = windows.known.index_select(0, window), windows.t.index_select(0, window)
    runs = partners.facts.derive(find_runs, gap)
    age = (t - runs.start.index_select(0, past.at)) / gap
    of_fact = describe_runs(age, runs.number.index_select(0, past.at), past.last == known - 1, dtype)
    starts = activity_of(partners, gap, dtype, starts=True)
    of_object = starts.events_with(window, past.o, partners.inverse(r))
    of_subject = starts.events_with(queries.window, queries.s, queries.r).index_select(0, past.row)
    ages = [of_subject[:, LOG_AGE], of_object[:, LOG_AGE]]
    ages += [starts.table[:, LOG_AGE].index_select(0, starts.place(window, entity)) for entity in (s, past.o)]
    begun = [(of_fact[:, 0] > last + SAME_AGE).to(dtype) for last in ages]
    return torch.cat([of_fact, torch.stack(begun, dim=1), of_object], dim=1)


def describe_runs(age: Tensor, number: Tensor, lasting: Tensor, dtype: torch.dtype) -> Tensor:
    """Features (P, F) of runs: their age (P,) in median gaps, as a number and in classes, and how many there were.

    ``lasting`` (P,) says whether the fact stood in the last known snapshot.
    """
    age, number = age.to(torch.promote_types(dtype, torch.float32)), number.to(age.dtype)
    bounds = age.new_tensor(AGES)
    classes = torch.nn.functional.one_hot(torch.bucketize(age, bounds), len(AGES) + 1)
    columns = [0.2 * torch.log(age.clamp(min=0.01)), 1 / (1 + age.clamp(min=0)), 0.3 * torch.log1p(number)]
    return torch.cat([torch.stack([*columns, lasting.to(age.dtype)], dim=1), classes.to(age.dtype)], dim=1).to(dtype)

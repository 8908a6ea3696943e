"""The one evaluator: any model, any protocol, every filter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from itertools import pairwise

import torch
from torch import Tensor

from tangokg.errors import DataError
from tangokg.models.protocol import Model
from tangokg.rank.filters import FILTERS, TrueFacts, true_facts
from tangokg.rank.metrics import Metrics
from tangokg.rank.protocols import SINGLE_STEP, Protocol
from tangokg.rank.ranks import Ranks, rank_answers
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows

CELLS = 2**22  # scores held at once; on a CPU 2**25 took twice the time, for memory fetched anew from the system


def evaluate(
    model: Model,
    timeline: Timeline,
    target: Tensor,
    protocol: Protocol = SINGLE_STEP,
    facts: TrueFacts | None = None,
    cells: int = CELLS,
    windows_at_once: int = 8,
    progress: Callable[[int, int], None] | None = None,
) -> Metrics:
    """Rank the answers of all queries that ``protocol`` asks at the ``target`` snapshots of ``timeline``.

    ``facts`` says what else is true (by default all of ``timeline``, which should then hold every part of the set).
    Model and timeline are on one device. ``cells`` bounds the scores held at once, ``progress`` hears of (queries
    done, all queries); neither these nor ``windows_at_once`` changes a result.
    """
    windows, queries = protocol.ask(timeline, target)
    if not len(queries):
        raise DataError(
            f"evaluation: the protocol asks no query at the {len(target)} target snapshots, expected at least one. "
            f"Give a part that has facts; for inductive queries, one with entities that training never saw."
        )
    by_relation = torch.argsort(queries.window * 2 * timeline.num_relations + queries.r, stable=True)
    queries = queries.select(by_relation)  # a decoder that works relation by relation meets few in a chunk
    facts = true_facts(timeline) if facts is None else facts
    t = windows.t.index_select(0, queries.window)
    rows = max(1, cells // timeline.num_entities)
    ranked: list[dict[str, Ranks]] = []
    done = 0
    with _answering(model):
        for some_windows, some_queries in _batches(windows, queries, windows_at_once):
            encoded = model.encode(timeline, some_windows)
            for start in range(0, len(some_queries), rows):
                chunk = some_queries.select(slice(start, start + rows))
                now = t[done : done + len(chunk)]
                left_out = {name: choose(facts, chunk, now) for name, choose in FILTERS.items()}
                ranked.append(rank_answers(model.score(encoded, chunk), chunk.answer, left_out))
                done += len(chunk)
                if progress is not None:
                    progress(done, len(queries))
    ranks = {name: _join([part[name] for part in ranked]) for name in FILTERS}
    return Metrics(ranks, queries.s, queries.r, queries.answer, t, timeline.num_relations)


@contextmanager
def _answering(model: Model) -> Iterator[None]:
    """The model in evaluation mode without gradients; its mode is given back whatever happens."""
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(training)


def _batches(windows: Windows, queries: Queries, size: int) -> Iterator[tuple[Windows, Queries]]:
    """``size`` windows at a time with their queries; a batch at which nothing is asked is left out."""
    first = torch.arange(0, len(windows) + size, size, device=windows.t.device)
    bounds = torch.searchsorted(queries.window, first).tolist()
    for i, (start, stop) in enumerate(pairwise(bounds)):
        if start < stop:
            of = slice(i * size, (i + 1) * size)
            asked = queries.select(slice(start, stop))
            yield Windows(windows.known[of], windows.t[of]), replace(asked, window=asked.window - i * size)


def _join(parts: list[Ranks]) -> Ranks:
    return Ranks(*(torch.cat([getattr(part, f.name) for part in parts]) for f in fields(Ranks)))

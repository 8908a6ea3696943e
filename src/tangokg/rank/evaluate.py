"""The one evaluator: any model, any protocol, every filter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from tangokg.errors import DataError
from tangokg.models.protocol import Model
from tangokg.models.sparse import SparseScores
from tangokg.quads.values import Ids
from tangokg.rank.candidates import Candidates, list_candidates
from tangokg.rank.filters import FILTERS, TrueFacts, true_facts
from tangokg.rank.listed import Listed
from tangokg.rank.metrics import Metrics
from tangokg.rank.protocols import SINGLE_STEP, Protocol, by_filter
from tangokg.rank.ranks import (
    Ranks,
    Rivals,
    count_divided_rivals,
    count_listed_rivals,
    count_rivals,
    count_sparse_rivals,
    ranks_of,
)
from tangokg.shards import WHOLE, Shard
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows

CELLS = 2**22  # scores held at once; on a CPU 2**25 took twice the time, because the system had to provide new memory
MOST_CELLS = 2**28  # on a GPU, 1 GiB: a quarter of them took 1.5 times as long, four times as many 0.94 times
CELL_BYTES = 64  # of free memory for each score: the copies that a model makes, the pairs of the filters, and room
SPARSE_CELLS = 2**26  # at least, where most scores are zero and only the others are held
WINDOWS = 8, 64  # encoded at once with few scores and with many
LISTS = 2**10  # looked through at once


@dataclass(frozen=True, eq=False)
class Exam:
    """The queries, the known snapshots, and what each filter leaves out: everything that depends on the data alone.

    Made once by :func:`prepare`, it serves any number of models, or one model after each epoch.
    """

    timeline: Timeline
    windows: Windows
    queries: Queries  # in the order of windows, then of relations
    t: Tensor  # (B,) time of each query
    border: Ids  # (W + 1,) on the host: the queries of all windows before
    left_out: Mapping[str, Listed]
    candidates: Listed | None = None  # those that alone are ranked; None: all entities
    report: Callable[[Mapping[str, Ranks], Tensor | None], Mapping[str, Ranks]] = by_filter  # of the protocol

    def __len__(self) -> int:
        return len(self.queries)

    def part(self, start: int, stop: int, windows: slice) -> Queries:
        """The queries ``start .. stop``, their windows counted from the first of ``windows``."""
        queries = self.queries.select(slice(start, stop))
        queries = replace(queries, window=queries.window - windows.start)
        sizes = np.diff(self.border[windows.start : windows.stop + 1].clip(start, stop))
        vars(queries)["sizes"] = sizes.tolist()  # known here: a model need not ask the device
        return queries

    def count(self, scores: Tensor | SparseScores, start: int, stop: int, shard: Shard = WHOLE) -> Rivals:
        """How the candidates of the queries ``start .. stop`` stand to their answers."""
        answer = self.queries.answer[start:stop]
        pairs = {name: excluded.pairs(start, stop) for name, excluded in self.left_out.items()}
        if not shard.whole:
            assert self.candidates is None, "training validates among all entities"
            assert isinstance(scores, Tensor)
            return count_divided_rivals(scores, answer, pairs, shard)
        if self.candidates is not None:
            listed = self.candidates.pairs(start, stop)
            return count_listed_rivals(scores, answer, pairs, listed)
        if isinstance(scores, SparseScores):
            return count_sparse_rivals(scores, answer, pairs)
        return count_rivals(scores, answer, pairs)

    def itself(self, start: int, stop: int) -> Tensor | None:
        """(B,) whether the answers of the queries ``start .. stop`` stand in the lists of candidates; None without."""
        if self.candidates is None or self.report is by_filter:
            return None
        stands = torch.zeros(stop - start, dtype=torch.bool, device=self.t.device)
        for first in range(start, stop, LISTS):
            last = min(first + LISTS, stop)
            row, o = self.candidates.pairs(first, last)
            stands[first - start + row[o == self.queries.answer[first:last].index_select(0, row)]] = True
        return stands


def prepare(
    timeline: Timeline,
    target: Tensor,
    protocol: Protocol = SINGLE_STEP,
    facts: TrueFacts | None = None,
    candidates: Candidates | None = None,
) -> Exam:
    """The queries that ``protocol`` asks at the ``target`` snapshots of ``timeline``, on its device.

    ``facts`` says what else is true (by default all of ``timeline``, which should then hold every part of the set).
    Each query is ranked among its own ``candidates`` and its true object; by default among all entities.
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
    border = torch.searchsorted(queries.window, torch.arange(len(windows) + 1, device=t.device)).cpu().numpy()
    left_out = {name: choose(facts, queries, t) for name, choose in FILTERS.items()}
    lists = None if candidates is None else list_candidates(candidates, queries, t, timeline.num_entities)
    return Exam(timeline, windows, queries, t, border, left_out, lists, protocol.report)


def evaluate(
    model: Model,
    timeline: Timeline,
    target: Tensor,
    protocol: Protocol = SINGLE_STEP,
    facts: TrueFacts | None = None,
    cells: int | None = None,
    windows_at_once: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    candidates: Candidates | None = None,
) -> Metrics:
    """Rank the answers of all queries that ``protocol`` asks at the ``target`` snapshots of ``timeline``.

    ``facts`` says what else is true (by default all of ``timeline``, which should then hold every part of the set).
    ``candidates`` gives each query a list of its own to rank among, such as :func:`candidate_lists`; by default all
    entities are ranked. Model and timeline are on one device. The rest is as in :func:`examine`.
    """
    return examine(model, prepare(timeline, target, protocol, facts, candidates), cells, windows_at_once, progress)


def examine(
    model: Model,
    exam: Exam,
    cells: int | None = None,
    windows_at_once: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    among: slice | None = None,
) -> Metrics:
    """Rank the answers of an exam that was prepared before, or those of the windows ``among`` them.

    ``cells`` bounds the scores held at once and ``windows_at_once`` the windows encoded together (None: by device and
    free memory; one where the model wants its windows alone), ``progress`` receives (queries done, all queries); none
    of them changes a result. Ranks are not read from the device before the end.
    """
    if cells is None:
        cells = max(fitting_cells(exam.t.device), SPARSE_CELLS if model.sparse else 0)
        cells = model.shard.least(cells)
    size = min(max(WINDOWS[0], cells // CELLS), WINDOWS[1]) if windows_at_once is None else windows_at_once
    size = 1 if model.one_by_one else size
    rows = max(1, cells // exam.timeline.num_entities)
    among = slice(0, len(exam.windows)) if among is None else among
    counted: list[Rivals] = []
    with answering(model):
        for first in range(among.start, among.stop, size):
            of = slice(first, min(first + size, among.stop))
            begin, end = int(exam.border[of.start]), int(exam.border[of.stop])
            if begin == end:
                continue
            encoded = model.encode(exam.timeline, exam.windows.select(of))
            for start in range(begin, end, rows):
                stop = min(start + rows, end)
                chunk = exam.part(start, stop, of)
                scores = model.score_sparsely(encoded, chunk) if model.sparse else model.score(encoded, chunk)
                counted.append(exam.count(scores, start, stop, model.shard))
                if progress is not None:
                    progress(stop, len(exam))
    span = slice(int(exam.border[among.start]), int(exam.border[among.stop]))
    queries, ranks = exam.queries.select(span), exam.report(ranks_of(counted), exam.itself(span.start, span.stop))
    return Metrics(ranks, queries.s, queries.r, queries.answer, exam.t[span], exam.timeline.num_relations)


def fitting_cells(device: torch.device) -> int:
    """How many scores to hold at once: few on a CPU, for its cache; many on a GPU, as far as its memory goes."""
    if device.type != "cuda":
        return CELLS
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    free = torch.cuda.mem_get_info(device)[0] + unused
    return min(max(CELLS, free // CELL_BYTES), MOST_CELLS)


@contextmanager
def answering(model: Model) -> Iterator[None]:
    """The model in evaluation mode without gradients; its previous mode is always restored."""
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(training)

"""Scores new facts before they are known: ranks, chances, and the calibration of shares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tangokg.forecast.answering import TIMES, Answering, AskedAt
from tangokg.forecast.chances import CANDIDATES
from tangokg.forecast.known import Known
from tangokg.history.index import HistoryIndex
from tangokg.quads.values import Floats, Ids, Quadruples
from tangokg.quads.vocabulary import Vocabulary
from tangokg.rank.ranks import rank_answers
from tangokg.serve.state import State
from tangokg.snapshots.windows import Queries

CELLS = 2**22  # scores held at once
BINS = 10  # of shares, equally wide
JUDGED = 500  # questions (s, r) of a post whose shares are judged

Bin = tuple[int, float, float, int]  # number, sum of what was said, how often it happened, count


@dataclass(frozen=True, eq=False)
class Scored:
    """Of the new facts whose names were known: rank of object and subject (time-aware), and the chance that was said.

    ``bins`` compares the shares of the first candidates of each (s, r), said if the pair has facts, with what came.
    """

    rows: Ids  # places among the new facts
    rank: list[float]
    rank_of_subject: list[float]
    chance: list[float]
    bins: list[Bin]


NOTHING = Scored(np.zeros(0, np.int64), [], [], [], [])


def score(state: State, new: Quadruples) -> Scored:
    """Rank each new fact at its time, from the facts before that time that were known before this post."""
    today = new.t == state.index.t[-1]
    first, second = (_score(state, known, new, r) for known, r in ((state.eve, today), (state.known, ~today)))
    columns = {f.name: [*getattr(first, f.name), *getattr(second, f.name)] for f in fields(Scored) if f.name != "rows"}
    return Scored(np.concatenate([first.rows, second.rows]), **columns)


def _score(state: State, known: Known, new: Quadruples, mask: NDArray[np.bool_]) -> Scored:
    vocab = known.index.vocab
    named = (np.maximum(new.s, new.o) < vocab.num_entities) & (new.r < vocab.num_relations)
    rows = np.flatnonzero(mask & named & (new.t > state.index.t[0]))
    if not len(rows):
        return NOTHING
    answering = state.answering_from(known)
    s, r, o, t = (column[rows] for column in (new.s, new.r, new.o, new.t))
    questions = QuestionBatch(
        np.concatenate([s, o]), np.concatenate([r, r + vocab.num_relations]), np.concatenate([o, s]), np.tile(t, 2)
    )
    number = len(rows)
    rank, share = np.zeros(2 * number), np.zeros(2 * number)
    true = _true_objects(state.index, questions, vocab)
    best_rows: list[int] = []
    best: list[tuple[Tensor, Tensor]] = []
    judged = set(questions.first_of_pairs(number)[:JUDGED].tolist())
    with torch.inference_mode():
        for batch, scores in _scores(known, questions):
            answer = torch.from_numpy(questions.o[batch])
            left_out = _pairs(questions, batch, true)
            ranks = rank_answers(scores.cpu(), answer, {"": left_out})
            rank[batch] = ranks[""].realistic.numpy()
            p = known.model.probabilities(scores).cpu().double()
            share[batch] = p.gather(1, answer[:, None])[:, 0].numpy()
            for place, row in enumerate(batch.tolist()):
                if row in judged:
                    top = torch.topk(p[place], min(CANDIDATES, p.shape[1]))
                    best_rows.append(row)
                    best.append((top.indices, top.values))
    objects, values = (torch.cat(list(part)).numpy() for part in zip(*best, strict=True))
    of = np.repeat(np.array(best_rows, np.int64), [len(batch) for batch, _ in best])
    facts = np.concatenate([np.arange(number), of]), np.concatenate([questions.o[:number], objects])
    shares, chance = _calibrated(answering, questions, *facts, np.concatenate([share[:number], values]))
    happened = np.array(
        [o in true[questions.key(row)] for row, o in zip(of.tolist(), objects.tolist(), strict=True)], float
    )
    bins = _bins(shares[number:].numpy(), happened)
    return Scored(rows, rank[:number].tolist(), rank[number:].tolist(), chance[:number].tolist(), bins)


@dataclass(frozen=True, eq=False)
class QuestionBatch:
    """Questions (s, label) at a step, with the true object."""

    s: Ids
    label: Ids
    o: Ids
    t: Ids

    def first_of_pairs(self, number: int) -> Ids:
        """The first of each distinct (s, r, t) among the first ``number``."""
        keys = np.stack([self.s[:number], self.label[:number], self.t[:number]])
        return np.unique(np.unique(keys, axis=1, return_index=True)[1])

    def key(self, row: int) -> tuple[int, int, int]:
        return int(self.s[row]), int(self.label[row]), int(self.t[row])


True_ = dict[tuple[int, int, int], set[int]]  # (s, label, t) -> all true objects


def _true_objects(index: HistoryIndex, questions: QuestionBatch, vocab: Vocabulary) -> True_:
    """All true objects at the same times, from the post and from known facts, limited to the entities of ``vocab``."""
    true: True_ = {}
    for row, o in enumerate(questions.o.tolist()):
        true.setdefault(questions.key(row), set()).add(o)
    count = vocab.num_relations
    for t in np.unique(questions.t).tolist():
        s, _, inverse, r, o = index.take(np.unique(questions.s[questions.t == t]), t, t + 1)
        label = r.astype(np.int64) + inverse.astype(np.int64) * count
        for a, b, c in zip(s.tolist(), label.tolist(), o.tolist(), strict=True):
            if (a, b, t) in true and c < vocab.num_entities:
                true[a, b, t].add(c)
    return true


def _pairs(questions: QuestionBatch, batch: Ids, true: True_) -> tuple[Tensor, Tensor]:
    pairs = [(place, o) for place, row in enumerate(batch.tolist()) for o in sorted(true[questions.key(row)])]
    rows, objects = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T
    return rows, objects


def _scores(known: Known, questions: QuestionBatch) -> Iterator[tuple[Ids, Tensor]]:
    """Rows and their scores (B, N), in order of time."""
    model = known.model.eval()
    times = np.unique(questions.t)
    batch_times = 1 if model.one_by_one else TIMES
    size = max(1, CELLS // known.num_entities)
    for first in range(0, len(times), batch_times):
        t = times[first : first + batch_times]
        inside = np.flatnonzero(np.isin(questions.t, t))
        windows = known.windows(torch.from_numpy(t.astype(np.float64)))
        encoded = known.encode(windows, torch.from_numpy(questions.s[inside]))
        for batch in np.split(inside, range(size, len(inside), size)):
            columns = (np.searchsorted(t, questions.t[batch]), questions.s[batch], questions.label[batch])
            window, s, r = (torch.from_numpy(column).to(known.device) for column in columns)
            yield batch, model.score(encoded, Queries(window, s, r, s))


def _calibrated(answering: Answering, questions: QuestionBatch, rows: Ids, o: Ids, p: Floats) -> tuple[Tensor, Tensor]:
    """Share and chance of some objects of the forward questions ``rows``."""
    t = torch.from_numpy(questions.t[rows].astype(np.float64))
    known = torch.searchsorted(answering.known.index.times, t)
    pair = torch.from_numpy(questions.s[rows] * answering.labels + questions.label[rows])
    when = AskedAt(known, t, t, False)
    share, chance, _ = answering.chances_of(pair, torch.from_numpy(o), when, torch.from_numpy(p))
    return share, chance


def _bins(shares: Floats, happened: Floats) -> list[Bin]:
    number = np.minimum((shares * BINS).astype(int), BINS - 1)
    return [
        (int(i), float(shares[number == i].sum()), float(happened[number == i].sum()), int((number == i).sum()))
        for i in np.unique(number)
    ]

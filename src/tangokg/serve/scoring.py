"""What was said of new facts before they were known: ranks, chances, and how far shares can be trusted."""

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
    """Ask for each new fact at its time, by what was known before this post of the steps before that time."""
    today = new.t == state.index.t[-1]
    first, second = (_score(state, known, new, r) for known, r in ((state.eve, today), (state.known, ~today)))
    columns = {f.name: [*getattr(first, f.name), *getattr(second, f.name)] for f in fields(Scored) if f.name != "rows"}
    return Scored(np.concatenate([first.rows, second.rows]), **columns)


def _score(state: State, known: Known, new: Quadruples, among: NDArray[np.bool_]) -> Scored:
    vocab = known.index.vocab
    named = (np.maximum(new.s, new.o) < vocab.num_entities) & (new.r < vocab.num_relations)
    rows = np.flatnonzero(among & named & (new.t > state.index.t[0]))
    if not len(rows):
        return NOTHING
    answering = state.answering_from(known)
    s, r, o, t = (column[rows] for column in (new.s, new.r, new.o, new.t))
    asked = Asked(
        np.concatenate([s, o]), np.concatenate([r, r + vocab.num_relations]), np.concatenate([o, s]), np.tile(t, 2)
    )
    number = len(rows)
    rank, share = np.zeros(2 * number), np.zeros(2 * number)
    true = _true_objects(state.index, asked, vocab)
    best_rows: list[int] = []
    best: list[tuple[Tensor, Tensor]] = []
    judged = set(asked.first_of_pairs(number)[:JUDGED].tolist())
    with torch.inference_mode():
        for some, scores in _scores(known, asked):
            answer = torch.from_numpy(asked.o[some])
            left_out = _pairs(asked, some, true)
            ranks = rank_answers(scores.cpu(), answer, {"": left_out})
            rank[some] = ranks[""].realistic.numpy()
            p = known.model.probabilities(scores).cpu().double()
            share[some] = p.gather(1, answer[:, None])[:, 0].numpy()
            for place, row in enumerate(some.tolist()):
                if row in judged:
                    top = torch.topk(p[place], min(CANDIDATES, p.shape[1]))
                    best_rows.append(row)
                    best.append((top.indices, top.values))
    objects, values = (torch.cat(list(part)).numpy() for part in zip(*best, strict=True))
    of = np.repeat(np.array(best_rows, np.int64), [len(some) for some, _ in best])
    facts = np.concatenate([np.arange(number), of]), np.concatenate([asked.o[:number], objects])
    said, chance = _calibrated(answering, asked, *facts, np.concatenate([share[:number], values]))
    happened = np.array(
        [o in true[asked.key(row)] for row, o in zip(of.tolist(), objects.tolist(), strict=True)], float
    )
    bins = _bins(said[number:].numpy(), happened)
    return Scored(rows, rank[:number].tolist(), rank[number:].tolist(), chance[:number].tolist(), bins)


@dataclass(frozen=True, eq=False)
class Asked:
    """Questions (s, label) at a step, and the object that came."""

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


def _true_objects(index: HistoryIndex, asked: Asked, vocab: Vocabulary) -> True_:
    """What is true at the same time: of the post, and of what was known, among the candidates of ``vocab``."""
    true: True_ = {}
    for row, o in enumerate(asked.o.tolist()):
        true.setdefault(asked.key(row), set()).add(o)
    count = vocab.num_relations
    for t in np.unique(asked.t).tolist():
        s, _, back, r, o = index.take(np.unique(asked.s[asked.t == t]), t, t + 1)
        label = r.astype(np.int64) + back.astype(np.int64) * count
        for a, b, c in zip(s.tolist(), label.tolist(), o.tolist(), strict=True):
            if (a, b, t) in true and c < vocab.num_entities:
                true[a, b, t].add(c)
    return true


def _pairs(asked: Asked, some: Ids, true: True_) -> tuple[Tensor, Tensor]:
    pairs = [(place, o) for place, row in enumerate(some.tolist()) for o in sorted(true[asked.key(row)])]
    rows, objects = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T
    return rows, objects


def _scores(known: Known, asked: Asked) -> Iterator[tuple[Ids, Tensor]]:
    """Rows and their scores (B, N), in order of time."""
    model = known.model.eval()
    times = np.unique(asked.t)
    most = 1 if model.one_by_one else TIMES
    size = max(1, CELLS // known.num_entities)
    for first in range(0, len(times), most):
        t = times[first : first + most]
        inside = np.flatnonzero(np.isin(asked.t, t))
        windows = known.windows(torch.from_numpy(t.astype(np.float64)))
        encoded = known.encode(windows, torch.from_numpy(asked.s[inside]))
        for some in np.split(inside, range(size, len(inside), size)):
            columns = (np.searchsorted(t, asked.t[some]), asked.s[some], asked.label[some])
            window, s, r = (torch.from_numpy(column).to(known.device) for column in columns)
            yield some, model.score(encoded, Queries(window, s, r, s))


def _calibrated(answering: Answering, asked: Asked, rows: Ids, o: Ids, p: Floats) -> tuple[Tensor, Tensor]:
    """Share and chance of some objects of the forward questions ``rows``."""
    t = torch.from_numpy(asked.t[rows].astype(np.float64))
    known = torch.searchsorted(answering.known.index.times, t)
    pair = torch.from_numpy(asked.s[rows] * answering.labels + asked.label[rows])
    when = AskedAt(known, t, t, False)
    share, chance, _ = answering.chances_of(pair, torch.from_numpy(o), when, torch.from_numpy(p))
    return share, chance


def _bins(said: Floats, happened: Floats) -> list[Bin]:
    number = np.minimum((said * BINS).astype(int), BINS - 1)
    return [
        (int(i), float(said[number == i].sum()), float(happened[number == i].sum()), int((number == i).sum()))
        for i in np.unique(number)
    ]

"""Questions in ids -> answers in ids: the model's order of candidates, and the chance of each fact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tangokg.errors import DataError
from tangokg.forecast.answers import Candidate, Forecast, describe
from tangokg.forecast.chances import CANDIDATES, Chances
from tangokg.forecast.known import Known
from tangokg.forecast.questions import Question
from tangokg.forecast.shares import best_shares, shares_of
from tangokg.history.evidence import seen_before
from tangokg.history.given import Candidates
from tangokg.history.hazard_queries import RECENT
from tangokg.history.series import recent_pairs
from tangokg.models import Model
from tangokg.quads.values import Floats, Ids
from tangokg.snapshots.windows import Queries

BATCH, TIMES = 256, 16  # questions scored at once, and the most distinct times among them
MOST_PAIRS = 4096  # pairs whose objects are considered for events: those with the largest chances of a fact


@dataclass(frozen=True, eq=False)
class AskedAt:
    """What is known of several facts, and the steps that they are asked for."""

    known: Tensor  # (M,) snapshots
    step: Tensor  # (M,) the first step that is not known to the model
    until: Tensor  # (M,) the last step asked about
    span: bool  # whether all steps until then are asked about


@dataclass(frozen=True, eq=False)
class Answering:
    """A model, the facts it knows, and the chances fitted for it."""

    model: Model
    known: Known
    chances: Chances

    @property
    def labels(self) -> int:
        return 2 * self.known.num_relations

    def answer(self, questions: list[Question], top: int) -> list[Forecast]:
        """Answer questions for a name in batches by time, whole events and single facts one by one."""
        if top < 1:
            raise DataError(f"top must be at least 1, found {top}.")
        forecasts: dict[int, Forecast] = {}
        named = [i for i, q in enumerate(questions) if q.asked not in ("fact", "event")]
        times = np.array([questions[i].step for i in named])
        self.model.eval()
        for batch in _batches(times, 1 if self.model.one_by_one else TIMES):
            for i, forecast in self._names([named[k] for k in batch.tolist()], questions, top):
                forecasts[i] = forecast
        for i, question in enumerate(questions):
            if question.asked == "fact":
                forecasts[i] = self._fact(question)
            elif question.asked == "event":
                forecasts[i] = self._events(question, top)
        return [forecasts[i] for i in range(len(questions))]

    # One name is asked for

    def _names(self, batch: list[int], questions: list[Question], top: int) -> Iterator[tuple[int, Forecast]]:
        batch_questions = [questions[i] for i in batch]
        t, window = np.unique([question.step for question in batch_questions], return_inverse=True)
        with torch.inference_mode():
            everyone = torch.tensor(
                [q.o if q.s is None else q.s for q in questions if q.asked not in ("fact", "event")]
            )
            encoded = self.known.encode(self.known.windows(torch.from_numpy(t)), everyone)  # sorted once for all
            shares = self._shares(encoded, batch_questions, window)
        best = []
        for question, p in zip(batch_questions, shares, strict=True):
            self._check_finite(p, question)
            best.append(torch.topk(p, min(top, len(p))))
        for kind in ("object", "relation", "subject"):
            of_kind = [k for k, question in enumerate(batch_questions) if question.asked == kind]
            if of_kind:
                values, ids = ([best[k][column].cpu() for k in of_kind] for column in (0, 1))
                named = self._named(kind, [batch_questions[k] for k in of_kind], ids, torch.cat(values).double())
                yield from zip((batch[k] for k in of_kind), named, strict=True)

    def _named(self, kind: str, questions: list[Question], ids: list[Tensor], p: Tensor) -> list[Forecast]:
        """Candidates of several questions of one kind with their chances; ``p`` is what the model gives to each."""
        sizes = torch.tensor([len(x) for x in ids])
        when, candidates = self._when(questions, sizes), torch.cat(ids)
        names = [[-1 if x is None else x for x in (q.s, q.r, q.o)] for q in questions]
        s, r, o = torch.tensor(names).repeat_interleave(sizes, 0).T
        happens: Tensor | None = None
        if kind == "object":
            o = candidates
            share, chance, happens = self.chances_of(s * self.labels + r, o, when, p)
        elif kind == "relation":
            r, share = candidates, p
            _, chance, _ = self.chances_of(s * self.labels + r, o, when)
        else:
            s = candidates
            share, _, happens = self.chances_of(o * self.labels + r + self.labels // 2, s, when, p)
            _, chance, _ = self.chances_of(s * self.labels + r, o, when)
        rows = torch.arange(len(candidates)).split(sizes.tolist())
        columns = [s, r, o, share, chance, *self._seen(s, r, o, when.step)]
        return [self._describe(q, columns, happens, k) for q, k in zip(questions, rows, strict=True)]

    def _when(self, questions: list[Question], sizes: Tensor) -> AskedAt:
        times = torch.tensor([[q.step, q.until] for q in questions], dtype=torch.float64)
        known = torch.searchsorted(self.known.index.times, times[:, 0].contiguous())
        rows = torch.arange(len(questions)).repeat_interleave(sizes)
        return AskedAt(known[rows], times[rows, 0], times[rows, 1], questions[0].span)

    def _shares(self, encoded: Any, questions: list[Question], window: Any) -> list[Tensor]:
        """The model's shares of all candidates, for each question."""
        count = self.known.num_relations
        shares: list[Tensor] = [torch.empty(0)] * len(questions)
        queries = [
            (i, int(window[i]), q.o if q.s is None else q.s, q.r + (count if q.s is None else 0))  # r + R: the subject
            for i, q in enumerate(questions)
            if q.r is not None
        ]
        if queries:
            rows, *columns = (list(column) for column in zip(*queries, strict=True))
            for i, p in zip(rows, self.model.probabilities(self._scores(encoded, *columns)), strict=True):
                shares[i] = p
        for i, question in enumerate(questions):
            if question.r is None:
                shares[i] = self._relation_shares(encoded, int(window[i]), question)
        return shares

    def _relation_shares(self, encoded: Any, window: int, question: Question) -> Tensor:
        r""":math:`p(r | s, o) \propto p(o | s, r) \, p(r | s)`, with p(r | s) counted in the history."""
        assert question.s is not None
        count, s = self.known.num_relations, torch.tensor([question.s])
        scores = self._scores(encoded, [window] * count, [question.s] * count, list(range(count)))
        likelihood = self.model.probabilities(scores)[:, question.o]  # (R,)
        timeline = self.known.history_of(s)
        known = int(timeline.offset[timeline.before(question.step)])  # edges before the step asked for, each once
        r = timeline.r[:known]
        everyone = torch.from_numpy(self.known.index.relations_before(question.step)) + 1.0
        counts = torch.bincount(r[(r < count) & (timeline.s[:known] == s)], minlength=count)
        prior = (counts + everyone / everyone.sum()).to(likelihood)
        product = likelihood.clamp(min=torch.finfo(likelihood.dtype).tiny) * prior
        return product / product.sum()

    def _scores(self, encoded: Any, window: Sequence[int], s: Sequence[int], r: Sequence[int]) -> Tensor:
        columns = (torch.tensor(column, device=self.known.device) for column in (window, s, r, r))
        return self.model.score(encoded, Queries(*columns))

    def _check_finite(self, p: Tensor, question: Question) -> None:
        if not p.isfinite().all():
            index = self.known.index
            at, last = (index.clock.format(t) for t in (question.t, float(index.usual.t.max())))
            raise DataError(
                f"time {at} lies too far beyond the last fact, {last}: the model's states overflow on the way. "
                f"Ask for an earlier time."
            )

    # Chances

    def chances_of(
        self, pair: Tensor, o: Tensor, when: AskedAt, p: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """``(share, chance, happens)`` of facts (M,); ``p`` is what the model gives to them."""
        if p is None:
            p = shares_of(self.model, self.known, pair, o, when.known, when.step)
        timeline = self.known.history_of_pairs(pair)
        key = torch.stack([pair.double(), when.step, when.until], dim=1)
        of = torch.unique(key, dim=0, return_inverse=True)[1] if len(pair) else pair
        size = int(of.max()) + 1 if len(of) else 0
        unique = torch.zeros(size, dtype=torch.int64).scatter_(0, of, torch.arange(len(of)))  # a row of each
        step = self.chances.pair(timeline, pair[unique], when.known[unique], when.step[unique])[of]
        facts = Candidates(pair, o, when.known, when.step, p, step)
        share = self.chances.share(timeline, facts)
        if not when.span:
            return share, step * share, step
        happens = self.chances.pair(timeline, pair[unique], when.known[unique], when.until[unique], span=True)[of]
        return share, torch.minimum(self.chances.by(timeline, facts, share, when.until), happens), happens

    def _fact(self, question: Question) -> Forecast:
        s, r, o = torch.tensor([[-1 if x is None else x] for x in (question.s, question.r, question.o)])
        when = self._when([question], torch.tensor([1]))
        share, chance, happens = self.chances_of(s * self.labels + r, o, when)
        return self._describe(question, [s, r, o, share, chance, *self._seen(s, r, o, when.step)], happens)

    # Two or three names are asked for

    def _events(self, question: Question, top: int) -> Forecast:
        """The likeliest facts of the recently active pairs; a single name may be subject or object."""
        labels, pair = self.labels, self._active_pairs(question)
        when = self._when([question], torch.tensor([len(pair)]))
        best = best_shares(self.model, self.known, pair, when.known, when.step, CANDIDATES)
        pair, o, p = pair.repeat_interleave(best.o.shape[1]), best.o.flatten(), best.share.flatten()
        s, r = pair // labels, pair % labels
        back = r >= labels // 2  # asked from the object's side
        s, r, o = torch.where(back, o, s), torch.where(back, r - labels // 2, r), torch.where(back, s, o)
        order = torch.argsort(back.long(), stable=True)  # a fact found from both sides is taken from the subject's
        key, of = torch.unique(((s * labels + r) * self.known.num_entities + o)[order], return_inverse=True)
        earliest = order[torch.full_like(key, len(of)).scatter_reduce(0, of, torch.arange(len(of)), "amin")]
        s, r, o, p, back = (column[earliest] for column in (s, r, o, p, back))
        when = self._when([question], torch.tensor([len(s)]))
        pair = s * labels + r
        p[back] = shares_of(self.model, self.known, pair[back], o[back], when.known[back], when.step[back])
        share, chance, _ = self.chances_of(pair, o, when, p)
        first = torch.argsort(chance, descending=True, stable=True)[:top]
        s, r, o, share, chance, step = (column[first] for column in (s, r, o, share, chance, when.step))
        return self._describe(question, [s, r, o, share, chance, *self._seen(s, r, o, step)])

    def _active_pairs(self, question: Question) -> Tensor:
        """The recently active pairs s * 2R + r that match the question, up to a limit."""
        index, recent = self.known.index, RECENT * self.chances.hazard.gap
        first, known = np.searchsorted(index.t, [question.step - recent, question.step])
        timeline = index.window(np.arange(first, known))
        at = torch.tensor([question.step], dtype=torch.float64)
        _, pair = recent_pairs(timeline, torch.tensor([known]), at, recent)
        s, r = pair // self.labels, pair % self.labels
        forward = r < self.labels // 2
        if question.s is not None:
            pair = pair[s == question.s]
        elif question.o is not None:
            pair = pair[~forward & (s == question.o)]
        else:
            pair = pair[forward if question.r is None else r == question.r]
        if len(pair) > MOST_PAIRS:
            when = self._when([question], torch.tensor([len(pair)]))
            history = self.known.history_of_pairs(pair)
            happens = self.chances.pair(history, pair, when.known, when.until, when.span)
            pair = pair[torch.argsort(happens, descending=True, stable=True)[:MOST_PAIRS]]
        return pair

    def _seen(self, s: Tensor, r: Tensor, o: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
        """How many times each fact (M,) occurred before its step, and its last moment."""
        count, moment = torch.zeros_like(s), torch.zeros_like(step)
        for t in torch.unique(step).tolist():
            rows = (step == t).nonzero()[:, 0]
            subjects, labels, objects = (column[rows].numpy() for column in (s, r, o))
            counts, moments = seen_before(self.known.index, subjects, labels, objects, t)
            count[rows], moment[rows] = torch.from_numpy(counts), torch.from_numpy(moments)
        return count, moment

    def _describe(
        self, question: Question, columns: list[Tensor], happens: Tensor | None = None, rows: Tensor | None = None
    ) -> Forecast:
        """``columns`` are those of :class:`Candidate`; ``rows`` says which of them, and of ``happens``, are answers."""
        columns = columns if rows is None else [column[rows] for column in columns]
        whole = None if happens is None else float(happens[0 if rows is None else rows[0]])
        candidates = [Candidate(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
        return describe(self.known.index, question, candidates, whole)


def _batches(times: Floats, most: int = TIMES) -> Iterator[Ids]:
    """Positions in order of time, at most ``BATCH`` questions and ``most`` distinct times together."""
    if not len(times):
        return
    order = np.argsort(times, kind="stable")
    fresh = np.diff(times[order], prepend=-np.inf) > 0
    group = (np.cumsum(fresh) - 1) // most  # of times
    for chunk in np.split(order, np.flatnonzero(np.diff(group)) + 1):
        yield from (chunk[i : i + BATCH] for i in range(0, len(chunk), BATCH))

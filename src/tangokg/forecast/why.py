"""Which earlier facts raised an answer: each is taken out of the history alone, and the model is asked again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tangokg.errors import ConfigError
from tangokg.forecast.answers import Answer, Forecast
from tangokg.forecast.questions import Question
from tangokg.forecast.reasons import Reason, Reasons
from tangokg.models import Model
from tangokg.quads.values import Quadruples, in_time_order
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import Queries, Windows

ANSWERS = 3  # whose reasons are given where nobody says how many
BETWEEN, OWN, PATHS = 20, 10, 5  # the last facts of both, of the subject, and the last paths of two between them
LEAST = 1e-4  # a fact that changes a share by less of it is none of its reasons

Fact = tuple[int, int, int, int]  # s, r, o, t


def number_of_answers(why: bool | int) -> int:
    """How many answers get reasons: ``True`` is the usual number."""
    if why < 0:
        raise ConfigError(f"why must not be negative, found {why}: it says how many answers get reasons.")
    return ANSWERS if why is True else int(why)


def explain(
    model: Model, facts: Quadruples, question: Question, forecast: Forecast, number: int, device: torch.device
) -> Forecast:
    """The forecast with reasons for its first answers."""
    first = forecast.answers[:number]
    found = Explaining(model, facts, question, device).reasons([*first])
    told = [replace(answer, reasons=one) for answer, one in zip(first, found, strict=True)]
    return replace(forecast, answers=(*told, *forecast.answers[number:]))


def considered(known: Quadruples, a: int, b: int) -> list[Fact]:
    """The facts that may speak for b as the answer of a; ``known`` are in the order of time.

    They are the last facts between the two in either direction, the last facts of a, and both facts of the last paths
    a - x - b, a path being as old as the older of its facts.
    """
    ends = (known.s == a) | (known.o == a), (known.s == b) | (known.o == b)
    between = ((known.s == a) & (known.o == b)) | ((known.s == b) & (known.o == a))
    rows = [np.flatnonzero(between)[-BETWEEN:], np.flatnonzero(ends[0])[-OWN:]]
    last = [_last_with(known, end, own) for end, own in zip((a, b), ends, strict=True)]
    common = [x for x in last[0].keys() & last[1].keys() if x not in (a, b)]
    common.sort(key=lambda x: min(last[0][x], last[1][x]), reverse=True)
    rows.append(np.array([side[x] for x in common[:PATHS] for side in last], dtype=np.int64))
    columns = (column[np.concatenate(rows)].tolist() for column in (known.s, known.r, known.o, known.t))
    return list(dict.fromkeys(zip(*columns, strict=True)))


def _last_with(known: Quadruples, end: int, own: NDArray[np.bool_]) -> dict[int, int]:
    """Entity -> the row of its last fact with ``end``; ``own`` are the facts of ``end``."""
    rows = np.flatnonzero(own)
    other = np.where(known.s[rows] == end, known.o[rows], known.s[rows])
    return dict(zip(other.tolist(), rows.tolist(), strict=True))  # the later replaces the earlier


def history_without(known: Quadruples, removed: Iterable[Fact] = ()) -> tuple[Timeline, int]:
    """The history as if some facts had never happened, and how many of its snapshots are known.

    All recomputation goes through here. Where no fact is left, nothing is known of the whole history.
    """
    gone = np.zeros(len(known), dtype=bool)
    for fact in removed:
        gone |= _rows_of(known, fact)
    timeline = build_timeline(known if gone.all() or not gone.any() else known.select(~gone))
    return timeline, 0 if gone.all() else len(timeline)


def _rows_of(known: Quadruples, fact: Fact) -> NDArray[np.bool_]:
    s, r, o, t = fact
    rows: NDArray[np.bool_] = (known.s == s) & (known.r == r) & (known.o == o) & (known.t == t)
    return rows


@dataclass(frozen=True, eq=False)
class Explaining:
    """A model, what it may know, and the question whose answers are explained."""

    model: Model
    facts: Quadruples
    question: Question
    device: torch.device

    def reasons(self, answers: list[Answer]) -> list[Reasons]:
        """Of each answer; what is computed without a fact is computed once for all of them."""
        known = in_time_order(self.facts.before(self.question.step))
        asked = [self._asked(answer) for answer in answers]
        queries = torch.tensor(asked).reshape(-1, 3)
        whole = history_without(known)
        share = self.shares(whole, queries).tolist()
        if not self.model.looks_back:
            note = "the model does not look at earlier facts; it answers from its weights"
            return [self._put(answer, p, [], p, note) for answer, p in zip(answers, share, strict=True)]
        facts = [considered(known, a, b) for a, _, b in asked]
        left: dict[Fact, dict[int, float]] = {}  # fact -> answer -> the share without it
        for fact in dict.fromkeys(fact for own in facts for fact in own):
            rows = [i for i, own in enumerate(facts) if fact in own]
            found = self.shares(history_without(known, [fact]), queries[rows]).tolist()
            left[fact] = dict(zip(rows, found, strict=True))
        told = []
        for i, answer in enumerate(answers):
            raising = {fact: left[fact][i] for fact in facts[i] if share[i] - left[fact][i] > LEAST * share[i]}
            rest = share[i]
            if raising:
                rest = float(self.shares(history_without(known, raising), queries[i : i + 1])[0])
            exact = self.terms(whole, queries[i]) if raising else {}
            told.append(self._tell(known, answer, share[i], raising, rest, exact))
        return told

    def _asked(self, answer: Answer) -> tuple[int, int, int]:
        """The query (s, label) whose object the answer is; an asked subject is the object of the reciprocal query."""
        vocab = self.facts.vocab
        s, r, o = vocab.entity_id(answer.subject), vocab.relation_id(answer.relation), vocab.entity_id(answer.object)
        return (o, r + vocab.num_relations, s) if self.question.asked == "subject" else (s, r, o)

    def shares(self, history: tuple[Timeline, int], asked: Tensor) -> Tensor:
        """(M,) what the model gives to each (s, label, o) among all objects, from this history."""
        s, r, o = asked.to(self.device).T
        with torch.inference_mode():
            encoded = self._encode(*history)
            p = self.model.probabilities(self.model.score(encoded, Queries(torch.zeros_like(s), s, r, s)))
        return p.gather(1, o[:, None])[:, 0].double().cpu()

    def terms(self, history: tuple[Timeline, int], asked: Tensor) -> dict[Fact, float]:
        """What each fact adds to the score of one (s, label, o), where the model says so."""
        timeline, (s, r, o) = history[0].to(self.device), asked.to(self.device)[:, None]
        with torch.inference_mode():
            found = self.model.terms(self._encode(timeline, history[1]), Queries(torch.zeros_like(s), s, r, s))
        if found is None:
            return {}
        own = found.edge[found.o == o]
        back, count = timeline.r[own] >= timeline.num_relations, timeline.num_relations
        ends = torch.where(back, timeline.o[own], timeline.s[own]), torch.where(back, timeline.s[own], timeline.o[own])
        step = timeline.t[torch.searchsorted(timeline.offset, own, right=True) - 1]
        columns = [ends[0], timeline.r[own] % count, ends[1], step.long()]
        facts = zip(*(column.tolist() for column in columns), strict=True)
        return dict(zip(facts, found.value[found.o == o].tolist(), strict=True))

    def _encode(self, timeline: Timeline, known: int) -> object:
        step = torch.tensor([self.question.step], dtype=torch.float64, device=self.device)
        windows = Windows(torch.tensor([known], device=self.device), step)
        return self.model.encode(timeline.to(self.device), windows)

    def _tell(
        self,
        known: Quadruples,
        answer: Answer,
        share: float,
        raising: dict[Fact, float],
        rest: float,
        exact: dict[Fact, float],
    ) -> Reasons:
        """Drops as shares, and ids as names; facts that lower the answer when they go together raise nothing."""
        if not raising or rest >= share:
            return self._put(answer, share, [], share, "no earlier fact alone raised it")
        explained, total = 1 - rest / share, sum(share - left for left in raising.values())
        vocab, clock = known.vocab, known.clock
        found = []
        for (s, r, o, t), left in sorted(raising.items(), key=lambda one: one[1]):
            moment = float(known.moments[_rows_of(known, (s, r, o, t))].max())
            names = vocab.entities[s], vocab.relations[r], vocab.entities[o], clock.format(moment)
            part = explained * (share - left) / total
            found.append(Reason(*names, self.question.until - t, part, left, exact.get((s, r, o, t))))
        return self._put(answer, share, found, rest)

    def _put(self, answer: Answer, share: float, found: list[Reason], rest: float, note: str = "") -> Reasons:
        names = answer.subject, answer.relation, answer.object
        part = rest / share if share else 1.0
        return Reasons(*names, share, tuple(found), part, rest, self.facts.clock.unit, note)

"""The earlier facts that raised an answer, found by asking the model without each of them (docs/maths.md, row M58)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from tangokg.errors import ConfigError
from tangokg.forecast.answers import Answer, Forecast
from tangokg.forecast.questions import Question
from tangokg.forecast.reasons import Reason, Reasons
from tangokg.forecast.removing import AllEvents, Fact, History, considered, history_without, rows_of, within_sight
from tangokg.history.activity import event_statistics
from tangokg.models import Model
from tangokg.quads.values import Quadruples, in_time_order
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows

ANSWERS = 3  # that get reasons by default
WORTH = 0.5  # of all facts: a smaller part is worth a look of its own
EQUAL = 1e-4  # of the share of each candidate: how near it must come to that from all facts
NONE = "no earlier fact alone raised it"
LEAST = 1e-4  # a fact that changes a share by a smaller part of it is not a reason


def number_of_answers(why: bool | int) -> int:
    """How many answers get reasons: ``True`` is the usual number."""
    if why < 0:
        raise ConfigError(f"why must not be negative, found {why}: it says how many answers get reasons.")
    return ANSWERS if why is True else int(why)


def explain(
    model: Model, facts: Quadruples, timeline: Timeline, question: Question, forecast: Forecast, number: int
) -> Forecast:
    """The forecast with reasons for its first answers; ``timeline`` has the facts, on the device of the model."""
    first = forecast.answers[:number]
    if not first:
        return forecast
    all_reasons = Explaining(model, facts, timeline, question).reasons(first)
    explained = [replace(answer, reasons=reasons) for answer, reasons in zip(first, all_reasons, strict=True)]
    return replace(forecast, answers=(*explained, *forecast.answers[number:]))


@dataclass(frozen=True, eq=False)
class Explaining:
    """A model, the facts it may know, and the question whose answers are explained."""

    model: Model
    facts: Quadruples
    timeline: Timeline
    question: Question

    def reasons(self, answers: Sequence[Answer]) -> list[Reasons]:
        """The reasons for each answer; the shares without a fact are computed once for all answers."""
        triples = [self._query_of(answer) for answer in answers]
        queries = torch.tensor(triples, device=self.timeline.t.device)  # (M, 3)
        whole = self.timeline, self.timeline.before(self.question.step)
        p = self.shares(whole, queries)
        if not self.model.looks_back:
            share = self._of(p, queries)
            note = "the model does not look at earlier facts; it answers from its weights"
            return [self._put(answer, value, [], value, note) for answer, value in zip(answers, share, strict=True)]
        known = in_time_order(self.facts.before(self.question.step))
        facts = [considered(known, a, b) for a, _, b in triples]
        known, p = self._near(known, facts, queries, p)
        share, without_each = self._of(p, queries), self._left(known, facts, queries)
        explained = []
        for i, answer in enumerate(answers):
            least = LEAST * share[i]
            raising = {fact: without for fact, without in without_each[i].items() if share[i] - without > least}
            if not raising:
                explained.append(self._put(answer, share[i], [], share[i], NONE))
                continue
            query = queries[i : i + 1]
            (rest,) = self._of(self.shares(self._without(known, raising), query), query)
            explained.append(self._tell(known, answer, share[i], raising, rest, self.terms(whole, queries[i])))
        return explained

    def _near(
        self, known: Quadruples, facts: list[list[Fact]], queries: Tensor, p: Tensor
    ) -> tuple[Quadruples, Tensor]:
        """The facts within sight, if they give every candidate the same share: then the model uses nothing else."""
        considered_facts = [fact for group in facts for fact in group]
        history = getattr(getattr(self.model, "settings", None), "history", 0)
        seen = getattr(self.model, "seen", torch.ones(known.vocab.num_entities, dtype=torch.bool)).cpu().numpy()
        visible = within_sight(known, queries[:, 0].tolist(), considered_facts, history, seen)
        if len(visible) > WORTH * len(known):
            return known, p
        local = self.shares(self._without(visible), queries)
        least = torch.finfo(p.dtype).tiny  # below which shares are 0
        return (visible, local) if torch.allclose(local, p, rtol=EQUAL, atol=least) else (known, p)

    def _left(self, known: Quadruples, facts: list[list[Fact]], queries: Tensor) -> list[dict[Fact, float]]:
        """For each answer: fact -> the share without it."""
        left: list[dict[Fact, float]] = [{} for _ in facts]
        for fact in dict.fromkeys(fact for group in facts for fact in group):
            if rows_of(known, fact).any():  # else it is out of sight
                rows = [i for i, group in enumerate(facts) if fact in group]
                shares = self._of(self.shares(self._without(known, [fact]), queries[rows]), queries[rows])
                for i, without in zip(rows, shares, strict=True):
                    left[i][fact] = without
        return left

    def _without(self, known: Quadruples, removed: Iterable[Fact] = ()) -> History:
        timeline, number = history_without(known, removed)
        if self._events is not None:
            timeline.give(event_statistics, self._events.without(removed))
        return timeline.to(self.timeline.t.device), number

    @cached_property
    def _events(self) -> AllEvents | None:
        """The activity of all entities, if the model uses it; the facts within sight do not tell it."""
        sight = self.model.sight()
        if sight is None or not sight.totals:
            return None
        return AllEvents.of(self.timeline, self.timeline.before(self.question.step))

    def _query_of(self, answer: Answer) -> tuple[int, int, int]:
        """The query (s, label) whose object the answer is; an asked subject is the object of the reciprocal query."""
        vocab = self.facts.vocab
        s, r, o = vocab.entity_id(answer.subject), vocab.relation_id(answer.relation), vocab.entity_id(answer.object)
        return (o, r + vocab.num_relations, s) if self.question.asked == "subject" else (s, r, o)

    def shares(self, history: History, queries: Tensor) -> Tensor:
        """The model's shares of all objects (M, N) for each (s, label, o), from this history."""
        s, r, _ = queries.T
        with torch.inference_mode():
            return self.model.probabilities(
                self.model.score(self._encode(history), Queries(torch.zeros_like(s), s, r, s))
            )

    @staticmethod
    def _of(p: Tensor, queries: Tensor) -> list[float]:
        """The shares of the answers alone."""
        return [float(share) for share in p.gather(1, queries[:, 2:])[:, 0].double()]

    def terms(self, history: History, query: Tensor) -> dict[Fact, float]:
        """What each fact adds to the score of one (s, label, o), if the model can tell."""
        timeline, (s, r, o) = history[0], query[:, None]
        with torch.inference_mode():
            terms = self.model.terms(self._encode(history), Queries(torch.zeros_like(s), s, r, s))
        if terms is None:
            return {}
        mask = terms.o == o
        edge = terms.edge[mask]
        label, ends = timeline.r[edge], (timeline.s[edge], timeline.o[edge])
        back = label >= timeline.num_relations
        s, o = torch.where(back, ends[1], ends[0]), torch.where(back, ends[0], ends[1])
        step = timeline.t[torch.searchsorted(timeline.offset, edge, right=True) - 1].long()
        facts = zip(*(column.tolist() for column in (s, label % timeline.num_relations, o, step)), strict=True)
        return dict(zip(facts, terms.value[mask].tolist(), strict=True))

    def _encode(self, history: History) -> object:
        timeline, known = history
        step = torch.tensor([self.question.step], dtype=torch.float64, device=timeline.t.device)
        return self.model.encode(timeline, Windows(torch.tensor([known], device=timeline.t.device), step))

    def _tell(
        self,
        known: Quadruples,
        answer: Answer,
        share: float,
        raising: dict[Fact, float],
        rest: float,
        exact: dict[Fact, float],
    ) -> Reasons:
        """Reasons with names, drops as shares; none if the facts together lower the answer."""
        if rest >= share:
            return self._put(answer, share, [], share, NONE)
        explained, total = 1 - rest / share, sum(share - left for left in raising.values())
        vocab, clock = known.vocab, known.clock
        facts = []
        for (s, r, o, t), left in sorted(raising.items(), key=lambda item: item[1]):
            moment = float(known.moments[rows_of(known, (s, r, o, t))].max())
            names = vocab.entities[s], vocab.relations[r], vocab.entities[o], clock.format(moment)
            part = explained * (share - left) / total
            facts.append(Reason(*names, self.question.until - t, part, left, exact.get((s, r, o, t))))
        return self._put(answer, share, facts, rest)

    def _put(self, answer: Answer, share: float, facts: list[Reason], rest: float, note: str = "") -> Reasons:
        names = answer.subject, answer.relation, answer.object
        part = rest / share if share else 1.0
        return Reasons(*names, share, tuple(facts), part, rest, self.facts.clock.unit, note)

"""Answers: names with chances, and the earlier facts that support them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tangokg.errors import harmless_line
from tangokg.forecast.questions import UNKNOWN, Question
from tangokg.forecast.reasons import Reasons
from tangokg.history.index import HistoryIndex
from tangokg.showing import Share, bar, html_folded, html_table, html_text, make_table, to_frame

if TYPE_CHECKING:
    from rich.console import Group


@dataclass(frozen=True)
class Answer:
    """One candidate as a whole fact, two probabilities, and how often and when the fact was seen before.

    ``share`` holds *if* the question has an answer at all: for an asked object, if (subject, relation) has a fact then.
    ``chance`` is that of the fact itself: in the step asked about, or at least once until its end.
    """

    name: str  # what was asked for
    share: float
    chance: float
    seen: int
    last: str | None
    subject: str
    relation: str
    object: str
    reasons: Reasons | None = None  # the earlier facts that raised it, where they were asked for

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        plain = {key: value for key, value in vars(self).items() if key != "reasons"}
        return plain if self.reasons is None else plain | {"reasons": self.reasons.to_dict()}


@dataclass(frozen=True)
class Forecast:
    """The answers to one question: candidates in the order of the model, events by their chance."""

    subject: str
    relation: str
    object: str
    at: str
    asked: str  # which of the three the answers are for; "event", or "fact" for yes and no
    answers: tuple[Answer, ...]
    by: bool = False  # whether ``at`` ends a span
    happens: float | None = None  # the chance that the question has an answer: see Answer.share

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        question: dict[str, Any] = {"subject": self.subject, "relation": self.relation, "object": self.object}
        question |= {"at": self.at}
        question |= {"by": self.by, "asked": self.asked, "happens": self.happens}
        return question | {"answers": [answer.to_dict() for answer in self.answers]}

    @property
    def title(self) -> str:
        """The question as a sentence; for yes or no, its answer."""
        if self.asked == "fact":
            when = f"at least once by {self.at}" if self.by else f"at {self.at}"
            chance = self.answers[0].chance
            return f"chance that {self.subject} {self.relation} {self.object} happens {when}: {chance:.1%}"
        return f"({self.subject}, {self.relation}, {self.object}) {'by' if self.by else 'at'} {self.at}"

    def __str__(self) -> str:
        lines = [self.title]
        if self.happens is not None:
            lines.append(f"     {self.happens:6.1%}  {self.condition} has a fact")
        for place, answer in enumerate(self.answers, 1):
            chances = f"chance {answer.chance:6.1%}  share {answer.share:6.1%}"
            lines.append(f"{place:3d}. {chances}  {answer.name}  ({evidence(answer)})")
            lines += [f"     {line}" for line in (answer.reasons.sentences() if answer.reasons else ())]
        return "\n".join(map(harmless_line, lines))

    def to_pandas(self) -> Any:
        """The answers as a pandas DataFrame, the likeliest first; ``df.attrs`` has the question."""
        plain = self.to_dict()
        frame = to_frame(self._rows())
        frame.attrs = {key: value for key, value in plain.items() if key != "answers"}
        return frame

    def _repr_html_(self) -> str:
        rows = [[answer.name, Share(answer.chance), Share(answer.share), evidence(answer)] for answer in self.answers]
        whole = html_table(self.title, (self.asked, "chance", "share", "before"), rows, last=True)
        if self.happens is not None:
            whole += f"<p>{html_text(self.condition)} has a fact: {self.happens:.1%}</p>"
        explained = (answer.reasons for answer in self.answers if answer.reasons is not None)
        return whole + "".join(html_folded(reasons.title, reasons._repr_html_()) for reasons in explained)

    def table(self, happened: frozenset[str] | None = None) -> Group:
        """The answers with bars, for a console; with ``happened``, the names that turned out true are ticked."""
        rows = []
        for place, answer in enumerate(self.answers, 1):
            name = f"{answer.subject}, {answer.relation}, {answer.object}" if self.asked == "fact" else answer.name
            chance = f"{answer.chance:6.1%}", bar(answer.chance, 10)
            row = [f"{place}", name, *chance, f"{answer.share:6.1%}", evidence(answer)]
            rows.append(row if happened is None else [*row, "yes" if answer.name in happened else ""])
        columns = ("", self.asked, "chance", "", "share", "before", *(["happened"] if happened is not None else []))
        title = [self.title]
        if self.happens is not None:
            title.append(f"{self.condition} has any fact {'by' if self.by else 'at'} {self.at}: {self.happens:.1%}")
        return make_table(title, columns, rows, left=7)

    def _rows(self) -> list[dict[str, Any]]:
        """A row for each answer, with the chance of any answer if known; reasons go into another table."""
        happens = {} if self.happens is None else {"happens": self.happens}
        plain = (answer.to_dict() for answer in self.answers)
        return [{key: value for key, value in row.items() if key != "reasons"} | happens for row in plain]

    @property
    def condition(self) -> str:
        """What has a fact with the chance ``happens``."""
        o = UNKNOWN if self.asked in ("fact", "object") else self.object
        return f"({self.subject}, {self.relation}, {o})"


def evidence(answer: Answer) -> str:
    """How often and when the fact of an answer was seen, in words."""
    often = "once" if answer.seen == 1 else f"{answer.seen} times"
    return f"seen {often}, last {answer.last}" if answer.seen else "never seen before"


@dataclass(frozen=True)
class Candidate:
    """An answer in numbers."""

    s: int
    r: int
    o: int
    share: float
    chance: float
    count: int  # of the times before the question at which the fact stood
    moment: float  # the last of them


def describe(history: HistoryIndex, question: Question, candidates: list[Candidate], happens: float | None) -> Forecast:
    """Ids and chances -> names, with what is known of each before the time asked for."""
    vocab, clock = history.vocab, history.clock
    answers = []
    for candidate in candidates:
        last = clock.format(candidate.moment) if candidate.count else None
        names = vocab.entities[candidate.s], vocab.relations[candidate.r], vocab.entities[candidate.o]
        by_kind = dict(zip(("subject", "relation", "object", "fact"), (*names, names[2]), strict=True))
        name = by_kind.get(question.asked, ", ".join(names))
        answers.append(Answer(name, candidate.share, candidate.chance, candidate.count, last, *names))
    return Forecast(
        UNKNOWN if question.s is None else vocab.entities[question.s],
        UNKNOWN if question.r is None else vocab.relations[question.r],
        UNKNOWN if question.o is None else vocab.entities[question.o],
        clock.format(question.t),
        question.asked,
        tuple(answers),
        question.span,
        happens,
    )

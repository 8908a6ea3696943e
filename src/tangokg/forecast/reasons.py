"""Reasons for an answer: the earlier facts that raised it, as data and in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tangokg.errors import harmless_line
from tangokg.showing import counted, html_table, to_frame

SHOWN, WEAK = 8, 0.005  # facts with a line of their own at most, and the least share of one; data has all
REST = "everything else: other facts and the model's weights"


@dataclass(frozen=True)
class Reason:
    """An earlier fact, and what the model would have said without it."""

    subject: str
    relation: str
    object: str
    time: str
    before: float  # steps of the clock from the fact to the step asked about
    share: float  # of the answer's share, what is put down to this fact; see Reasons
    without: float  # the model's share of the answer without this fact alone
    adds: float | None = None  # to the log-intensity of the pair, exactly; None where the model has no such sum


@dataclass(frozen=True)
class Reasons:
    """The facts that raised an answer, the strongest first.

    ``model_share`` is what the model gives to the answer among all candidates, before calibration. A fact's ``drop``
    is that share less the share that is left when this fact alone never happened (docs/reasons.md). The part of
    ``model_share`` that goes when all listed facts are taken away is split among them by their drops; what stays is
    ``rest``. So all shares and ``rest`` add up to 1.
    """

    subject: str
    relation: str
    object: str
    model_share: float
    facts: tuple[Reason, ...]
    rest: float  # of ``model_share``, what the listed facts do not explain
    without: float  # the model's share without all of them
    unit: str  # of ``before``
    note: str = ""  # why there are no facts

    def sentences(self) -> list[str]:
        """One line for each of the strongest facts, and one for the rest."""
        lines = [f"{fact}, {time}: {share}" if time else f"{fact}: {share}" for share, fact, time, _ in self.rows()]
        return list(map(harmless_line, lines))

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self) | {"facts": [asdict(reason) for reason in self.facts]}

    def to_pandas(self) -> Any:
        """The facts as a pandas DataFrame, the strongest first; ``df.attrs`` has the answer and the rest."""
        plain = self.to_dict()
        frame = to_frame({name: [row[name] for row in plain["facts"]] for name in Reason.__dataclass_fields__})
        frame.attrs = {key: value for key, value in plain.items() if key != "facts"}
        return frame

    def rows(self) -> list[list[str]]:
        """Cells for a table: share, fact, when, the model's share without it; weak facts share a row."""
        strong = sum(reason.share >= WEAK for reason in self.facts[:SHOWN])  # the strongest come first
        first, weak = self.facts[:strong], self.facts[strong:]
        cells = [[f"{x.share:.0%}", fact_of(x), when(x, self.unit), f"{x.without:.1%}"] for x in first]
        if weak:
            cells.append([f"{sum(x.share for x in weak):.0%}", counted(len(weak), "weaker fact"), "", ""])
        return [*cells, [f"{self.rest:.0%}", self.note or REST, "", f"{self.without:.1%}"]]

    @property
    def title(self) -> str:
        fact = f"({self.subject}, {self.relation}, {self.object})"
        return f"Why {fact}: the model's own share, not calibrated, is {self.model_share:.1%}"

    def _repr_html_(self) -> str:
        return html_table(self.title, HEADINGS, self.rows(), left=3)


HEADINGS = ("of it", "earlier fact", "when", "without")


def fact_of(reason: Reason) -> str:
    """``France visits Germany``."""
    return f"{reason.subject} {reason.relation} {reason.object}"


def when(reason: Reason, unit: str) -> str:
    """``2014-11-20 (3 days before)``."""
    return f"{reason.time} ({reason.before:,.4g} {unit}{'' if reason.before == 1 else 's'} before)"

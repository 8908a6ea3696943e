"""The state of the service at one position of its journal; it is replaced as a whole, never changed."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

from tangokg.errors import UnknownName
from tangokg.forecast import Forecaster
from tangokg.forecast.answering import Answering
from tangokg.forecast.horizon import measured_horizon, measured_times
from tangokg.forecast.known import Known
from tangokg.history.index import HistoryIndex, build_index
from tangokg.quads.clock import Clock
from tangokg.quads.values import Ids, Quadruples, concatenate

Time = str | int | float


@dataclass(frozen=True, eq=False)
class State:
    """A forecaster with the facts of the first ``position`` posts, and what was known before its last step.

    Posts of one day come one after the other, and each is scored by what was known when the day began. A model answers
    such questions quickly from a history that ends there.
    """

    forecaster: Forecaster
    position: int
    measured: Ids  # the times that the figures of the run are for
    eve: Known

    @classmethod
    def of(cls, forecaster: Forecaster) -> State:
        _ = forecaster.chances  # fitted here if the run has none
        facts = forecaster.facts
        eve = Known(forecaster.model, build_index(facts.before(float(facts.t.max()))))
        return cls(forecaster, 0, measured_times(forecaster.dataset), eve)

    @property
    def name(self) -> str:
        """Of the data. The forecaster would put all facts together for this, beside the thread that adds some."""
        return self.forecaster._dataset.name

    @property
    def known(self) -> Known:
        return self.forecaster._known

    @property
    def index(self) -> HistoryIndex:
        return self.known.index

    @property
    def clock(self) -> Clock:
        return self.index.clock

    @property
    def answering(self) -> Answering:
        return self.answering_from(self.known)

    def answering_from(self, known: Known) -> Answering:
        """From the whole history, or from that of the eve."""
        return Answering(self.forecaster.model, known, self.forecaster.chances)

    @cached_property
    def last(self) -> float:
        """The last step with facts, without facts that stand alone, decades from the rest."""
        return float(self.index.usual.t.max())

    @cached_property
    def trusted(self) -> Time | None:
        """The last time that lies no further ahead than what was measured; None where nothing could be measured."""
        dataset = self.forecaster._dataset
        if not (len(dataset.valid) or len(dataset.test)):
            return None
        return self.tell(self.last + max(1.0, measured_horizon(self.measured, self.index)))

    def with_facts(self, facts: Quadruples, position: int) -> tuple[State, Quadruples]:
        """A new state that includes ``facts``, and those of them that are new; this state does not change."""
        forecaster = copy(self.forecaster)
        forecaster._observed = list(forecaster._observed)  # all else of it is replaced, not changed
        added = forecaster.observe(facts)
        new = forecaster._observed[-1] if added else facts.select(slice(0))
        if added:
            forecaster._observed = _joined(forecaster._observed)
        return State(forecaster, position, self.measured, self._eve_with(new)), new

    def _eve_with(self, new: Quadruples) -> Known:
        """The facts known before the last step, with the new facts included."""
        last = int(self.index.t[-1])
        step = max(last, int(new.t.max(initial=last)))
        known = self.eve if step == last else self.known
        earlier = new.before(step)
        return Known(known.model, known.index.add(earlier)[0]) if len(earlier) else known

    def copy_for_thread(self) -> State:
        """A copy for another thread; caches such as sums are copied, then kept separate."""
        index = replace(self.index)
        index._totals.update(self.index._totals)
        index._objects.update(self.index._objects)
        forecaster = copy(self.forecaster)
        forecaster._known = Known(forecaster.model, index)
        return replace(self, forecaster=forecaster)

    def tell(self, t: float) -> Time:
        """A time as the data write it: a date as text, a number as a number."""
        text = self.clock.format(t)
        return text if self.clock.origin is not None else as_number(text)

    def tell_text(self, text: str | None) -> Time | None:
        """The same for a time that is text already."""
        return text if text is None or self.clock.origin is not None else as_number(text)

    def check_names(self, subject: str | None, relation: str | None, object: str | None) -> None:
        """Raise an error with the nearest names for an unknown name; the search is slow with many names."""
        vocab = self.index.vocab
        for kind, name in (("entity", subject), ("relation", relation), ("entity", object)):
            if name is not None:
                try:
                    _ = vocab.entity_id(name) if kind == "entity" else vocab.relation_id(name)
                except UnknownName as error:
                    raise NameUnknown(kind, name, error.nearest) from None


def _joined(parts: list[Quadruples]) -> list[Quadruples]:
    """The same facts in few parts, with the newest vocabulary: each fact is copied at most log2(E) times."""
    *earlier, last = parts
    while earlier and len(earlier[-1]) <= 2 * len(last):
        last = concatenate([earlier.pop(), last])
    return [*(replace(part, vocab=last.vocab) for part in earlier), last]


class NameUnknown(Exception):
    """A name in a request that the run does not know."""

    def __init__(self, kind: str, name: str, nearest: list[str]) -> None:
        self.nearest = nearest
        super().__init__(f"unknown {kind} {name!r:.200}")


def as_number(text: str) -> int | float:
    return int(text) if text.lstrip("-").isdecimal() else float(text)

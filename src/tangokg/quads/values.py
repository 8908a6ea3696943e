"""The values that ``quads/`` returns: integer quadruples with vocabulary and clock, and the three parts of a set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tangokg.errors import checked
from tangokg.quads.clock import Clock
from tangokg.quads.static import StaticGraph
from tangokg.quads.units import lone
from tangokg.quads.vocabulary import Vocabulary
from tangokg.showing import to_frame

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, repr=False)
class Quadruples:
    """Facts (s, r, o, t) as four equally long int64 columns; ``t`` counts steps of ``clock``.

    ``exact`` is the moment of each fact within its step, in the same unit, t <= exact < t + 1; None where no fact says
    more than its step. Models count steps; people are shown moments.
    """

    s: Ids
    r: Ids
    o: Ids
    t: Ids
    vocab: Vocabulary
    clock: Clock
    exact: Floats | None = None
    notes: tuple[str, ...] = ()  # what reading found or decided, for people
    files: Mapping[str, str] = field(default_factory=dict)  # the sha256 of the file that was read, unpacked
    static: StaticGraph | None = None  # edges without a time, which models do not use

    def __len__(self) -> int:
        return len(self.t)

    def __repr__(self) -> str:
        first, last = (self.clock.format(float(f(self.t))) for f in (np.min, np.max)) if len(self) else ("", "")
        names = f"{self.vocab.num_entities:,} entities, {self.vocab.num_relations:,} relations"
        return f"Quadruples({len(self):,} facts, {names}" + (f", {first} to {last})" if len(self) else ")")

    def select(self, rows: NDArray[np.bool_] | Ids | slice) -> Quadruples:
        """The facts at ``rows`` (a mask or positions), with the same names and clock."""
        exact = None if self.exact is None else self.exact[rows]
        return replace(self, s=self.s[rows], r=self.r[rows], o=self.o[rows], t=self.t[rows], exact=exact)

    @property
    def usual(self) -> Quadruples:
        """Without the facts that stand alone, decades from the rest: what says where the data begin and end."""
        alone = lone(self.t, self.clock)
        return self.select(~alone) if alone.any() else self

    @property
    def named(self) -> tuple[Bools, Bools]:
        """(N,) and (R,): which entities and which relations of the vocabulary occur in these facts."""
        entities, relations = np.zeros(self.vocab.num_entities, bool), np.zeros(self.vocab.num_relations, bool)
        entities[self.s] = entities[self.o] = relations[self.r] = True
        return entities, relations

    @property
    def moments(self) -> Floats:
        """The moment of each fact, in steps with fractions: ``exact``, or ``t`` where nothing more is known."""
        return self.t.astype(np.float64) if self.exact is None else self.exact

    def before(self, t: float) -> Quadruples:
        """The facts with a time below ``t``."""
        return self.select(self.t < t)

    def to_pandas(self) -> Any:
        """A pandas DataFrame with the columns subject, relation, object and time."""
        from tangokg.quads.showing import fact_columns

        return to_frame(fact_columns(self))

    def _repr_html_(self) -> str:
        from tangokg.quads.showing import facts_html

        return facts_html(self)

    @checked
    def split(self, train: float = 0.8, valid: float = 0.1, *, name: str = "events") -> Dataset:
        """Three parts in time order, by share of the facts: see :func:`tangokg.quads.splits.split`."""
        from tangokg.quads.splits import split

        return split(self, train, valid, name=name)


def exact_or_none(exact: Floats, t: Ids) -> Floats | None:
    """``exact``, or None where it says no more than ``t``."""
    return None if np.array_equal(exact, t) else exact


def in_time_order(facts: Quadruples) -> Quadruples:
    """The facts sorted by time; those of one time keep their order."""
    if (facts.t[1:] >= facts.t[:-1]).all():
        return facts
    return facts.select(np.argsort(facts.t, kind="stable"))


def concatenate(parts: list[Quadruples]) -> Quadruples:
    """All facts of ``parts`` one after the other; names and clock are those of the last part."""
    last = parts[-1]
    s, r, o, t = (np.concatenate([getattr(part, column) for part in parts]) for column in "srot")
    timed = any(part.exact is not None for part in parts)
    exact = np.concatenate([part.moments for part in parts]) if timed else None
    return replace(last, s=s, r=r, o=o, t=t, exact=exact)


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Facts in three parts that share no time: ``train`` before ``valid`` before ``test``; the last two may be empty.

    Facts that belong to no part and are known all the same lie ``before`` them (a run that goes on from another), or
    ``after`` (observed later).
    """

    train: Quadruples
    valid: Quadruples
    test: Quadruples
    name: str = "events"
    notes: tuple[str, ...] = field(default=())  # what reading found odd, for people
    before: Quadruples | None = None
    after: Quadruples | None = None
    files: Mapping[str, str] = field(default_factory=dict)  # the sha256 of each file that was read, unpacked
    own: tuple[int, int, int] | None = None  # entities, relations, facts ``after``, before any was observed; None: all

    def __repr__(self) -> str:
        return f"Dataset({self.name!r}, {', '.join(f'{name} {len(part):,}' for name, part in self.parts.items())})"

    @property
    def vocab(self) -> Vocabulary:
        return self.train.vocab

    @property
    def clock(self) -> Clock:
        return self.train.clock

    @property
    def made_with(self) -> Dataset:
        """The same set without the facts and names that were observed later."""
        if self.own is None:
            return self
        entities, relations, number = self.own
        vocab = Vocabulary(self.vocab.entities[:entities], self.vocab.relations[:relations])
        after = self.after.select(slice(number)) if self.after is not None and number else None
        return replace(self, after=after, own=None).with_vocab(vocab)

    def grow(self, observed: list[Quadruples]) -> Dataset:
        """The same set with facts that were observed later; the vocabulary of the last part has all names."""
        before = (self.vocab.num_entities, self.vocab.num_relations, 0 if self.after is None else len(self.after))
        after = concatenate([part for part in (self.after, *observed) if part is not None])
        return replace(self, after=after, own=self.own or before).with_vocab(after.vocab)

    def same_facts(self, other: Dataset) -> bool:
        """Whether another set has the same names, clock and facts, in the same parts."""
        parts, other_parts = ({name: part for name, part in data.parts.items() if len(part)} for data in (self, other))
        return (self.vocab, self.clock, parts.keys()) == (other.vocab, other.clock, other_parts.keys()) and all(
            np.array_equal(getattr(parts[name], c), getattr(other_parts[name], c)) for name in parts for c in "srot"
        )

    @property
    def parts(self) -> dict[str, Quadruples]:
        """All parts that exist, in time order, by name."""
        everything = {name: getattr(self, name) for name in ("before", "train", "valid", "test", "after")}
        return {name: part for name, part in everything.items() if part is not None}

    @property
    def facts(self) -> Quadruples:
        """All parts as one."""
        return concatenate(list(self.parts.values()))

    @property
    def past(self) -> Quadruples:
        """The facts known when validation begins: the training part, and the facts before it."""
        return self.train if self.before is None else concatenate([self.before, self.train])

    @property
    def before_test(self) -> Quadruples:
        """The facts known when the test part begins: the past and the validation part."""
        return concatenate([self.past, self.valid])

    def to_pandas(self) -> Any:
        """A pandas DataFrame with the columns subject, relation, object, time and part."""
        from tangokg.quads.showing import dataset_columns

        return to_frame(dataset_columns(self))

    def _repr_html_(self) -> str:
        from tangokg.quads.showing import dataset_html

        return dataset_html(self)

    def with_vocab(self, vocab: Vocabulary) -> Dataset:
        """The same facts under a vocabulary that was extended."""
        grown: dict[str, Any] = {name: replace(part, vocab=vocab) for name, part in self.parts.items()}
        return replace(self, **grown)

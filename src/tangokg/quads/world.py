r"""The built-in world: a seeded simulator of invented actors that knows the true probability of every fact.

About 250 actors in ten blocs are observed for a year, on days that are 1, 2, 3 or 4 days apart with probabilities
0.5, 0.25, 0.15, 0.1. All rates below are for one day of elapsed time, so a longer gap brings more. The laws:

1. *Rhythms.* Each actor has one habit (it visits, holds talks with, or issues statements to others) and keeps it up
   with two members of its bloc, each with a period p of 14 to 56 days: p days after the last time it is due again, and
   from then on happens with probability 0.7 a day.
2. *Lasting ties.* An actor takes up trade with others of its bloc at a rate of 0.0026 a day and with actors of other
   blocs at 0.0006; alliances at 0.0009 and 0.0001. A tie is reported with probability 0.95 on each observed day it
   stands, and dissolves at a hazard of 0.04 (trade) or 0.02 (alliance) a day.
3. *Sanctions.* When A no longer trades with B, A sanctions B on one of the days 2 to 10 after, with probability 0.6.
4. *Answers in kind.* When A criticises B, B criticises A on one of the next 5 days, with probability 0.5. Answers are
   answered too.
5. *Newcomers.* 25 actors come after training ends, between 80 and 95 % of the observed days. Each joins a bloc and at
   once has a habit, and ties as many as a member has on average.
6. *Noise.* An actor criticises one drawn uniformly from all at a rate of 0.008 a day; every other relation has such
   noise at 0.0008.

What is *given* at an observed day t_j: all facts up to t_j, which ties stand at t_j (more than an observer sees, since
a tie that stands may go unreported), when something last recurred or dissolved, and who can act at t_{j+1}. Given that,
the possible facts (s, r, o) of day t_{j+1} are independent, and the probability of each is known. With
:math:`\Delta = t_{j+1} - t_j`, and laws that bear on the same fact joined as :math:`a \vee b = 1 - (1 - a)(1 - b)`:

.. math::
    \text{laws 1, 3, 4:}\quad & 1 - (1 - q)^{n}, \quad n = \text{days of } (t_j, t_{j+1}] \text{ on which it may be} \\
    \text{a tie that stands:}\quad & 0.95 \, (1 - \text{hazard})^{\Delta} \\
    \text{one that does not:}\quad & 0.95 \, (1 - (1 - \text{rate of the pair})^{\Delta})

The last and the noise are equal for all pairs inside a bloc, and for all others: they are the floor of each day.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tangokg.errors import DataError
from tangokg.quads.clock import Clock
from tangokg.quads.values import Dataset, Floats, Ids, Quadruples
from tangokg.quads.vocabulary import Vocabulary

Triple = tuple[int, int, int]

RELATIONS = (
    "trades with",
    "allied with",
    "visits",
    "holds talks with",
    "issues statement to",
    "sanctions",
    "criticises",
)
TRADE, ALLIANCE, VISIT, TALK, STATEMENT, SANCTION, CRITICISM = range(len(RELATIONS))
HABITS = (VISIT, TALK, STATEMENT)

GAPS = (0.5, 0.25, 0.15, 0.1)  # of 1, 2, 3, 4 days
BLOCS = 10
PERIOD = (14, 56)  # days, both ends included
PARTNERS = 2
DUE = 0.7  # a day
FORMS = {TRADE: (0.0006, 0.0026), ALLIANCE: (0.0001, 0.0009)}  # an actor and day: across blocs, inside its own
DISSOLVES = {TRADE: 0.04, ALLIANCE: 0.02}  # a day
REPORTED = 0.95
SANCTION_DAYS, SANCTIONED = (2, 10), 0.6
ANSWER_DAYS, ANSWERED = (1, 5), 0.5
NOISE = np.where(np.arange(len(RELATIONS)) == CRITICISM, 0.008, 0.0008)  # an actor and day
FOREVER = 2**62


class Law(IntEnum):
    """Which law brought a fact about; the first that applies, where several do."""

    RHYTHM = 1
    TIE = 2
    SANCTION = 3
    ANSWER = 4
    NOISE = 6  # law 5, newcomers, acts through the others


@dataclass(frozen=True, eq=False)
class Stated:
    """The facts whose probability is above the floor of their day, in order of time."""

    s: Ids
    r: Ids
    o: Ids
    t: Ids
    law: Ids  # of Law
    p: Floats  # the whole probability, floor included


@dataclass(frozen=True, eq=False)
class World:
    """The simulated facts, with the probability of every fact given the previous observed day."""

    facts: Quadruples  # in order of time, no fact twice on a day
    law: Ids  # of Law, for each fact
    dissolutions: Quadruples  # ties that ended, dated by the first observed day without them
    stated: Stated
    t: Ids  # (T,) the observed days
    floor: Floats  # (T, R, 2) of a fact that is not stated: across blocs, inside one
    bloc: Ids  # (N,)
    since: Ids  # (N,) the first day on which an actor can be in a fact: 0, or later for newcomers

    @property
    def dataset(self) -> Dataset:
        """The first 80 % of the observed days, the next 10 %, and the rest."""
        valid, test = (self.t[len(self.t) * share // 100] for share in (80, 90))
        t = self.facts.t
        train, between, rest = (self.facts.select(rows) for rows in (t < valid, (valid <= t) & (t < test), test <= t))
        return Dataset(train, between, rest, name="world")


@dataclass(frozen=True)
class _Awaited:
    """A fact that laws 1, 3 and 4 make likely on the days ``opens .. closes``; a ``period`` makes it recur."""

    law: Law
    hazard: float
    opens: int
    closes: int = FOREVER
    period: int = 0

    def probability(self, t0: int, t1: int) -> float:
        """The probability that it happens at ``t1``, given that it has not happened up to ``t0``."""
        days = min(t1, self.closes) - max(t0 + 1, self.opens) + 1
        return 1.0 - (1.0 - self.hazard) ** max(days, 0)


def make_world(seed: int = 0, num_actors: int = 250, num_newcomers: int = 25, num_days: int = 365) -> World:
    """Simulate ``num_days`` days with ``num_actors`` actors and ``num_newcomers`` more after training ends."""
    least = BLOCS * (PARTNERS + 1)
    if num_actors < least or num_newcomers < 0 or num_days < 60:
        raise DataError(
            f"make_world: {num_actors} actors, {num_newcomers} newcomers and {num_days} days were asked for; expected "
            f"at least {least} actors (each has {PARTNERS} partners in one of {BLOCS} blocs), 0 newcomers and 60 days."
        )
    rng = np.random.default_rng(seed)
    gaps = rng.choice(np.arange(1, 5), num_days, p=GAPS)
    t = np.concatenate([[0], np.cumsum(gaps)])
    t = t[t < num_days]  # (T,)
    bloc = np.concatenate([rng.permutation(num_actors) % BLOCS, rng.integers(BLOCS, size=num_newcomers)])
    first, last = len(t) * 80 // 100, len(t) * 95 // 100
    come = t[rng.integers(first, last, num_newcomers)]
    since = np.concatenate([np.zeros(num_actors, np.int64), come])  # (N,)
    simulation = _Simulation(rng, bloc, since, num_actors)
    for t0, t1 in pairwise([-1, *t.tolist()]):
        simulation.settle(t0, t1)
        simulation.step(t0, t1)
    vocab, clock = Vocabulary(_names(rng, len(bloc)), RELATIONS), Clock("day", "2024-01-01")
    s, r, o, day, law = _columns(simulation.facts, 5)
    facts = Quadruples(s, r, o, day, vocab, clock)
    s, r, o, day = _columns(simulation.dissolved, 4)
    dissolutions = Quadruples(s, r, o, day, vocab, clock)
    s, r, o, day, why = _columns(simulation.stated, 5)
    stated = Stated(s, r, o, day, why, np.array(simulation.p))
    return World(facts, law, dissolutions, stated, t, np.stack(simulation.floor), bloc, since)


class _Simulation:
    """The state of the simulation on a day, and the record of its facts."""

    def __init__(self, rng: np.random.Generator, bloc: Ids, since: Ids, num_actors: int) -> None:
        self.rng, self.since = rng, since
        self.inside = bloc[:, None] == bloc  # (N, N)
        self.partners = (num_actors * (1 - 1 / BLOCS), num_actors / BLOCS - 1)  # of one actor: across, inside
        self.noise = NOISE / (num_actors - 1)  # (R,) of a pair and day
        self.ties: dict[Triple, None] = {}  # an ordered set
        self.awaited: dict[Triple, _Awaited] = {}
        self.facts: list[tuple[int, ...]] = []  # s, r, o, t, law
        self.dissolved: list[tuple[int, ...]] = []  # s, r, o, t
        self.stated: list[tuple[int, ...]] = []  # s, r, o, t, law
        self.p: list[float] = []  # of what is stated
        self.floor: list[Floats] = []  # of each day (R, 2)

    def settle(self, t: int, t_next: int) -> None:
        """Give the actors that can first act at ``t_next`` habits, and as many ties as an actor has on average."""
        new = (self.since > t) & (self.since <= t_next)
        if not new.any():
            return
        present = self.since <= t_next
        joinable = present[:, None] & present & (new[:, None] | new)  # (N, N)
        for r, dissolves in DISSOLVES.items():
            for same, rate in enumerate(self.forming(r)):
                met = self.scatter(rate / (rate + dissolves), joinable & (self.inside == same))
                self.ties |= {(s, r, o): None for s, o in met}
        for s in np.flatnonzero(new).tolist():
            r = int(self.rng.choice(HABITS))
            fellows = np.flatnonzero(self.inside[s] & present & (np.arange(len(present)) != s))
            for o in self.rng.choice(fellows, PARTNERS, replace=False).tolist():
                period = int(self.rng.integers(PERIOD[0], PERIOD[1] + 1))
                opens = t + 1 + int(self.rng.integers(period))
                self.awaited[s, r, o] = _Awaited(Law.RHYTHM, DUE, opens, period=period)

    def step(self, t0: int, t1: int) -> None:
        """Compute the probabilities of day ``t1`` given ``t0``, then draw and record its facts."""
        present = self.since <= t1
        pairs = present[:, None] & present  # (N, N)
        noise = 1 - (1 - self.noise) ** (t1 - t0)  # (R,)
        happened: dict[Triple, Law] = {}
        for triple, awaited in self.awaited.items():
            if p := awaited.probability(t0, t1):
                self.state(t1, triple, p, noise, awaited.law)
                if self.rng.random() < p:
                    happened[triple] = awaited.law
        ended = self.move_ties(t0, t1, noise, pairs)
        happened |= {tie: Law.TIE for tie in self.ties if self.rng.random() < REPORTED}
        for r, p in enumerate(noise.tolist()):
            for s, o in self.scatter(p, pairs):
                happened.setdefault((s, r, o), Law.NOISE)
        self.react(t1, happened, ended)

    def move_ties(self, t0: int, t1: int, noise: Floats, pairs: NDArray[np.bool_]) -> list[Triple]:
        """State law 2 for ``t1`` from the ties that stand at ``t0``, draw which stand at ``t1``; those that ended."""
        floor = np.stack([noise, noise], axis=1)  # (R, 2)
        stays = {r: (1 - hazard) ** (t1 - t0) for r, hazard in DISSOLVES.items()}
        for tie in self.ties:
            self.state(t1, tie, stays[tie[1]] * REPORTED, noise, Law.TIE)
        ended = [tie for tie in self.ties if self.rng.random() >= stays[tie[1]]]
        formed: dict[Triple, None] = {}
        for r in DISSOLVES:
            for same, rate in enumerate(self.forming(r)):
                p = 1 - (1 - rate) ** (t1 - t0)
                floor[r, same] = _either(p * REPORTED, noise[r])
                met = self.scatter(p, pairs & (self.inside == same))
                formed |= {(s, r, o): None for s, o in met if (s, r, o) not in self.ties}
        self.floor.append(floor)
        self.ties |= formed
        for tie in ended:
            del self.ties[tie]
        return ended

    def react(self, t: int, happened: dict[Triple, Law], ended: list[Triple]) -> None:
        """Record the day; what recurs begins to wait again, and laws 3 and 4 make new facts likely."""
        self.facts += [(*triple, t, law) for triple, law in sorted(happened.items())]
        self.dissolved += [(*tie, t) for tie in ended]
        for triple in happened:
            awaited = self.awaited.pop(triple, None)
            if awaited and awaited.period:
                self.awaited[triple] = replace(awaited, opens=t + awaited.period)
        for s, r, o in happened:
            if r == CRITICISM:
                self.awaited[o, r, s] = _within(Law.ANSWER, ANSWERED, ANSWER_DAYS, t)
        for s, r, o in ended:
            if r == TRADE:
                self.awaited[s, SANCTION, o] = _within(Law.SANCTION, SANCTIONED, SANCTION_DAYS, t)
        self.awaited = {triple: awaited for triple, awaited in self.awaited.items() if awaited.closes > t}

    def state(self, t: int, triple: Triple, p: float, noise: Floats, law: Law) -> None:
        """Record that ``triple`` has probability ``p`` by ``law``, and may be noise as well."""
        self.stated.append((*triple, t, law))
        self.p.append(_either(p, float(noise[triple[1]])))

    def forming(self, r: int) -> tuple[float, float]:
        """The rate at which one pair forms tie ``r``: across blocs, inside one."""
        across, inside = FORMS[r]
        return across / self.partners[0], inside / self.partners[1]

    def scatter(self, p: float, allowed: NDArray[np.bool_]) -> list[tuple[int, int]]:
        """Draw each ``allowed`` pair (N, N) of two different actors with probability ``p``."""
        n = len(allowed)
        hits = self.rng.choice(n * n, self.rng.binomial(n * n, p), replace=False)
        return [
            (s, o) for s, o in zip((hits // n).tolist(), (hits % n).tolist(), strict=True) if s != o and allowed[s, o]
        ]


def _within(law: Law, probability: float, days: tuple[int, int], t: int) -> _Awaited:
    """A fact that happens with ``probability`` within ``days`` after ``t``, at the same hazard on each."""
    first, last = days
    return _Awaited(law, 1 - (1 - probability) ** (1 / (last - first + 1)), t + first, t + last)


def _either(a: float, b: float) -> float:
    """One of two independent things happens: a ∨ b."""
    return 1 - (1 - a) * (1 - b)


def _columns(rows: list[tuple[int, ...]], width: int) -> Ids:
    return np.array(rows, np.int64).reshape(-1, width).T  # (width, rows)


def _names(rng: np.random.Generator, count: int) -> tuple[str, ...]:
    """Distinct invented names of countries, cities and organisations."""
    onsets, vowels = ("b", "d", "f", "k", "l", "m", "n", "r", "s", "t", "v", "z", "br", "tr", "st"), "aeiou"
    ends = ("ria", "land", "nia", "stan", "mark", "via", "lis", "ton")
    forms = ("{}", "{}", "{}", "Port {}", "Bank of {}", "{} Union")
    names: dict[str, None] = {}
    while len(names) < count:
        stem = "".join(str(rng.choice(onsets)) + vowels[rng.integers(5)] for _ in range(2))
        names[str(rng.choice(forms)).format((stem + str(rng.choice(ends))).capitalize())] = None
    return tuple(names)

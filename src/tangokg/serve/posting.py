"""Takes a post of new facts: check them, score them on earlier facts, write them to disk, then use and answer."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from tangokg.errors import TangoError
from tangokg.quads.values import Quadruples
from tangokg.serve import scoring
from tangokg.serve.checking import make_facts
from tangokg.serve.failures import Refused
from tangokg.serve.hub import Hub
from tangokg.serve.journal import Journal, Post
from tangokg.serve.metrics import Gauges
from tangokg.serve.names import Names
from tangokg.serve.schemas import Fact
from tangokg.serve.scoring import Scored
from tangokg.serve.settings import ServeSettings
from tangokg.serve.state import State

SURPRISES = 20  # least expected facts in the answer to a post
NEW_NAMES = 20  # new names in the answer to a post
RARE = 0.01  # chance below which listeners are notified of a posted fact as a surprise


class Posting:
    """Takes posts one after the other, on one thread."""

    def __init__(self, settings: ServeSettings, journal: Journal, names: Names, hub: Hub, gauges: Gauges) -> None:
        self.settings, self.journal, self.names, self.hub, self.gauges = settings, journal, names, hub, gauges

    def take(
        self, state: State, facts: Sequence[Fact], key: str | None, know: Callable[[State], None]
    ) -> dict[str, Any]:
        """The answer to a post; for a key used before, the earlier answer. ``know`` receives the new state."""
        digest = sha256(json.dumps([list(f.model_dump().values()) for f in facts]).encode()).hexdigest()
        if key is not None and (earlier := self.journal.find(key)):
            if earlier[0] != digest:
                raise Refused(409, "this Idempotency-Key was used for other facts.", "Use a new key for each post.")
            return earlier[1]
        with self.gauges.posting.time():
            candidates = make_facts(state, facts, self.settings.late, self.settings.ahead)
            position = state.position + 1
            grown, new = state.with_facts(candidates, position)
            scored = _score(state, new)
            scored_facts = _facts_json(grown, new, scored)
            answer = {
                "position": position,
                "added": len(new),
                "known": len(facts) - len(new),
                "surprise": sorted(scored_facts, key=lambda fact: (fact["chance"], -fact["rank"]))[:SURPRISES],
                "new_names": _new_names(state, grown)[:NEW_NAMES],
            }
            posted_at = datetime.now(UTC).isoformat(timespec="milliseconds")
            post = Post(facts, digest, posted_at, answer, key, _rows(new, scored_facts, scored), scored.bins)
            try:
                self.journal.append(post)
            except sqlite3.Error:
                raise Refused(503, "the journal cannot be written, so nothing was taken.", "Try again.") from None
            know(grown)
        self._spread(grown, new, scored, answer, posted_at)
        return answer

    def _spread(self, grown: State, new: Quadruples, scored: Scored, answer: dict[str, Any], posted_at: str) -> None:
        """Update metrics and names, and notify the listeners."""
        vocab = new.vocab
        counts = Counter([("entity", vocab.entities[i]) for column in (new.s, new.o) for i in column.tolist()])
        counts.update(("relation", vocab.relations[i]) for i in new.r.tolist())
        self.names.grow(grown.index.vocab, [(*name, number) for name, number in counts.items()], grown.position)
        self.gauges.position.set(grown.position)
        self.gauges.added.inc(len(new))
        for rank in scored.rank:
            self.gauges.rank.observe(rank)
        for _, expected, happened, _ in scored.bins:
            self.gauges.said.inc(expected)
            self.gauges.happened.inc(happened)
        rare = [fact for fact in answer["surprise"] if fact["chance"] < RARE]
        events = [{"type": "surprise", "position": grown.position, **fact, "posted_at": posted_at} for fact in rare]
        self.hub.publish([{"type": "facts", "position": grown.position, "added": len(new)}, *events])


def _score(state: State, new: Quadruples) -> Scored:
    try:
        return scoring.score(state, new)
    except TangoError:  # such as NaN scores far ahead: the facts are accepted all the same
        return scoring.NOTHING


def _new_names(before: State, after: State) -> list[str]:
    """Names of the entities, then of the relations, that are new with a post."""
    old, new = before.index.vocab, after.index.vocab
    return [*new.entities[len(old.entities) :], *new.relations[len(old.relations) :]]


def _facts_json(state: State, new: Quadruples, scored: Scored) -> list[dict[str, Any]]:
    """The scored facts with names instead of ids."""
    vocab = new.vocab
    return [
        {
            "subject": vocab.entities[new.s[row]],
            "relation": vocab.relations[new.r[row]],
            "object": vocab.entities[new.o[row]],
            "at": state.tell(float(new.t[row])),
            "rank": rank,
            "chance": chance,
        }
        for row, rank, chance in zip(scored.rows.tolist(), scored.rank, scored.chance, strict=True)
    ]


def _rows(new: Quadruples, scored_facts: list[dict[str, Any]], scored: Scored) -> list[tuple[Any, ...]]:
    steps = new.t[scored.rows].astype(float).tolist()
    return [
        (fact["subject"], fact["relation"], fact["object"], step, fact["rank"], subject_rank, fact["chance"])
        for fact, step, subject_rank in zip(scored_facts, steps, scored.rank_of_subject, strict=True)
    ]

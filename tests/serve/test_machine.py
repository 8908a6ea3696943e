"""Any order of posts, repeated posts, bad posts, kills, restarts and compactions: what is known is what was taken."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from serve_runs import make_service
from tangokg.errors import DataError
from tangokg.forecast import load
from tangokg.serve import asking
from tangokg.serve.compacting import FILE, compact
from tangokg.serve.failures import Refused
from tangokg.serve.journal import Post
from tangokg.serve.schemas import Fact, Question
from tangokg.serve.service import Service

NAMES = st.sampled_from(["Ann", "Bob", "Kim", "Zoe"])
RELATIONS = st.sampled_from(["met", "called"])
ROWS = st.lists(st.tuples(NAMES, RELATIONS, NAMES, st.integers(-2, 5)), min_size=1, max_size=4)


class Killed(BaseException):
    """In place of a signal: nothing after it happens."""


def machine_for(made: Path) -> type[RuleBasedStateMachine]:
    """Its rules, over copies of a run."""
    dataset = load(made, "cpu").dataset
    last = float(dataset.facts.t.max())
    first = {tuple(fact) for fact in zip(*(getattr(dataset.facts, c).tolist() for c in "srot"), strict=True)}

    def make(rows: list[tuple[str, str, str, int]]) -> list[Fact]:
        return [Fact(subject=s, relation=r, object=o, at=dataset.clock.format(last + day)) for s, r, o, day in rows]

    class Machine(RuleBasedStateMachine):
        @initialize()
        def begin(self) -> None:
            self.folder = Path(tempfile.mkdtemp())
            self.run = self.folder / "run"
            shutil.copytree(made, self.run)
            self.posts: list[tuple[str, list[Fact], dict[str, Any]]] = []
            self.known: set[tuple[str, str, str, int]] = set()
            self.start()

        def start(self) -> None:
            self.service: Service | None = make_service(self.run)
            self.service.start()

        @precondition(lambda self: self.service is not None)
        @rule(rows=ROWS)
        def post(self, rows: list[tuple[str, str, str, int]]) -> None:
            assert self.service is not None
            key, facts = f"key {len(self.posts)}", make(rows)
            answer = self.service.post(facts, key).result()
            fresh = set(rows) - self.known
            assert answer["position"] == len(self.posts) + 1
            assert (answer["added"], answer["known"]) == (len(fresh), len(rows) - len(fresh))
            self.known |= fresh
            self.posts.append((key, facts, answer))

        @precondition(lambda self: self.service is not None and self.posts)
        @rule(data=st.data())
        def repeat(self, data: st.DataObject) -> None:
            assert self.service is not None
            key, facts, answer = data.draw(st.sampled_from(self.posts))
            assert self.service.post(facts, key).result() == answer
            with pytest.raises(Refused, match="Idempotency-Key"):
                self.service.post([*facts, *facts], key).result()

        @precondition(lambda self: self.service is not None)
        @rule(rows=ROWS, day=st.sampled_from([-1000, 10_000]))
        def post_a_bad_one(self, rows: list[tuple[str, str, str, int]], day: int) -> None:
            assert self.service is not None
            with pytest.raises(DataError, match="none was"):
                self.service.post(make([*rows, ("Eve", "met", "Ann", day)]), None).result()

        @precondition(lambda self: self.service is not None)
        @rule(cleanly=st.booleans())
        def stop(self, cleanly: bool) -> None:
            assert self.service is not None
            self.service.stop() if cleanly else self.service.worker.stop()  # its journal is left open, as it was
            self.service = None

        @precondition(lambda self: self.service is not None)
        @rule(rows=ROWS, written=st.booleans())
        def kill_within_a_post(self, rows: list[tuple[str, str, str, int]], written: bool) -> None:
            """Before or after its commit, always before its answer."""
            assert self.service is not None
            key, facts, append = f"key {len(self.posts)}", make(rows), self.service._journal.append

            def cut(post: Post) -> None:
                if written:
                    append(post)
                    self.posts.append((key, facts, post.answer))
                    self.known.update(rows)
                raise Killed

            self.service._journal.append = cut  # type: ignore[method-assign]
            with pytest.raises(Killed):
                self.service.post(facts, key).result()
            self.stop(cleanly=False)

        @precondition(lambda self: self.service is None)
        @rule(fold=st.booleans())
        def restart(self, fold: bool) -> None:
            if fold:
                assert compact(self.run, self.run / FILE) == len(self.posts)
            self.start()

        @invariant()
        def knows_what_was_taken(self) -> None:
            if getattr(self, "service", None) is None:
                return
            assert self.service is not None
            state = self.service.state
            assert state.position == len(self.posts)
            assert state.index.counts.sum() == len(first) + len(self.known)
            assert "Eve" not in state.index.vocab.entities

        def teardown(self) -> None:
            if not hasattr(self, "folder"):
                return
            if self.service is None:
                self.start()
            assert self.service is not None
            once = self.folder / "once"
            shutil.copytree(made, once)
            fed = make_service(once)
            fed.start()
            if self.posts:
                fed.post([fact for _, facts, _ in self.posts for fact in facts], None).result()
                questions = [Question(subject=facts[0].subject, relation="met") for _, facts, _ in self.posts]
                questions = [q for q in questions if "met" in fed.state.index.vocab.relations]
                found, expected = (asking.answer(service.state, questions, 1e4) for service in (self.service, fed))
                for one, own in zip(found, expected, strict=True):
                    assert isinstance(one, dict)
                    assert isinstance(own, dict)
                    pairs = [[(a["name"], round(a["chance"], 5)) for a in x["answers"]] for x in (one, own)]
                    assert pairs[0] == pairs[1]
            self.service.stop()
            fed.stop()
            shutil.rmtree(self.folder)

    return Machine


@pytest.mark.parametrize("examples", [4, pytest.param(60, marks=pytest.mark.slow)])
def test_whatever_happens_what_is_known_is_what_was_taken(made: Path, examples: int) -> None:
    run_state_machine_as_test(
        machine_for(made),
        settings=settings(
            max_examples=examples,
            stateful_step_count=15,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )

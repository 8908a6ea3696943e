"""Workers that share a database: each trial once, none lost, one search under a name."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import make_dataset
from postgres_server import missing, postgres
from tangokg.errors import ConfigError, RunError, TrainingError
from tangokg.quads.addresses import Address
from tangokg.train import Progress
from tangokg.tune.outcomes import OVER
from tangokg.tune.python import choose_place
from tangokg.tune.sampling import load_optuna
from tangokg.tune.shared import SharedClaim, SharedStudy
from tangokg.tune.space import Plan, make_plan
from tangokg.tune.storage import Shared, TrialLost, open_storage, parse_storage
from tangokg.tune.study import MOST_STARTS
from tangokg.tune.work import Search, work

__all__ = ["postgres"]

DATA = make_dataset()
GRID = make_plan(DATA, "paper-grid", "tango-tucker", ["dim=2", "layers=1", "scale=0.1", "dropout=0.1"])  # 9 points
SEARCH = make_plan(DATA, "search", assignments=["dim=[2, 3]"])
BEAT = 0.05
Open = Callable[[Plan], SharedStudy]


on_both = pytest.mark.parametrize("opened", ["memory", "postgresql"], indirect=True)


@pytest.fixture
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Another worker of the one study of this test, in memory unless the test says where."""
    if getattr(request, "param", "memory") == "memory":
        address, storage = Address("grpc", "grpc://nowhere"), load_optuna().storages.InMemoryStorage()
    else:
        address, storage = parse_storage(request.getfixturevalue("postgres")), None
    place = Shared(f"s{abs(hash(request.node.name))}", address, BEAT)
    return lambda plan: SharedStudy(place, tmp_path, plan, DATA, storage=storage or open_storage(address))


def end(claim: SharedClaim, mrr: float = 10.0) -> SharedClaim:
    claim.report(Progress(epoch=1, best_mrr=mrr))
    claim.done(Progress(epoch=1, best_mrr=mrr))
    return claim


def wait_for(study: SharedStudy, most: int) -> SharedClaim:
    """The next trial, as a worker gets it that asks again and again."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if (claim := study.claim(most)) is not None:
            return claim
        time.sleep(BEAT)
    raise AssertionError("no trial")


@pytest.mark.parametrize(
    ("plan", "most", "opened"),
    [(GRID, 99, "memory"), (GRID, 99, "postgresql"), (SEARCH, 7, "memory")],
    indirect=["opened"],
    ids=["grid-memory", "grid-postgresql", "search-memory"],
)
def test_workers_at_once_begin_as_many_trials_as_are_wanted_and_no_point_twice(
    plan: Plan, most: int, opened: Open
) -> None:
    studies = [opened(plan) for _ in range(4)]
    begun: list[SharedClaim] = []

    def work(study: SharedStudy) -> None:
        while not study.is_over(most):
            if (claim := study.claim(most)) is not None:
                begun.append(end(claim, 10.0 + claim.number))

    threads = [threading.Thread(target=work, args=(study,)) for study in studies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(begun) == min(most, plan.points or most)
    assert len({tuple(claim.values.items()) for claim in begun}) == len(begun)
    assert [(o.number, o.state) for o in studies[0].outcomes()] == [(n, "done") for n in range(len(begun))]
    if plan is SEARCH:
        assert studies[0].outcomes()[0].values == plan.usual(DATA)


@on_both
def test_a_trial_whose_worker_is_gone_is_begun_again_and_given_up_in_the_end(opened: Open) -> None:
    study = opened(SEARCH)
    first = study.claim(2)
    assert first is not None
    first.report(Progress(epoch=1, best_mrr=20.0))
    for _ in range(4):  # stops that were asked for are no kills
        first.let_go()
        assert [o.state for o in study.outcomes()] == ["under way"]
        again = opened(SEARCH).claim(2)
        assert again is not None
        assert (again.values, again.starts, sorted(again.known)) == (first.values, 1, [1])
        first = again
    for starts in range(2, MOST_STARTS + 1):
        first.hold.release()  # as when its process dies
        again = wait_for(opened(SEARCH), 1)
        assert (again.values, again.starts) == (first.values, starts)
        first = again
    first.hold.release()
    last = opened(SEARCH)
    while not last.is_over(1):
        assert last.claim(1) is None
    (given_up,) = last.outcomes()
    assert given_up.state == "failed"
    assert "killed 3 times" in given_up.note


def test_the_trial_of_a_living_worker_is_its_own_and_a_lost_one_is_told_so(opened: Open, tmp_path: Path) -> None:
    study, other = opened(SEARCH), opened(SEARCH)
    mine = study.claim(1)
    assert mine is not None
    deadline = time.monotonic() + 20 * BEAT
    while time.monotonic() < deadline:
        assert other.claim(1) is None
    assert not other.is_over(1)
    mine.checkpoint.write_text("so far")
    mine.hold.release()  # it hangs
    theirs = wait_for(other, 1)
    assert (theirs.number != mine.number, theirs.values) == (True, mine.values)
    assert theirs.checkpoint.read_text() == "so far"
    for act in (
        lambda: mine.report(Progress(epoch=1, best_mrr=90.0)),
        lambda: mine.done(Progress(epoch=1, best_mrr=90.0)),
    ):
        with pytest.raises(TrialLost):
            act()
    mine.let_go()
    end(theirs)
    assert other.is_over(1)
    assert [(o.number, o.state, o.mrr) for o in study.outcomes()] == [(0, "done", 10.0)]
    assert not other.folder.exists()


@on_both
def test_two_that_begin_the_same_lost_trial_again_leave_one_of_them(opened: Open) -> None:
    study, other = opened(SEARCH), opened(SEARCH)
    first = study.claim(1)
    assert first is not None
    first.let_go()
    (frozen,) = study._trials()
    both = [worker._again(frozen, 1) for worker in (study, other)]
    assert [claim is None for claim in both] == [False, True]
    assert len(study.outcomes()) == 1


def test_a_worker_that_dies_between_failing_a_trial_and_beginning_it_again_loses_nothing(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, other = opened(SEARCH), opened(SEARCH)
    first = study.claim(1)
    assert first is not None
    first.let_go()
    monkeypatch.setattr(SharedStudy, "_again", lambda *_: None)
    assert study.claim(1) is None
    monkeypatch.undo()
    assert [o.state for o in other.outcomes()] == ["under way"]
    assert not other.is_over(1)
    again = other.claim(1)
    assert again is not None
    assert end(again).values == first.values
    assert [o.state for o in other.outcomes()] == ["done"]


def test_a_study_in_a_storage_is_of_one_search_on_the_same_facts(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    study = opened(SEARCH)
    other = make_plan(DATA, "search", assignments=["dim=[2, 4]", "clip=0.5"])
    with pytest.raises(RunError, match=r"dim: \[2, 3\] there, \[2, 4\] here; clip: none there, 0.5 here"):
        opened(other)
    monkeypatch.setitem(globals(), "DATA", make_dataset(5))
    with pytest.raises(RunError, match="a study of other facts"):
        opened(SEARCH)
    study._study.set_user_attr("plan", {"facts": study._mine["facts"], "dim": 7})  # two that began it at once
    with pytest.raises(RunError, match="a study of another search"):
        study.claim(1)


def test_first_workers_may_open_a_new_database_at_once(postgres: str, tmp_path: Path) -> None:
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("create database fresh")
    address = parse_storage(postgres.replace("/events", "/fresh"))
    start, studies = threading.Barrier(6), list[SharedStudy]()

    def open_study() -> None:
        start.wait()
        studies.append(SharedStudy(Shared("fresh", address, BEAT), tmp_path, SEARCH, DATA))

    threads = [threading.Thread(target=open_study) for _ in range(start.parties)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(studies) == len(threads)
    assert len({study.folder for study in studies}) == 1


def test_the_packages_of_a_cluster_are_there() -> None:
    """Else the tests of the storage would be skipped; :func:`missing` fails where everything must be there."""
    for name in ("grpc", "google.protobuf", "psycopg", "sqlalchemy"):
        try:
            __import__(name)
        except ImportError:
            missing(f"the Python package {name}")


@pytest.mark.parametrize("error", [None, TrainingError("the loss became NaN"), MemoryError()])
def test_a_worker_whose_trial_was_taken_over_goes_on_with_the_next(
    error: Exception | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However its own attempt ends: with a result, or with an error."""
    storage, taken = load_optuna().storages.InMemoryStorage(), list[SharedClaim]()
    monkeypatch.setattr(Shared, "open", lambda _: storage)
    shared = Shared("taken", Address("grpc", "grpc://nowhere"))
    search = Search(DATA, SEARCH, tmp_path / "x", 2, shared=shared)

    def fit(*_: Any, **__: Any) -> Any:
        if not taken:
            other = search.open()
            assert isinstance(other, SharedStudy)
            claim = other._take_over(other._trials()[0], False)
            assert claim is not None
            taken.append(claim)
            if error is not None:
                raise error
        elif len(taken) == 1:
            taken.append(end(taken[0], 40.0))
        return None, Progress(epoch=1, best_mrr=30.0)

    monkeypatch.setattr(sys.modules["tangokg.tune.work"], "fit", fit)
    assert [(o.number, o.state, o.mrr) for o in work(search)] == [(0, "done", 40.0), (1, "done", 30.0)]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("study", "data", "name"),
    [(None, "my events", "my-events-search"), ("a.1_x", "events", "a.1_x"), (None, ".x", "x-search")],
)
def test_a_study_in_a_storage_has_a_plain_name(study: str | None, data: str, name: str) -> None:
    path, shared = choose_place(study, "grpc://host:3", data, "search", Path("unused"))
    assert shared is not None
    assert (path, shared.name) == (Path("runs") / name, name)
    for wrong in ("a/b", "../x", " "):
        with pytest.raises(ConfigError, match="expected a name"):
            choose_place(wrong, "grpc://host:3", data, "search", Path("unused"))
    assert choose_place("a/b", None, data, "search", Path("unused")) == (Path("a/b"), None)


def test_trials_beyond_those_that_are_wanted_are_not_waited_for(opened: Open) -> None:
    study = opened(SEARCH)
    claims = [study.claim(3) for _ in range(3)]
    for claim in claims[:2]:
        assert claim is not None
        end(claim)
    assert study.is_over(2)
    assert not study.is_over(3)
    assert study.claim(2) is None
    assert claims[2] is not None
    assert claims[2].folder.exists()
    claims[2].let_go()
    assert study.claim(2) is None
    assert study.is_over(2)


def test_trials_of_all_states_that_are_over_count(opened: Open) -> None:
    study = opened(SEARCH)
    acts: list[Callable[[SharedClaim], Any]] = [
        lambda claim: claim.failed("no memory"),
        lambda claim: claim.pruned(Progress(epoch=1, best_mrr=1.0)),
        end,
    ]
    for act in acts:
        act(wait_for(study, 3))
    assert study.claim(3) is None
    assert study.is_over(3)
    assert {o.state for o in study.outcomes()} == set(OVER)

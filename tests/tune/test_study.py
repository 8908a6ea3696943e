"""One file, many hands: distinct trials, the right data, torn lines, what kills leave."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from conftest import make_dataset
from tangokg.errors import RunError
from tangokg.train import Progress
from tangokg.train.locks import FileLock
from tangokg.tune.outcomes import best_of
from tangokg.tune.sampling import PRUNERS
from tangokg.tune.space import make_plan
from tangokg.tune.study import MOST_STARTS, Claim, Study, digest

DATA = make_dataset()
GRID = make_plan(DATA, "paper-grid", "tango-tucker", ["dim=2", "layers=1", "scale=0.1", "dropout=0.1"])  # 9 points
SEARCH = make_plan(DATA, "search", assignments=["dim=[2, 3]"])


def end(claim: Claim | None, mrr: float = 10.0) -> Claim:
    assert claim is not None
    progress = Progress(epoch=1, best_mrr=mrr)
    claim.report(progress)
    claim.done(progress)
    return claim


def test_a_lock_has_one_holder(tmp_path: Path) -> None:
    a, b = FileLock(tmp_path / "x" / "lock"), FileLock(tmp_path / "x" / "lock")
    with a:
        assert not b.try_acquire()
    assert b.try_acquire()
    b.release()


def test_workers_share_a_grid_and_visit_every_point_once(tmp_path: Path) -> None:
    workers = [Study(tmp_path / "a.study", GRID, DATA) for _ in range(2)]
    under_way = [worker.claim(99) for worker in workers]
    visited = []
    while any(under_way):
        for place, claim in enumerate(under_way):
            if claim is not None:
                visited.append(tuple(end(claim).values.items()))
                under_way[place] = workers[place].claim(99)
    assert len(visited) == len(set(visited)) == GRID.size == 9
    assert workers[0].claim(99) is None
    assert [outcome.state for outcome in workers[1].outcomes()] == ["done"] * 9
    assert not [path for path in workers[0].folder.iterdir() if path.is_dir()]


def test_a_search_begins_with_the_usual_settings_and_repeats_itself_across_stops(tmp_path: Path) -> None:
    found = []
    for name, hands in (("once", 1), ("often", 8)):
        study = Study(tmp_path / name, SEARCH, DATA)
        for number in range(8):
            study = Study(tmp_path / name, SEARCH, DATA) if hands > 1 else study
            end(study.claim(8), mrr=10.0 + number)
        assert study.claim(8) is None
        found.append([outcome.values for outcome in study.outcomes()])
    assert found[0] == found[1]
    assert found[0][0] == SEARCH.usual(DATA)
    assert len({tuple(values.items()) for values in found[0]}) == 8


def test_a_search_learns_from_its_trials() -> None:
    """Once enough of them are over, what is tried next depends on how they went: that of a grid never does."""
    for plan, learns in ((SEARCH, True), (GRID, False)):
        tried = []
        for sign in (1, -1):
            with TemporaryDirectory() as folder:
                study = Study(Path(folder) / "a.study", plan, DATA)
                for number in range(9):
                    end(study.claim(9), mrr=50.0 + sign * number)
                tried.append([outcome.values for outcome in study.outcomes()])
        assert tried[0][:6] == tried[1][:6]
        assert (tried[0] != tried[1]) == learns


def test_no_point_of_a_search_is_tried_twice_and_all_are_tried_in_the_end(tmp_path: Path) -> None:
    few = ["model=tango-tucker", "dim=[2, 3]", "layers=1", "step_time=1.0", "transition=0.1", "dropout=[0.2, 0.3]"]
    few += ["history=[1, 2]", "learning_rate=0.001", "batch_windows=2"]
    plan = make_plan(DATA, "search", assignments=few)
    study = Study(tmp_path / "a.study", plan, DATA)
    tried = []
    while (claim := study.claim(99)) is not None:
        tried.append(tuple(end(claim, mrr=10.0 + claim.values["dim"]).values.items()))
    assert len(tried) == len(set(tried)) == plan.points == 8
    assert [(outcome.number, outcome.state) for outcome in study.outcomes()] == [(n, "done") for n in range(8)]
    assert plan.size is None  # no grid: nobody asked for all of them


def test_a_trial_whose_worker_is_gone_is_taken_up_and_given_up_in_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.study"
    first = Study(path, SEARCH, DATA).claim(2)
    assert first is not None
    for _ in range(5):  # stops that were asked for are no kills
        first.let_go()
        first = Study(path, SEARCH, DATA).claim(2)
        assert first is not None
        assert (first.number, first.starts) == (0, 1)
    for starts in range(2, MOST_STARTS + 1):
        first.hold.release()  # as when its process dies
        again = Study(path, SEARCH, DATA).claim(2)
        assert again is not None
        assert (again.number, again.starts, again.values) == (0, starts, first.values)
        first = again
    first.hold.release()
    last = Study(path, SEARCH, DATA).claim(2)
    assert last is not None
    assert last.number == 1
    given_up = Study(path, SEARCH, DATA).outcomes()[0]
    assert given_up.state == "failed"
    assert "killed 3 times" in given_up.note
    last.hold.release()


@pytest.mark.parametrize("pruner", PRUNERS)
def test_pruners_give_up_what_is_behind(pruner: str, tmp_path: Path) -> None:
    study = Study(tmp_path / "a.study", make_plan(DATA, "search", assignments=["epochs=4"]), DATA, pruner)
    for number in range(7):
        claim = study.claim(7)
        assert claim is not None
        mrr = 40.0 + number if number < 6 else 2.0
        epochs = [Progress(epoch=epoch, best_mrr=mrr) for epoch in range(1, 5)]
        behind = [claim.report(progress) for progress in epochs]
        claim.done(epochs[-1])
    assert any(behind) == (pruner != "none")
    best = best_of(study.outcomes())
    assert best is not None
    assert (best.number, best.mrr, best.epochs) == (5, 45.0, 4)


def test_a_study_is_of_one_search_on_the_same_facts(tmp_path: Path) -> None:
    path = tmp_path / "a.study"
    Study(path, SEARCH, DATA)
    with pytest.raises(RunError, match="a study of other facts"):
        Study(path, SEARCH, make_dataset(5))
    other = make_plan(DATA, "search", assignments=["dim=[2, 4]", "clip=0.5"])
    with pytest.raises(RunError, match=r"dim: \[2, 3\] there, \[2, 4\] here; clip: none there, 0.5 here"):
        Study(path, other, DATA)
    Study(path, make_plan(DATA, "search", assignments=["dim=[2, 3]", "device=cpu"]), DATA)  # where is no matter


def test_the_test_part_is_no_part_of_a_study() -> None:
    assert digest(DATA) == digest(type(DATA)(DATA.train, DATA.valid, DATA.test.select(slice(0)), "other"))


def test_a_line_that_was_torn_is_dropped_and_a_file_that_is_no_study_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.study"
    end(Study(path, SEARCH, DATA).claim(3))
    with path.open("ab") as file:
        file.write(b'{"op_code":4,"worker_')
    study = Study(path, SEARCH, DATA)
    end(study.claim(3))
    assert len(study.outcomes()) == 2
    stranger = tmp_path / "notes.txt"
    stranger.write_text("mine")
    with pytest.raises(RunError, match="damaged, or not a study"):
        Study(stranger, SEARCH, DATA)
    assert stranger.read_text() == "mine"
    path.write_bytes(path.read_bytes().replace(b'"op_code":4', b'"op_code":4,,', 1))
    with pytest.raises(RunError, match="damaged, or not a study"):
        Study(path, SEARCH, DATA)
    with pytest.raises(RunError, match="found a folder"):
        Study(tmp_path, SEARCH, DATA)

"""What ``tango reproduce`` tells: where runs are kept, how they go, whether they agree, and what a name means."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from reproduce_small import HERE, a_job, made_up, small
from tangokg.cli import main, reproduce_board
from tangokg.cli.output import Output
from tangokg.cli.reproduce_board import Board
from tangokg.reproduce import experiments, runs
from tangokg.reproduce.store import write_result

__all__ = ["small"]  # the fixture

LABEL = f"{HERE} seed 0"
VERDICTS = [
    ((), "; nothing is stored to compare it with"),
    ((0.0,), "(1 seed): the same"),
    ((0.5,), "(1 seed): 0.50 below"),
    ((-0.5,), "(1 seed): 0.50 above"),
    ((-0.5, 0.5, 0.0), "± 0.50 (3 seeds): within two standard deviations"),
    ((2.0, 3.0, 4.0), "± 1.00 (3 seeds): 1.00 below what two standard deviations allow"),
    ((-3.5, -3.5), "± 0.00 (2 seeds): 3.50 above what two standard deviations allow"),
    ((0.0, 0.0), "± 0.00 (2 seeds): within two standard deviations"),
]


def make(tmp_path: Path, *words: str, only: str = HERE) -> int:
    own = ["--work", str(tmp_path / "work"), "--results", str(tmp_path / "results"), "--device", "cpu"]
    return main(["reproduce", "--run", "--only", only, *own, *words])


def lines_on(told: str, what: str) -> list[str]:
    return [line for line in told.splitlines() if what in line]


@pytest.mark.usefixtures("small")
def test_a_run_says_where_it_is_kept_and_what_it_replaces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "work" / HERE / "0"
    assert make(tmp_path, "--seeds", "1") == 0
    first = capsys.readouterr().err
    assert lines_on(first, "kept in") == [f"kept in {place}"]
    assert place.is_dir()
    assert "replaced" not in first
    assert make(tmp_path, "--seeds", "2", "--again") == 0
    second = capsys.readouterr().err
    assert lines_on(second, "replaced") == [f"{LABEL}: the finished run in {place} is replaced"]
    assert lines_on(second, "kept in") == [f"kept in {tmp_path / 'work'}, each in PRESET/DATA/SEED"]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("pause", "epochs"), [(0.0, [1, 2, 3]), (600.0, [])])
def test_epochs_are_told_where_there_is_no_terminal(
    pause: float,
    epochs: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(reproduce_board, "PAUSE", pause)
    assert make(tmp_path, "--seeds", "1") == 0
    told = lines_on(capsys.readouterr().err, f"{LABEL}: epoch ")
    assert [line.partition(", validation MRR ")[0] for line in told] == [f"{LABEL}: epoch {n}" for n in epochs]


@pytest.mark.usefixtures("small")
def test_epochs_of_another_process_are_told_once_and_those_of_an_earlier_call_never(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reproduce_board, "PAUSE", 0.0)
    old, new = {"epoch": 1.0, "loss": 1.0, "valid_mrr": 30.0, "seconds": 5.0}, {"epoch": 1.0, "seconds": 7.0}
    job = a_job()
    with Board(Output(), 1, tmp_path) as board:
        board.begin(job)
        for log in ([old], [old], [], [new], [new]):
            board.look(job, log)
        board.end(job, "done")
    assert capsys.readouterr().err.splitlines() == [f"{LABEL}: begun", f"{LABEL}: epoch 1, 7 s", f"{LABEL}: done"]


def test_a_wide_table_breaks_its_headings_and_no_word_on_the_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["reproduce", "dynamics", "--results", str(tmp_path)]) == 0
    first = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert (first.count("ICEWS05-15,"), first.count("TANGO-DistMult")) == (2, 4)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("stored", "verdict"), VERDICTS)
def test_a_run_made_again_is_compared_with_what_is_stored(
    stored: tuple[float, ...],
    verdict: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """``stored`` lies so far above 40, which the run shows."""
    experiment = experiments()[HERE]
    for seed, above in enumerate(stored):
        write_result(tmp_path / "results", HERE, made_up(experiment, 40.0 + above, seed))
    monkeypatch.setattr("tangokg.reproduce.pool.make_result", lambda *_: made_up(experiment, 40.0))
    assert make(tmp_path, "--seeds", "1", "--again") == 0
    (line,) = lines_on(capsys.readouterr().out, f"{LABEL}: test MRR 40.00")
    assert line.endswith(verdict)
    assert (f"stored {40.0 + stored[0]:.2f} for this seed, " in line) if len(stored) > 1 else "this seed" not in line


@pytest.mark.usefixtures("small")
def test_with_one_stored_seed_the_difference_alone_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = next(name for name, experiment in experiments().items() if experiment.seeds == 1)
    result = made_up(experiments()[name])
    write_result(tmp_path / "results", name, result)
    monkeypatch.setattr("tangokg.reproduce.pool.make_result", lambda *_: result)
    assert make(tmp_path, "--again", only=name) == 0
    assert f"{name} seed 0: test MRR 40.00, stored 40.00 (1 seed): the same" in capsys.readouterr().out


@pytest.mark.usefixtures("small")
def test_a_run_that_another_process_makes_is_waited_for_aloud(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runs, "WAIT", 0.01)
    lock = a_job().lock(tmp_path / "work")
    assert lock.try_acquire()
    release = threading.Timer(0.5, lock.release)
    release.start()
    assert make(tmp_path, "--seeds", "1") == 0
    release.join()
    waited = lines_on(capsys.readouterr().err, "waiting")
    assert waited == [f"{LABEL}: another process makes it; waiting"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("paper-tucker", "a preset"),
        ("authors", "a family of presets"),
        ("ICEWS14s", "a data set"),
        (HERE, "a preset on a data set"),
    ],
)
def test_what_can_only_be_run_is_told_with_the_command(
    name: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", name]) == 2
    told = capsys.readouterr().err
    assert f"{name} is {kind}, no table or figure" in told
    assert f"`tango reproduce --run --only {name}`" in told


def test_the_list_ends_with_every_preset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--list", "--results", str(tmp_path)]) == 0
    _, _, listed = capsys.readouterr().out.partition("PRESET/DATA: ")
    assert set(listed.replace(",", " ").split()) == {experiment.preset for experiment in experiments().values()}


@pytest.mark.parametrize(("words", "warns"), [(["--list"], True), (["main"], True), (["settings"], False)])
def test_a_folder_of_results_that_is_not_there_is_told(
    words: list[str],
    warns: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", *words]) == 0
    warning = "no results in results: run it in the repository, or give --results"
    assert (warning in capsys.readouterr().err) == warns


def test_help_says_how_seeds_count_and_how_to_check_a_number(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["reproduce", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "1 means seed 0 alone" in told
    assert "--run --again --only paper-tucker/ICEWS14s --seeds 1" in told

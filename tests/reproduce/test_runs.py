"""Runs from data to cells: cut short and gone on with, side by side in other processes, through the command line."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from reproduce_small import HERE, Quiet, a_job, few_facts, made_up, small
from tangokg.cli import main
from tangokg.errors import ConfigError, TrainingError
from tangokg.forecast import Forecaster
from tangokg.reproduce import experiments, pool, read_results
from tangokg.reproduce.cells import cells_of
from tangokg.reproduce.measure import OutOfTime, by_change, measure, with_settings
from tangokg.reproduce.pool import OUT_OF_TIME, Budget, one_by_one, side_by_side
from tangokg.reproduce.presets import APART
from tangokg.reproduce.runs import Job, chosen, make_result, missing
from tangokg.reproduce.worker import main as work_off
from tangokg.snapshots.timeline import build_timeline
from tangokg.train import Interrupted, build_model

__all__ = ["small"]  # the fixture

INF = float("inf")


@pytest.mark.usefixtures("small")
def test_a_run_that_is_cut_short_ends_where_one_that_is_not_ends(tmp_path: Path) -> None:
    job = a_job(needs=("inductive",))
    whole = make_result(job, tmp_path / "whole", "cpu", INF, INF)
    with pytest.raises(OutOfTime):
        make_result(job, tmp_path / "parts", "cpu", 0.0, INF)  # after the first step
    with pytest.raises(OutOfTime):
        make_result(job, tmp_path / "parts", "cpu", INF, 0.0)  # trained, and no time to measure
    parts = make_result(job, tmp_path / "parts", "cpu", INF, INF)
    for key in ("valid", "test", "protocols", "config", "epochs", "queries"):
        assert parts[key] == whole[key]
    assert [whole["preset"], whole["dataset"]] == HERE.split("/")


@pytest.mark.usefixtures("small")
def test_every_protocol_that_a_cell_needs_is_measured(tmp_path: Path) -> None:
    job = Job.of(experiments()[HERE], 0)
    result = make_result(job, tmp_path, "cpu", INF, INF)
    assert set(result["protocols"]) == set(job.needs)
    write = tmp_path / "results" / HERE
    write.mkdir(parents=True)
    (write / "0.json").write_text(json.dumps(result))
    results = read_results(tmp_path / "results")
    assert not results.stale
    assert not [j for j in missing(results, [HERE]) if j.seed == 0]
    assert [cell for cell in cells_of(HERE) if results.value(cell) is None] == []
    for need in job.needs:  # a protocol that a cell needs and a result lacks is measured
        less = {name: found for name, found in result["protocols"].items() if name != need}
        (write / "0.json").write_text(json.dumps(result | {"protocols": less}))
        assert [j.seed for j in missing(read_results(tmp_path / "results"), [HERE], seeds=1)] == [0]
    ahead, single = result["protocols"]["horizon"]["1"]["raw"], result["test"]["raw"]
    assert ahead["mrr"] == pytest.approx(single["mrr"])  # every snapshot before is at least one step away


def untrained(name: str = HERE) -> Forecaster:
    dataset = few_facts("ICEWS05-15")
    config = a_job(name=name).run_config("cpu")
    model = build_model(config, build_timeline(dataset.train))
    model.settle(build_timeline(dataset.train))
    return Forecaster(model, dataset, config)


@pytest.mark.usefixtures("small")
def test_groups_by_change_are_the_halves_by_the_norm_of_the_transition() -> None:
    forecaster = untrained()
    found = by_change(forecaster)
    rows = sorted(found["rows"], key=lambda row: (-row[1], row[0]))
    half = rows[: (len(rows) + 1) // 2]
    queries = sum(row[3] for row in half)
    assert found["larger"]["queries"] == queries
    assert found["larger"]["mrr"] == pytest.approx(sum(row[2] * row[3] for row in half) / queries, abs=0.01)
    assert found["all"]["mrr"] == pytest.approx(forecaster.evaluate()["time-aware"].mrr)
    facts = {(s, r, o, t) for s, r, o, t in zip(*(getattr(forecaster.facts, c).tolist() for c in "srot"), strict=True)}
    times = sorted({fact[3] for fact in facts})
    for t, norm, *_ in rows:  # reciprocal edges change as their facts do
        now, before = ({f[:3] for f in facts if f[3] == u} for u in (t, times[times.index(t) - 1]))
        assert norm == 2 * len(now ^ before)


@pytest.mark.usefixtures("small")
def test_ablated_models_have_the_same_weights() -> None:
    forecaster = untrained()
    off = with_settings(forecaster, {"ode": False})
    still = with_settings(forecaster, {"step_time": 0.0})
    assert all(torch.equal(a, b) for a, b in zip(off.model.parameters(), still.model.parameters(), strict=True))
    assert off.evaluate().to_dict() == still.evaluate().to_dict()


@pytest.mark.usefixtures("small")
def test_a_budget_that_is_spent_leaves_runs_and_a_failure_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(job: Job, *_: Any) -> dict[str, Any]:
        if job.seed == 0:
            raise TrainingError("too hot")
        if job.seed == 1:
            raise OutOfTime
        return {"test": {"time-aware": {"mrr": 1.0}}, "epochs": 1}

    monkeypatch.setattr(pool, "make_result", make)
    board, kept = Quiet(), []
    jobs = [a_job(seed) for seed in range(3)]
    outcome = one_by_one(jobs, tmp_path, "cpu", Budget(), board, lambda job, _: kept.append(job.seed))
    assert ([j.seed for j, _ in outcome.failed], [j.seed for j in outcome.waiting], kept) == ([0], [1], [2])
    assert f"fail {HERE} seed 0: too hot" in board.heard
    spent = Budget(train=time.monotonic() - 1, last=INF)
    assert one_by_one(jobs, tmp_path, "cpu", spent, board, lambda *_: None).waiting == jobs
    ends = Budget.of(600.0)
    assert ends.last - ends.train == pytest.approx(60.0)


def test_a_run_gets_the_ends_of_the_budget_in_this_process_and_in_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget, got = Budget.of(600.0), []

    def make(job: Job, work: Path, device: str, train: float, last: float, *_: Any) -> dict[str, Any]:
        got.append((train, last))
        return {"test": {"time-aware": {"mrr": 1.0}}, "epochs": 1}

    with monkeypatch.context() as patch:
        patch.setattr(pool, "make_result", make)
        one_by_one([a_job()], tmp_path, "cpu", budget, Quiet(), lambda *_: None)
    monkeypatch.setattr(pool, "LOOK", 0.02)
    side_by_side([a_job()], 2, tmp_path, "cpu", budget, Quiet(), lambda *_: None, fake)
    order = json.loads(a_job().folder(tmp_path).with_name("0.order.json").read_text())
    since = time.time() - time.monotonic()  # of the clock that all processes share
    got.append((order["train"] - since, order["last"] - since))
    assert got == [pytest.approx((budget.train, budget.last), abs=0.5)] * 2
    assert order["device"] == "cpu"


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("workers", [None, 1, 3])
def test_the_command_hands_on_its_budget_and_how_many_run_side_by_side(
    workers: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    got: list[tuple[int, float]] = []

    def alone(jobs: list[Job], work: Path, device: str, budget: Budget, *_: Any) -> pool.Outcome:
        return beside(jobs, 1, work, device, budget)

    def beside(jobs: list[Job], many: int, work: Path, device: str, budget: Budget, *_: Any) -> pool.Outcome:
        got.append((many, budget.last - time.monotonic()))
        return pool.Outcome(waiting=list(jobs))

    monkeypatch.setattr(pool, "one_by_one", alone)
    monkeypatch.setattr(pool, "side_by_side", beside)
    monkeypatch.setattr(pool, "room", lambda device: 2)
    words = ["-q", "reproduce", "--run", "--only", HERE, "--budget", "8m", "--results", str(tmp_path)]
    assert main([*words, *([] if workers is None else ["--workers", str(workers)])]) == 0
    ((many, left),) = got
    assert many == (workers or 2)
    assert left == pytest.approx(480, abs=5)


@pytest.mark.usefixtures("small")
def test_the_one_file_grows_with_each_run_and_what_it_holds_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = tmp_path / "one.json"
    made: list[int | None] = []

    def make(job: Job, *_: Any) -> dict[str, Any]:
        found = json.loads(packed.read_text())["results"] if packed.exists() else []
        assert [result["seed"] for result in found] == [*range(job.seed)]  # the runs before are safe
        if len(made) in (2, 3):
            made.append(None)
            raise TrainingError("too hot")
        made.append(job.seed)
        return made_up(experiments()[HERE], seed=job.seed) | {"protocols": {need: {} for need in job.needs}}

    monkeypatch.setattr(pool, "make_result", make)
    words = ["-q", "reproduce", "--run", "--only", HERE, "--device", "cpu", "--out", str(packed), "--seeds"]
    words = [*words, "3", "--results", str(tmp_path / "results"), "--work", str(tmp_path / "work")]
    assert [main(words) for _ in range(3)] == [2, 2, 0]
    assert made == [0, 1, None, None, 2]
    assert not (tmp_path / "results").exists()


FAKE = """
import json, signal, sys, time
from pathlib import Path
order = Path(sys.argv[1])
job = json.loads(order.read_text())["job"]
if job["seed"] == 9:
    signal.signal(signal.SIGTERM, lambda *_: (order.with_suffix(".stopped").write_text("once"), sys.exit(143)))
    order.with_suffix(".ready").write_text("")
    time.sleep(60)
if job["seed"] == 1:
    sys.exit(75)
short = order.parent / "5.short"
while job["seed"] in (6, 7) and not short.exists():
    time.sleep(0.02)
if job["seed"] == 8 or (job["seed"] == 5 and not short.exists()):
    short.write_text("")
    print("error: short of memory")
    sys.exit(76)
if job["seed"] == 2:
    sys.exit("error: no luck")
result = {"test": {"time-aware": {"mrr": 5.0}}, "epochs": 1, "seed": job["seed"]}
order.with_suffix(".result.json").write_text(json.dumps(result))
"""


def fake(order: Path) -> list[str]:
    return [sys.executable, "-S", "-c", FAKE, str(order)]


def test_runs_side_by_side_end_each_in_its_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "LOOK", 0.02)
    board = Quiet()
    jobs = [a_job(seed) for seed in range(4)]
    kept: list[int] = []
    outcome = side_by_side(jobs, 2, tmp_path, "cpu", Budget(), board, lambda j, _: kept.append(j.seed), fake)
    assert sorted(kept) == [0, 3]
    assert [job.seed for job in outcome.waiting] == [1]
    assert [(job.seed, why) for job, why in outcome.failed] == [(2, "no luck")]
    assert OUT_OF_TIME == 75


def test_a_run_that_found_too_little_memory_beside_others_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 5 fails once, seed 8 always; 6 and 7 last until 5 has failed."""
    monkeypatch.setattr(pool, "LOOK", 0.02)
    board, kept = Quiet(), []
    jobs = [a_job(seed) for seed in (6, 7, 5, 0, 8)]
    outcome = side_by_side(jobs, 3, tmp_path, "cpu", Budget(), board, lambda j, _: kept.append(j.seed), fake)
    assert sorted(kept) == [0, 5, 6, 7]
    assert [(job.seed, why) for job, why in outcome.failed] == [(8, "short of memory")]
    begun = [heard for heard in board.heard if heard.startswith(f"begin {HERE} seed 5")]
    assert len(begun) == 2
    assert any("again later, 2 side by side" in heard for heard in board.heard)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_an_interruption_stops_each_worker_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "LOOK", 0.02)
    job = a_job(9)
    order = job.folder(tmp_path).with_name("9.order.json")

    class Impatient(Quiet):
        def look(self, job: Job, log: list[dict[str, float]]) -> None:
            if order.with_suffix(".ready").exists():
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        side_by_side([job], 2, tmp_path, "cpu", Budget(), Impatient(), lambda *_: None, fake)
    assert order.with_suffix(".stopped").read_text() == "once"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_a_worker_that_goes_on_beyond_the_budget_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "LOOK", 0.02)
    monkeypatch.setattr(pool, "GRACE", 0.0)
    end = time.monotonic() + 0.1
    outcome = side_by_side([a_job(9), a_job(0)], 1, tmp_path, "cpu", Budget(end, end), Quiet(), lambda *_: None, fake)
    assert [job.seed for job in outcome.waiting] == [9, 0]


@pytest.mark.usefixtures("small")
def test_a_worker_leaves_its_result_beside_its_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    order = tmp_path / "0.order.json"
    found = {"job": a_job().to_dict(), "work": str(tmp_path), "device": "cpu"}
    order.write_text(json.dumps(found | {"train": 0.0, "last": 0.0}))
    assert work_off(order) == OUT_OF_TIME
    order.write_text(json.dumps(found))
    assert work_off(order) == 0
    assert json.loads(order.with_suffix(".result.json").read_text())["preset"] == "paper-tucker"
    order.write_text(json.dumps(found | {"device": "abacus"}))
    assert work_off(order) == 2
    assert "'abacus' is unknown" in capsys.readouterr().err


@pytest.mark.usefixtures("small")
def test_the_whole_way_by_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed, results = str(tmp_path / "one.json"), ["--results", str(tmp_path / "results")]
    run = ["-q", "reproduce", "--run", "--only", "horizon", "--seeds", "1", "--device", "cpu", "--out", packed]
    run += ["--work", str(tmp_path / "work"), "--budget", "5m", *results]
    assert main(run) == 0
    assert "42.86" in capsys.readouterr().out
    assert main(run) == 0  # nothing is missing
    assert len(json.loads(Path(packed).read_text())["results"]) == 4
    assert main(["reproduce", "--merge", packed, *results]) == 0
    capsys.readouterr()
    assert main(["reproduce", "horizon", "--json", *results]) == 0
    rows = json.loads(capsys.readouterr().out)["blocks"][0]["rows"]
    ours = {row["from"]: row for row in rows if row["model"] == "TANGO-TuckER"}
    assert float(ours["paper form"]["8"]) > 0
    assert ours["paper"]["8"] == "39.10"
    assert main(["reproduce", "--list", "--json", *results]) == 0
    listed = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert (listed["horizon"]["filled"], listed["horizon"]["of"]) == (32, 32)
    again = [*run[: run.index("--out")], "--again", "--work", str(tmp_path / "work"), *results]
    assert main([word for word in again if word != "-q"]) == 0
    assert "stored" in capsys.readouterr().out


def test_where_only_a_set_that_few_have_is_missing_there_is_nothing_to_do(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TANGOKG_DATA", str(tmp_path))
    monkeypatch.setattr(
        "tangokg.reproduce.runs.missing", lambda *_: [Job.of(experiments()[f"paper-tucker/{APART}"], 0)]
    )
    words = ["reproduce", "--run", "--results", str(tmp_path / "results"), "--work", str(tmp_path / "work")]
    assert main(words) == 0
    assert "Nothing else is missing" in capsys.readouterr().err
    assert main([*words, "--only", APART]) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["horison"], "unknown table or figure 'horison'. Did you mean horizon?"),
        (["--run", "main"], "write `tango reproduce --run --only main`"),
        (["--run", "--only", "ICEWS99"], "no table, preset, family of presets, data set or PRESET/DATA of this name"),
        (["--run", "--only", "nonsense"], "`tango reproduce --list` names tables and presets"),
        (["--run", "--budget", "soon"], "expected a time such as 90s, 8m or 1h"),
        (["--only", "main"], "give --run as well"),
        (["main", "--out", "x.md"], "--out is the file of --run or of --page"),
        (["--run", "--page"], "give one of them"),
        (["--merge", "nothing.json"], "no such file"),
        (["--run", "--only", "ICEWS14"], "the data set ICEWS14 is not here"),
    ],
)
def test_what_cannot_be_done_is_told(
    words: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TANGOKG_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main(["reproduce", *words]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.iterdir())


def test_only_takes_tables_presets_families_sets_and_experiments() -> None:
    assert chosen([HERE]) == {HERE}
    assert {name.partition("/")[2] for name in chosen(["WIKI"])} == {"WIKI"}
    assert chosen(["paper-tucker"]) < chosen([])
    assert "paper-tucker-history-7/ICEWS05-15" in chosen(["history"])
    families = ("paper", "printed", "tango", "authors", "baseline")
    for family in families:
        assert chosen([family]) == {name for name in chosen([]) if name.startswith(f"{family}-")} != set()
    assert chosen(families) == chosen([])
    with pytest.raises(ConfigError, match="Did you mean"):
        chosen(["paper-tuker"])


def test_measure_reports_a_damaged_run(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text("{")
    with pytest.raises(Exception, match="damaged"):
        measure(None, tmp_path, (), "paper-tucker", INF)  # type: ignore[arg-type]

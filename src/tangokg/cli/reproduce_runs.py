"""The runs of ``tango reproduce --run``: which, with what they showed, and how to go on."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tangokg.cli.output import Output, Stopped, counted, make_table
from tangokg.errors import DataError, RunError

if TYPE_CHECKING:
    from tangokg.reproduce import Results
    from tangokg.reproduce.pool import Outcome
    from tangokg.reproduce.runs import Job
    from tangokg.reproduce.store import Value


@dataclass(frozen=True)
class Wishes:
    """What was asked for."""

    only: list[str]
    seeds: int | None
    again: bool
    seconds: float | None
    device: str
    workers: int | None
    out: Path | None
    results: Path
    work: Path


def make_runs(output: Output, wishes: Wishes, as_json: bool) -> None:
    """Make what is missing, tell what it showed; a run that failed makes the command fail at its end."""
    from tangokg.cli.reproduce_board import Board
    from tangokg.reproduce import read_results
    from tangokg.reproduce.checks import check
    from tangokg.reproduce.pool import Budget, one_by_one, room, side_by_side
    from tangokg.reproduce.runs import missing
    from tangokg.reproduce.store import pack, unpack, write_result
    from tangokg.train import Interrupted

    stored = read_results(wishes.results)
    packed = unpack(wishes.out) if wishes.out is not None and wishes.out.exists() else []
    for result in packed:
        stored.add(f"{result['preset']}/{result['dataset']}", result, str(wishes.out))
    made = {(f"{result['preset']}/{result['dataset']}", result["seed"]) for result in packed}
    wanted = missing(stored, wishes.only, wishes.seeds, wishes.again)
    todo = [job for job in wanted if (job.config, job.seed) not in made or not wishes.again]
    jobs = _with_data(output, todo, named=bool(wishes.only))
    if not jobs:
        output.say(f"Nothing {'else ' if todo else ''}is missing. --again makes runs that are there once more.")

    def keep(job: Job, result: dict[str, Any]) -> None:
        check(result, job.label)  # what could not be read again is not kept
        if wishes.out is not None:
            packed.append(result)
            pack(wishes.out, packed)
        elif not wishes.again or job.seed not in stored.found.get(job.config, {}):
            write_result(wishes.results, job.config, result)

    budget, workers = Budget.of(wishes.seconds), wishes.workers or room(wishes.device)
    try:
        with Board(output, len(jobs), wishes.work) as board:
            if workers == 1:
                outcome = one_by_one(jobs, wishes.work, wishes.device, budget, board, keep)
            else:
                outcome = side_by_side(jobs, workers, wishes.work, wishes.device, budget, board, keep)
    except Interrupted as stop:
        text = f"interrupted; runs under way are in {wishes.work}. Go on with:\n  {_command(output)}"
        raise Stopped(text, stop.status) from stop
    _report(output, outcome, stored, as_json)
    if wishes.again and not as_json:
        for result in outcome.results:
            output.show(_verdict(result, stored))
    _tell_kept(output, outcome, wishes.work)
    _what_next(output, outcome, wishes)


def _command(output: Output) -> str:
    return shlex.join(["tango", *output.words])


def _with_data(output: Output, jobs: list[Job], named: bool) -> list[Job]:
    """The jobs whose sets are here; where none is, that is an error, unless nobody asked for a set that few have."""
    from tangokg.reproduce.pool import without_data
    from tangokg.reproduce.presets import APART

    absent = dict(without_data(jobs))
    there = [job for job in jobs if job.source not in absent]
    if absent and not there and (named or set(absent) != {APART}):
        raise DataError(
            f"{counted(len(jobs), 'run')} to make, and no set for any of them: {'; '.join(absent.values())}. "
            "Set TANGOKG_DATA to the folder that holds it, or download it: `tango data list` says what can be had."
        )
    for source, why in absent.items():
        skipped = sum(job.source == source for job in jobs)
        output.say(f"note: {counted(skipped, 'run')} of {source} left out: {why}")
    return there


def _report(output: Output, outcome: Outcome, stored: Results, as_json: bool) -> None:
    """Each run that was made, beside the paper and what was stored before."""
    if as_json:
        output.json(outcome.results)
        return
    rows = [_row(result, stored) for result in outcome.results]
    if rows:
        headings = ("run", "seed", "epochs", "valid MRR", "test MRR", "paper", "stored")
        output.show(make_table("time-aware, in per cent", headings, rows))


def _row(result: dict[str, Any], stored: Results) -> list[str]:
    from tangokg.reproduce.cells import cells_of, tables
    from tangokg.reproduce.view import number, paper_number

    config = f"{result['preset']}/{result['dataset']}"
    cells = [cell for cell in cells_of(config) if (cell.protocol, cell.metric) == (("test", "time-aware"), "mrr")]
    printed = [tables()[c.table].paper for c in cells]
    published = next((p.get(c.row, c.column, "mrr") for p, c in zip(printed, cells, strict=True) if p), None)
    before = _before(config, stored)
    valid = f"{result['valid']['time-aware']['mrr']:.2f}" if "valid" in result else ""
    return [
        config,
        str(result["seed"]),
        str(result["epochs"]),
        valid,
        f"{result['test']['time-aware']['mrr']:.2f}",
        paper_number(published, "mrr"),
        number(before, "mrr") if before else "",
    ]


def _before(config: str, stored: Results) -> Value | None:
    """The test MRR that was stored before, also where no table shows it."""
    from tangokg.reproduce.cells import RUN, Cell

    return stored.value(Cell("", "", "", RUN, "mrr", config, ("test", "time-aware")))


def _verdict(result: dict[str, Any], stored: Results) -> str:
    """Whether a run that was made again shows what is stored."""
    from tangokg.reproduce.view import number

    config, mrr = f"{result['preset']}/{result['dataset']}", result["test"]["time-aware"]["mrr"]
    told = f"{config} seed {result['seed']}: test MRR {mrr:.2f}"
    before = _before(config, stored)
    if before is None:
        return f"{told}; nothing is stored to compare it with"
    of_seed = stored.found[config].get(result["seed"]) if before.seeds > 1 else None
    own = f"{of_seed['test']['time-aware']['mrr']:.2f} for this seed, " if of_seed else ""
    return f"{told}, stored {own}{number(before, 'mrr')} ({counted(before.seeds, 'seed')}): {_distance(mrr, before)}"


def _distance(mrr: float, before: Value) -> str:
    side = "above" if mrr > before.mean else "below"
    if before.spread is None:
        apart = round(abs(mrr - before.mean), 2)
        return f"{apart:.2f} {side}" if apart else "the same"
    beyond = round(abs(mrr - before.mean) - 2 * before.spread, 2)
    return f"{beyond:.2f} {side} what two standard deviations allow" if beyond > 0 else "within two standard deviations"


def _tell_kept(output: Output, outcome: Outcome, work: Path) -> None:
    """Where the runs are that were made."""
    if len(outcome.results) == 1:
        (result,) = outcome.results
        output.say(f"kept in {work / result['preset'] / result['dataset'] / str(result['seed'])}")
    elif outcome.results:
        output.say(f"kept in {work}, each in PRESET/DATA/SEED")


def _what_next(output: Output, outcome: Outcome, wishes: Wishes) -> None:
    if outcome.hopeless:
        raise RunError(
            f"stopped: {len(outcome.failed)} runs failed and none succeeded, the last ones with the same message: "
            f"{outcome.hopeless}\nWhat was trained is in {wishes.work}, and is not trained again. "
            f"{counted(len(outcome.waiting), 'run')} left. When it is mended go on with:\n  {_command(output)}"
        )
    if outcome.waiting:
        output.say(f"{counted(len(outcome.waiting), 'run')} left. Go on with:\n  {_command(output)}")
    elif outcome.results and wishes.out is not None:
        output.say(
            f"The results are in {wishes.out}. Put them in their place with:\n  "
            f"tango reproduce --merge {shlex.quote(str(wishes.out))}"
        )
    if outcome.failed:
        texts = "; ".join(f"{job.label}: {why}" for job, why in outcome.failed)
        raise RunError(
            f"{counted(len(outcome.failed), 'run')} failed: {texts}\nWhat was trained is in {wishes.work}; the same "
            f"command goes on with it."
        )

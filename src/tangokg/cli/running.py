"""The runs of ``tango reproduce --run``: which, with what they showed, and how to go on."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tangokg.cli.output import Output, counted, make_table
from tangokg.errors import DataError, RunError

if TYPE_CHECKING:
    from tangokg.reproduce import Results
    from tangokg.reproduce.pool import Outcome
    from tangokg.reproduce.runs import Job
    from tangokg.train import Progress, TrainSettings


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
    from tangokg.reproduce import read_results
    from tangokg.reproduce.pool import Budget, one_by_one, room, side_by_side
    from tangokg.reproduce.runs import missing
    from tangokg.reproduce.store import check, pack, unpack, write_result
    from tangokg.train import Interrupted

    stored = read_results(wishes.results)
    packed = unpack(wishes.out) if wishes.out is not None and wishes.out.exists() else []
    for result in packed:
        stored.add(f"{result['preset']}/{result['dataset']}", result, str(wishes.out))
    made = {(f"{result['preset']}/{result['dataset']}", result["seed"]) for result in packed}
    wanted = missing(stored, wishes.only, wishes.seeds, wishes.again)
    jobs = _with_data(output, [job for job in wanted if (job.config, job.seed) not in made or not wishes.again])
    if not jobs:
        output.say("Nothing is missing. --again makes runs that are there once more.")

    def keep(job: Job, result: dict[str, Any]) -> None:
        check(result, job.label)  # what could not be read again is not kept
        if wishes.out is not None:
            packed.append(result)
            pack(wishes.out, packed)
        elif not wishes.again or job.seed not in stored.found.get(job.config, {}):
            write_result(wishes.results, job.config, result)

    budget, workers = Budget.of(wishes.seconds), wishes.workers or room(wishes.device)
    try:
        with Board(output, len(jobs)) as board:
            if workers == 1:
                outcome = one_by_one(jobs, wishes.work, wishes.device, budget, board, keep)
            else:
                outcome = side_by_side(jobs, workers, wishes.work, wishes.device, budget, board, keep)
    except Interrupted as stop:
        stop.args = (f"interrupted; runs under way are in {wishes.work}. Go on with:\n  {_command(output)}",)
        raise
    _report(output, outcome, stored, as_json)
    _what_next(output, outcome, wishes)


def _command(output: Output) -> str:
    return shlex.join(["tango", *output.words])


def _with_data(output: Output, jobs: list[Job]) -> list[Job]:
    """The jobs whose sets are here; where none is, that is an error."""
    from tangokg.reproduce.pool import without_data

    absent = dict(without_data(jobs))
    there = [job for job in jobs if job.source not in absent]
    if absent and not there:
        raise DataError(
            f"{'; '.join(absent.values())}. Set TANGOKG_DATA to the folder that holds it, or download it: "
            f"`tango data list` says what can be had."
        )
    for source, why in absent.items():
        skipped = sum(job.source == source for job in jobs)
        output.say(f"note: {counted(skipped, 'run')} of {source} left out: {why}")
    return there


class Board:
    """Bars on a terminal, one for each run under way and one for all; elsewhere a line when a run begins and ends."""

    def __init__(self, output: Output, total: int) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self.output = output
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
        self.bar = Progress(*columns, console=output.notes, transient=True, disable=not output.notes.is_terminal)
        self.tasks: dict[str, Any] = {}
        self.every = self.bar.add_task(f"{counted(total, 'run')} missing", total=total)

    def __enter__(self) -> Board:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def begin(self, job: Job) -> Heard:
        """A run begins; who hears its epochs is given back."""
        self.tasks[job.label] = self.bar.add_task(job.label, total=None)
        if not self.output.notes.is_terminal:
            self.output.say(f"{job.label}: begun")
        return Heard(self, job)

    def look(self, job: Job, log: list[dict[str, float]]) -> None:
        """The epochs of a run in another process."""
        if log:
            best = max((row.get("valid_mrr", 0.0) for row in log), default=0.0)
            self.tell(job, len(log), best)

    def tell(self, job: Job, epoch: float, best: float, total: int | None = None) -> None:
        """How far a run is."""
        text = f"{job.label}  epoch {int(epoch)}" + (f"  best MRR {best:.2f}" if best > 0 else "")
        self.bar.update(self.tasks[job.label], description=text, completed=epoch, total=total)

    def end(self, job: Job, how: str) -> None:
        """A run ends."""
        self._over(job)
        self.output.say(f"{job.label}: {how}")

    def fail(self, job: Job, why: str) -> None:
        """A run goes wrong: an error at once, also with ``--quiet``."""
        self._over(job)
        self.output.complain(f"{job.label} failed: {why}")

    def _over(self, job: Job) -> None:
        self.bar.remove_task(self.tasks.pop(job.label))
        self.bar.advance(self.every)


class Heard:
    """The reporter of one run in this process."""

    def __init__(self, board: Board, job: Job) -> None:
        self.board, self.job = board, job

    def step(self, progress: Progress, settings: TrainSettings, snapshots: int) -> None:
        epoch = progress.epoch + progress.position / max(snapshots, 1)
        self.board.tell(self.job, epoch, progress.best_mrr, settings.epochs)

    def epoch(self, progress: Progress, settings: TrainSettings) -> None:
        self.board.tell(self.job, progress.epoch, progress.best_mrr, settings.epochs)


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
    before = stored.value(cells[0]) if cells else None
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

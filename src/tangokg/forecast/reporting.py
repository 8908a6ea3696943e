"""A run, or several on the same data -> one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from tangokg.errors import ConfigError, DataError, RunError, check_least, checked
from tangokg.forecast.comparing import Entry, select_models
from tangokg.forecast.forecaster import Forecaster
from tangokg.forecast.measuring import QUESTIONS, Progress, Subject, measure
from tangokg.quads.values import Dataset
from tangokg.report.page import render
from tangokg.train import RunFolder
from tangokg.train.checkpoint import write_atomically

NAME, SUFFIXES = "report.html", (".html", ".htm")

Run = str | Path | Forecaster


@checked
def write_report(
    runs: Run | Sequence[Run],
    path: str | Path | None = None,
    *,
    split: Literal["valid", "test"] = "test",
    horizons: Sequence[float] | None = None,
    questions: int = QUESTIONS,
    overwrite: bool = False,
    allow_seen: bool = False,
    device: str = "auto",
    progress: Progress | None = None,
) -> Path:
    """Measure a run, or several on the same data, write one HTML file about them, and return its path.

    ``runs`` are run folders and forecasters; ``path`` is a file or a folder, by default ``report.html`` in the folder
    of a run, or beside the first of several. ``horizons`` are in the data's unit, by default 1, 2, 4 and 8 usual gaps.
    At most ``questions`` of the part are ranked, drawn evenly where there are more; the report says so. Several runs
    are checked as in :func:`tangokg.compare`. ``progress`` receives (done, of, what).
    """
    check_least("write_report", 1, questions=questions)
    for dt in horizons or ():
        check_least("write_report", 0, above=True, horizons=dt)
    entries = _entries([runs] if isinstance(runs, Run) else runs)
    file = report_file(path, entries[0].path, len(entries), overwrite)
    dataset = _dataset(entries[0])
    for entry in entries[1:]:
        entry.check(dataset, allow_seen, f"runs of one report have the same facts as the first, {entries[0].name}")
    if not len(dataset.parts[split]):
        raise DataError(f"{dataset.name}: the {split} part is empty, so there is nothing to report on; choose another.")
    if len(entries) > 1:
        entries[0].check(dataset, allow_seen)
    forecasters = [entry.obtain(dataset, device) for entry in entries]
    subjects = [Subject(entry, forecaster) for entry, forecaster in zip(entries, forecasters, strict=True)]
    write_atomically(file, render(measure(subjects, split, horizons, questions, progress)).encode())
    return file


def _entries(runs: Sequence[Run]) -> list[Entry]:
    """The runs with distinct names that do not contain a whole path."""
    if not runs:
        raise ConfigError("write_report(): runs is empty; expected at least one run.")
    entries = []
    for run in runs:
        if isinstance(run, Forecaster):
            entries.append(Entry(run.config.model, run.config, run.path, forecaster=run.as_made))
        elif isinstance(run, str | Path):
            entries += select_models(runs=[Path(run)]).entries(None)
        else:
            raise ConfigError(f"write_report(): {run!r:.60} is not a run: expected its folder, or a forecaster.")
    models = [entry.config.model for entry in entries]
    twice = [entry for entry in entries if models.count(entry.config.model) > 1]
    tails = dict(zip(map(id, twice), _tails([entry.path for entry in twice]), strict=True))
    names = [f"{e.config.model} ({tails[id(e)]})" if id(e) in tails else e.config.model for e in entries]
    return [replace(entry, name=name) for entry, name in zip(entries, names, strict=True)]


def _tails(paths: Sequence[Path | None]) -> list[str]:
    """The shortest distinct ends of the paths; numbers if a path is missing or occurs twice."""
    parts = [() if path is None else path.resolve().parts[1:] for path in paths]
    for size in range(1, max(map(len, parts), default=0) + 1):
        tails = ["/".join(names[-size:]) for names in parts]
        if len(set(tails)) == len(tails) and all(tails):
            return tails
    return [str(number) for number in range(1, len(paths) + 1)]


def report_file(path: str | Path | None, run: Path | None, runs: int = 1, overwrite: bool = False) -> Path:
    """The path of a report; raises an error, before anything is measured, if it cannot be written."""
    if path is None and run is None:
        raise ConfigError("write_report(): these forecasters have no run folder; give a path, such as 'report.html'.")
    if path is None:
        assert run is not None
        folder = run.parent if run.name not in ("", "..") else run.resolve().parent
        file = (run if runs == 1 else folder) / NAME
    else:
        file = Path(path) / NAME if Path(path).is_dir() else Path(path)
    if file.suffix.casefold() not in SUFFIXES:
        raise DataError(f"{file}: a report is an HTML file; expected a name that ends in {' or '.join(SUFFIXES)}.")
    if file.is_dir() or not file.absolute().parent.is_dir():
        raise DataError(f"{file}: cannot be written: expected the name of a file in an existing folder.")
    if file.exists() and not overwrite:
        raise RunError(f"{file} exists; replace it (--overwrite, overwrite=True), or choose another name with --out.")
    return file


def _dataset(entry: Entry) -> Dataset:
    """The dataset that an entry was made with."""
    if entry.forecaster is not None:
        return entry.forecaster.dataset
    assert entry.path is not None
    return RunFolder(entry.path).dataset().made_with

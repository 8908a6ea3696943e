"""Results as files, ``results/PRESET/DATA/SEED.json``: read with checks, written whole, packed and taken apart."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tangokg.errors import DataError
from tangokg.reproduce.cells import Cell
from tangokg.reproduce.checks import AGAIN, SCHEMA, check
from tangokg.reproduce.presets import Experiment, experiments
from tangokg.train import make_config
from tangokg.train.checkpoint import write_atomically

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Value:
    """A cell of ours: the mean over seeds, and the standard deviation where there are two or more."""

    mean: float
    spread: float | None
    seeds: int


class Results:
    """All results that are there, by experiment and seed; those of other settings than the preset's are set aside."""

    def __init__(self) -> None:
        self.found: dict[str, dict[int, Result]] = {}
        self.stale: dict[str, str] = {}  # name of the file -> what differs
        self._queries: dict[str, Mapping[str, int]] = {}  # data set -> how many, as its first result has them

    def add(self, name: str, result: Result, where: str) -> None:
        """Take a result of the experiment ``name`` up, or set it aside with the reason."""
        experiment = experiments().get(name)
        if experiment is None:
            self.stale[where] = f"there is no preset {name}"
        elif differs := differences(experiment, result) or self._other_queries(result):
            self.stale[where] = differs
        else:
            self.found.setdefault(name, {})[result["seed"]] = result

    def _other_queries(self, result: Result) -> str:
        """All results of a set answer the same queries; "" where this one does."""
        usual = self._queries.setdefault(result["dataset"], result["queries"])
        other = {part: n for part, n in usual.items() if result["queries"].get(part, n) != n}
        return ", ".join(f"{result['queries'][part]:,} {part} queries instead of {n:,}" for part, n in other.items())

    def of(self, config: str) -> list[Result]:
        """The results of an experiment, in the order of their seeds."""
        return [result for _, result in sorted(self.found.get(config, {}).items())]

    def value(self, cell: Cell) -> Value | None:
        """What fills a cell: None where it is missing."""
        results = self.of(cell.config)
        if cell.metric.endswith("seconds"):
            results = fastest(results, cell.metric)
        numbers = [at(result, *cell.protocol, cell.metric) for result in results]
        there = [float(number) for number in numbers if number is not None]
        if not there:
            return None
        spread = statistics.stdev(there) if len(there) > 1 else None
        return Value(statistics.fmean(there), spread, len(there))


def fastest(results: list[Result], metric: str) -> list[Result]:
    """The one that took least, if any: the others shared their device with more runs, or had a slower one."""
    timed = [result for result in results if result.get(metric) is not None]
    return [min(timed, key=lambda result: float(result[metric]))] if timed else []


def at(result: Result, *keys: str) -> Any:
    """What stands under these keys, one inside the other; None where something is missing."""
    found: Any = result
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


BEFORE: dict[str, dict[str, Any]] = {"train": {"rate_decay": 1.0}}  # of results older than the setting


def differences(experiment: Experiment, result: Result) -> str:
    """In which settings a result departs from its preset; "" where it does not."""
    tables = {"settings": dict(experiment.settings), "train": dict(experiment.train)}
    wanted = make_config(experiment.model, tables, where=experiment.name).to_tables()
    other = [] if result["model"] == experiment.model else [f"model {result['model']}"]
    other += [] if result["dataset"] == experiment.data else [f"data set {result['dataset']}"]
    chosen = {"train": {key: wanted["train"][key] for key in experiment.train}}  # the rest is the machine's concern
    for table, values in ({"settings": wanted.get("settings", {})} | chosen).items():
        for key, value in (BEFORE.get(table, {}) | result["config"].get(table, {})).items():
            if values.get(key, value) not in (value, ""):  # "" is left to the data
                other.append(f"{key} {value} instead of {values[key]}")
    return ", ".join(other)


def read_results(folder: Path) -> Results:
    """All results below a folder; one that is not there holds none."""
    results = Results()
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder}: expected a folder with results, PRESET/DATA/SEED.json, found a file.")
    for path in sorted(folder.glob("*/*/*.json")):
        result = read_result(path)
        name = f"{path.parts[-3]}/{path.parts[-2]}"
        if path.stem != str(result["seed"]):
            raise DataError(f"{path}: expected the result of seed {path.stem}, found seed {result['seed']}. {AGAIN}")
        results.add(name, result, str(path))
    return results


def read_result(path: Path) -> dict[str, Any]:
    """One result; a file that is damaged or of another form is an error that says so."""
    return check(_load(path), str(path))


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; expected results of `tango reproduce --run --out`.") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: damaged, not JSON ({error}). {AGAIN}") from None


def place_of(folder: Path, config: str, seed: int) -> Path:
    """Where a result is kept."""
    return folder / config / f"{seed}.json"


def write_result(folder: Path, config: str, result: Result) -> Path:
    """Keep a result in its place."""
    path = place_of(folder, config, result["seed"])
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, result)
    return path


def _write(path: Path, value: Any) -> None:
    write_atomically(path, (json.dumps(_rounded(value), indent=1, ensure_ascii=False) + "\n").encode())


def _rounded(value: Any) -> Any:
    """Six digits after the point: more than any table shows, and files that stay small. Settings stay as they are."""
    if isinstance(value, Mapping):
        return {key: item if key == "config" else _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return round(value, 6) if isinstance(value, float) else value


def pack(path: Path, results: Iterable[Result]) -> None:
    """Several results as one file; each names its preset."""
    path.absolute().parent.mkdir(parents=True, exist_ok=True)
    _write(path, {"schema": SCHEMA, "results": list(results)})


def unpack(path: Path) -> list[dict[str, Any]]:
    """The results of a file that :func:`pack` wrote."""
    found = _load(path)
    if not isinstance(found, dict) or not isinstance(found.get("results"), list):
        raise DataError(f"{path}: expected a file of `tango reproduce --run --out`, with a list of results.")
    seen: set[tuple[str, int]] = set()
    for number, result in enumerate(found["results"], 1):
        where = f"{path}, result {number}"
        name = f"{check(result, where).get('preset')}/{result['dataset']}"
        if name not in experiments():
            known = f"preset {result.get('preset')!r} on {result['dataset']!r} is unknown"
            raise DataError(f"{where}: {known}. {AGAIN}")
        if (name, result["seed"]) in seen:
            raise DataError(f"{where}: seed {result['seed']} of {name} stands there twice. {AGAIN}")
        seen.add((name, result["seed"]))
    return list(found["results"])


def merge(path: Path, folder: Path) -> tuple[list[Path], list[Path]]:
    """Take a packed file apart into its places; returns what was written, and what was left because it is as new."""
    written, left = [], []
    for result in unpack(path):
        config = f"{result['preset']}/{result['dataset']}"
        place = place_of(folder, config, result["seed"])
        if place.exists() and read_result(place).get("date", "") >= result.get("date", ""):
            left.append(place)
        else:
            written.append(write_result(folder, config, result))
    return written, left

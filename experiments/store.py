"""Results as files, ``results/PRESET/DATA-SEED.json``; files of any origin are checked when read."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.experiment import Experiment, counts_of, experiments
from tangokg.errors import DataError
from tangokg.rank import FILTERS
from tangokg.train.checkpoint import write_atomically

RESULTS = Path(__file__).parent / "results"
MEAN = "mean"  # in place of a seed: the result of several seeds' averaged shares
NUMBER = (int, float)
TYPES: dict[tuple[type, ...], tuple[str, ...]] = {
    (str,): ("model", "dataset", "device"),
    (dict,): ("files", "config", "test", "queries", "versions", "protocols"),
    (int,): ("seed", "epochs"),
    NUMBER: ("train_seconds",),
    (str, type(None)): ("commit",),
}
BEFORE = {"rate_decay": 1.0, "horizons": 1}  # what results that are older than these settings were made with

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Value:
    """A figure of ours: the mean over seeds, and the standard deviation where there are two or more."""

    mean: float
    spread: float | None
    seeds: int


@dataclass
class Results:
    """All results by experiment and seed, and the averaged ones by experiment."""

    runs: dict[str, dict[int, Result]] = field(default_factory=dict)
    means: dict[str, Result] = field(default_factory=dict)

    def of(self, name: str) -> list[Result]:
        """The results of an experiment, in the order of their seeds."""
        return [result for _, result in sorted(self.runs.get(name, {}).items())]

    def value(self, name: str, *path: str) -> Value | None:
        """The figure at this place in the results of an experiment; None if no result has it.

        Times are those of the fastest run: the others shared their device with more runs, or had a slower one.
        """
        numbers = [number for result in self.of(name) if (number := at(result, *path)) is not None]
        if not numbers:
            return None
        if path[-1].endswith("seconds"):
            return Value(min(numbers), None, 1)
        spread = statistics.stdev(numbers) if len(numbers) > 1 else None
        return Value(statistics.fmean(numbers), spread, len(numbers))

    def mrr(self, name: str, part: str = "test") -> Value | None:
        """The time-aware MRR on a part."""
        return self.value(name, part, "time-aware", "mrr")


def at(result: Result, *keys: str) -> Any:
    """The value under nested keys; None if a key is missing."""
    value: Any = result
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def place_of(folder: Path, experiment: Experiment, seed: int | str) -> Path:
    """The path of a result."""
    return folder / experiment.preset / f"{experiment.data}-{seed}.json"


def write_file(path: Path, content: str) -> None:
    """Write a file atomically, in a folder that is created if missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content.encode())


def write_json(path: Path, values: Result, rounded: Callable[[float], float]) -> None:
    """Write values with their numbers rounded; settings, under ``config``, stay as they are."""
    copy = json.loads(json.dumps(values), parse_float=lambda text: rounded(float(text)))
    copy |= {"config": values["config"]} if "config" in values else {}
    write_file(path, json.dumps(copy, indent=1, ensure_ascii=False) + "\n")


def write_result(path: Path, result: Result) -> None:
    """Write a result, figures with six digits after the point."""
    write_json(path, result, lambda figure: round(figure, 6))


def read_json(path: Path) -> dict[str, Any]:
    """The object that a file holds."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: damaged, not JSON ({error}).") from None
    if not isinstance(result, dict):
        raise DataError(f"{path}: expected a result, found {type(result).__name__}.")
    return result


def read_results(folder: Path = RESULTS, name: str = "*/*") -> Results:
    """All results below a folder, or those of one experiment; one that belongs to no config of today is an error."""
    results = Results()
    known: dict[str, Mapping[str, int]] = {}  # data set -> queries of each part, as its first result has them
    for path in sorted(folder.glob(f"{name}-*.json")):
        data, _, seed = path.stem.rpartition("-")
        experiment = experiments().get(f"{path.parent.name}/{data}")
        if experiment is None:
            raise DataError(f"{path}: there is no config {path.parent.name}/{data}.")
        result = read_json(path)
        if seed == MEAN:
            results.means[experiment.name] = result
            continue
        check(path, experiment, seed, result)
        queries = known.setdefault(data, result["queries"])
        if any(queries.get(part, count) != count for part, count in result["queries"].items()):
            raise DataError(f"{path}: answers {result['queries']} queries; other results of {data} {queries}.")
        results.runs.setdefault(experiment.name, {})[result["seed"]] = result
    return results


def check(path: Path, experiment: Experiment, seed: str, result: Result) -> None:
    """Raise an error for a result that is damaged, not of its file's name, or made with other settings."""
    for types, key in ((types, key) for types, keys in TYPES.items() for key in keys):
        if key not in result:
            raise DataError(f"{path}: has no {key!r}.")
        if not isinstance(result[key], types) or isinstance(result[key], bool):
            raise DataError(f"{path}: {key} is {result[key]!r:.60}, expected {' or '.join(t.__name__ for t in types)}.")
    if result.get("not_comparable"):
        raise DataError(f"{path}: not comparable: {result['not_comparable']}.")
    expected = {"seed": seed, "dataset": experiment.data, "model": experiment.model, "preset": experiment.preset}
    for key, value in expected.items():
        if str(result.get(key, value)) != value:
            raise DataError(f"{path}: expected {key} {value}, found {result[key]}.")
    for part in ("valid", "test"):
        if part in result:
            _check_part(path, result, part)
    if other := changed_settings(experiment, result):
        raise DataError(f"{path}: was made with other settings than its config has now: {other}.")


def _check_part(path: Path, result: Result, part: str) -> None:
    """Check that figures are in per cent, and that each distinct fact counts as two queries at most."""
    figures = [value for name in FILTERS for value in (at(result, part, name) or {"mrr": None}).values()]
    if not all(isinstance(value, NUMBER) and 0 <= value <= 100 for value in figures):
        raise DataError(f"{path}: [{part}] has no MRR between 0 and 100 for each filter.")
    queries, facts = result["queries"].get(part), counts_of(result["dataset"]).get(part)
    if not isinstance(queries, int) or queries <= 0 or queries % 2 or (facts and queries > 2 * facts):
        limit = f", at most {2 * facts:,}" if facts else ""
        raise DataError(f"{path}: {queries!r} queries of [{part}], expected an even number{limit}.")


def changed_settings(experiment: Experiment, result: Result) -> str:
    """The settings in which a result differs from its config; "" if there are none.

    Settings that were added or removed since, or are left to a rule (0 or ""), do not count; nor do settings of
    training that the config does not name: they are the machine's concern.
    """
    config, stored = experiment.config(), result["config"]
    tables, ruled = config.to_tables(), getattr(config.settings, "ruled", ())
    expected = tables.get("settings", {}) | {key: tables["train"][key] for key in experiment.train}
    stored = BEFORE | stored.get("train", {}) | stored.get("settings", {})
    differences = []
    for key, value in expected.items():
        by_rule = value == "" or (key in ruled and not value)
        if key in stored and stored[key] != value and not by_rule:
            differences.append(f"{key} {stored[key]} instead of {value}")
    return ", ".join(differences)

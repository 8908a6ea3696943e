"""The experiments: TOML files of ``configs/`` with a base, overrides for data sets, and variants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

from tangokg.config import read_toml
from tangokg.errors import ConfigError, nearest, offer
from tangokg.quads import KNOWN, Dataset, find, thin_dataset
from tangokg.train import RunConfig, make_config

CONFIGS = Path(__file__).parent / "configs"
KEYS = ("base", "about", "row", "form", "model", "data", "seeds", "measure", "settings", "train", "sets", "variants")
OF_RUN = ("model", "about", "settings", "train", "measure", "row", "form")  # what an experiment takes as it stands
OF_SETS = ("row", "seeds", "measure", "settings", "train")  # keys of [sets.DATA]
OF_VARIANTS = ("about", "data", *OF_SETS)  # keys of [variants.NAME]

THINNED = "ICEWS05-15-thinned"  # the paper's ICEWS05-15_continuous, whose draw is not published
THIN_SEED = 26  # the first draw with as many times as the paper's
THINNED_COUNTS = {  # of that draw
    "train": 146_102,
    "valid": 19_319,
    "test": 17_341,
    "entities": 10_488,
    "relations": 251,
    "times": 1_589,
}


@dataclass(frozen=True)
class Experiment:
    """A config on one data set. Its name, ``PRESET/DATA``, is its file, its variant if it is one, and the set."""

    file: str
    variant: str  # "" for the config itself
    data: str
    seeds: int
    model: str
    about: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    train: Mapping[str, Any] = field(default_factory=dict)
    measure: tuple[str, ...] = ()  # what is measured beside validation and test, by name of experiments.measure
    row: str = ""  # the paper's name of the model; "" where it is in no table of the paper
    form: str = ""  # whose form the model has, as the tables name it

    @property
    def preset(self) -> str:
        return f"{self.file}-{self.variant}" if self.variant else self.file

    @property
    def name(self) -> str:
        return f"{self.preset}/{self.data}"

    def config(self, seed: int = 0, assignments: Iterable[str] = ()) -> RunConfig:
        """The settings of a run; ``assignments`` are ``key=value`` texts on top of those of the file."""
        tables = {"settings": dict(self.settings), "train": dict(self.train)}
        return make_config(self.model, tables, assignments, seed, self.name)


@cache
def experiments(data: tuple[str, ...] = ()) -> dict[str, Experiment]:
    """All experiments of ``configs/`` by name; ``data`` replaces the sets that the files name."""
    return {e.name: e for path in sorted(CONFIGS.glob("*.toml")) for e in read_file(path, data)}


def read_file(path: Path, data: Iterable[str] = ()) -> Iterator[Experiment]:
    """The experiments of a file, none for a mere base; ``data`` replaces the sets that it names."""
    tables = _read_tables(path)
    if "model" not in tables:
        return
    for variant, changed in {"": {}, **tables.get("variants", {})}.items():
        chosen = list(data) or changed.get("data") or tables.get("data", [])
        if not chosen:
            raise ConfigError(f"{path}: names no data set; add data = [...] or give --data.")
        for name in chosen:
            merged = _merge(_merge(tables, tables.get("sets", {}).get(name, {})), changed)
            seeds = (changed if variant else merged).get("seeds", 1)
            merged["measure"] = tuple(merged.get("measure", ()))
            yield Experiment(path.stem, variant, name, seeds, **{key: merged[key] for key in OF_RUN if key in merged})


def _read_tables(path: Path) -> dict[str, Any]:
    """A file merged over its base, with only its own variants."""
    tables = read_toml(path)
    _check(path, "", tables, KEYS)
    for kind, known in (("sets", OF_SETS), ("variants", OF_VARIANTS)):
        for name, table in tables.get(kind, {}).items():
            _check(path, f"[{kind}.{name}]: ", table, known)
    if "base" in tables:
        base = _read_tables(path.with_name(f"{tables.pop('base')}.toml"))
        base.pop("variants", None)
        tables = _merge(base, tables)
    return tables


def _check(path: Path, where: str, table: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in table:
        if key not in known:
            raise ConfigError(f"{path}: {where}unknown key {key!r}.{offer(nearest(key, known))}")


def _merge(base: Mapping[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with the values of ``changed``; tables are merged, anything else is replaced."""
    merged = dict(base)
    for key, value in changed.items():
        nested = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value) if nested else value
    return merged


def choose(patterns: Iterable[str], data: Iterable[str] = ()) -> list[Experiment]:
    """Experiments by file, PRESET, DATA, PRESET/DATA, or a pattern such as ``baseline-*/WIKI``; all for none.

    A pattern that ends in ``.toml`` is the path of a file; ``data`` replaces the sets that the configs name.
    """
    chosen: dict[str, Experiment] = {}
    known = experiments(tuple(data))
    for pattern in list(patterns) or ["*"]:
        if pattern.endswith(".toml"):
            matching = {e.name: e for e in read_file(Path(pattern), data)}
        else:
            matching = {n: e for n, e in known.items() if any(fnmatch(x, pattern) for x in (n, e.preset, e.data))}
        if not matching:
            names = {name for e in known.values() for name in (e.name, e.preset, e.data)}
            raise ConfigError(f"no config matches {pattern!r}.{offer(nearest(pattern, names))}")
        chosen |= matching
    return list(chosen.values())


def open_dataset(data: str) -> Dataset:
    """A known set, a folder or a table; ``NAME-thinned`` is a set with a random subset of its times."""
    source = data.removesuffix("-thinned")
    return find(source) if source == data else thin_dataset(find(source), THIN_SEED)


def counts_of(data: str) -> dict[str, int]:
    """Facts of each part, names and times of a known set; empty for any other."""
    if data == THINNED:
        return THINNED_COUNTS
    if data not in KNOWN:
        return {}
    known = KNOWN[data]
    return {**known.rows, "entities": known.entities, "relations": known.relations, "times": known.timestamps}

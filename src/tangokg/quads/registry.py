"""The known data sets, where data are looked for, and what is in a set."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha1, sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from tangokg.errors import DataError, UnknownName
from tangokg.quads.clock import Clock
from tangokg.quads.folders import PARTS, find_file, read_folder
from tangokg.quads.splits import split
from tangokg.quads.sums import file_sums
from tangokg.quads.tables import read_bytes, read_table
from tangokg.quads.values import Dataset, Quadruples


@dataclass(frozen=True)
class KnownFile:
    """Where a file is published, if anywhere, and the sums of its accepted variants, unpacked."""

    url: str | None
    sums: tuple[str, ...]  # 64 hexadecimal digits: sha256; 40: a git object id

    def accepts(self, data: bytes) -> bool:
        """Whether ``data``, unpacked, is one of the variants."""
        return not sums_of(data).isdisjoint(self.sums)


def sums_of(data: bytes) -> set[str]:
    """The sums by which a file may be known."""
    blob = sha1(b"blob %d\0" % len(data), usedforsecurity=False)  # as git names it
    blob.update(data)
    return {sha256(data).hexdigest(), blob.hexdigest()}


@dataclass(frozen=True)
class KnownSet:
    """What a set must hold: facts as in its files, repeats included, ids as in ``stat.txt``, distinct times."""

    name: str
    about: str
    rows: dict[str, int]  # by part
    entities: int
    relations: int
    timestamps: int
    clock: Clock
    files: dict[str, KnownFile]


def _read_registry() -> dict[str, KnownSet]:
    text = files("tangokg.quads").joinpath("registry.toml").read_text(encoding="utf-8")
    return {name: _known_set(name, entry) for name, entry in tomllib.loads(text).items()}


def _known_set(name: str, entry: dict[str, Any]) -> KnownSet:
    rows = dict(zip(PARTS, entry.pop("rows"), strict=True))
    known = {file: KnownFile(_url(f["from"]), tuple(f["sums"])) for file, f in entry.pop("files").items()}
    return KnownSet(name=name, rows=rows, clock=Clock(**entry.pop("clock")), files=known, **entry)


def _url(place: str) -> str | None:
    owner, _, rest = place.partition("/")
    repository, _, path = rest.partition("/")
    return f"https://raw.githubusercontent.com/{owner}/{repository}/HEAD/{path}" if path else None


KNOWN: dict[str, KnownSet] = _read_registry()


def known_set(name: str) -> KnownSet | None:
    """The known set of this name; case, blanks, hyphens and underscores do not count."""
    return next((known for known in KNOWN.values() if _fold(known.name) == _fold(name)), None)


def _fold(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def cache_folder() -> Path:
    """Where downloaded sets are kept: the user's cache directory of this system."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "tangokg"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "tangokg"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tangokg"


def data_folders() -> list[Path]:
    """Where sets are looked for by name: ``$TANGOKG_DATA``, then the cache."""
    given = os.environ.get("TANGOKG_DATA")
    return [*([Path(given)] if given else []), cache_folder()]


def find(source: str | Path, *, columns: Mapping[str, str] | None = None, unit: str | None = None) -> Dataset:
    """A data set from the path of a table (split 80 / 10 / 10), of a benchmark folder, or from the name of a set."""
    if os.path.isfile(source):
        facts = read_table(source, columns=columns, unit=unit)
        return replace(split(facts, name=Path(source).stem), files=file_sums(Path(source)))
    if columns or unit:
        raise DataError(f"{source}: columns and a unit of time can be given for a table only, and this is no file.")
    if find_file(Path(source), "train.txt"):
        return _read_any_folder(Path(source))
    known = known_set(str(source))
    for place in data_folders():
        folder = place / (known.name if known else str(source))
        if find_file(folder, "train.txt"):
            return read_known(known, folder) if known else _read_any_folder(folder)
    looked = " and ".join(str(place) for place in data_folders())
    if known:
        raise DataError(
            f"the data set {known.name} is not here: looked in {looked}. "
            f"Download it with `tango data get {known.name}`, or set TANGOKG_DATA to the folder that holds it."
        )
    if os.path.isdir(source):
        raise DataError(f"{source}: no benchmark folder: expected train.txt or train.txt.gz in it.")
    hint = f"There is no such file or folder, nor a set of this name in {looked}. Known are {', '.join(KNOWN)}."
    raise UnknownName("data set", str(source), KNOWN, hint=hint)


def read_events(source: Any, *, columns: Mapping[str, str] | None = None, unit: str | None = None) -> Quadruples:
    """All dated facts of a table (a path or an object with the Arrow stream interface), a folder or a named set."""
    if not isinstance(source, str | Path) or os.path.isfile(source):
        return read_table(source, columns=columns, unit=unit)
    return find(source, columns=columns, unit=unit).facts


def read_known(known: KnownSet, folder: Path) -> Dataset:
    """Read a known set; a file with another sum, or other counts than expected, is an error."""
    for name, file in known.files.items():
        path = find_file(folder, name)
        if path and not file.accepts(read_bytes(path)):
            raise DataError(
                f"{path}: the sum is not one of those known for {known.name}: the file is damaged or of another "
                f"version. Take it away and run `tango data get {known.name}`."
            )
    dataset = read_folder(folder, clock=known.clock, name=known.name)
    for part in PARTS:
        if (found := len(getattr(dataset, part))) != known.rows[part]:
            raise DataError(f"{folder / part}.txt: {found:,} facts found; {known.name} has {known.rows[part]:,}.")
    counts = {
        "entities": (dataset.vocab.num_entities, known.entities),
        "relations": (dataset.vocab.num_relations, known.relations),
        "timestamps": (len(np.unique(dataset.facts.t)), known.timestamps),
    }
    for what, (found, expected) in counts.items():
        if found != expected:
            raise DataError(f"{folder}: {found:,} {what} found; {known.name} has {expected:,}.")
    return dataset


def _read_any_folder(folder: Path) -> Dataset:
    """A folder given by path: a known set is recognised by its training part, and must then be whole."""
    train = find_file(folder, "train.txt")
    sums = sums_of(read_bytes(train)) if train else set()
    known = next((k for k in KNOWN.values() if not sums.isdisjoint(k.files["train.txt"].sums)), None)
    return read_known(known, folder) if known else read_folder(folder)


def inspect(dataset: Dataset) -> dict[str, Any]:
    """Counts for people and programs: facts as read and distinct, times, ids used, and what training never saw."""
    seen = _used(dataset.train)
    everything = _used(dataset.facts)
    parts = {part: _inspect_part(getattr(dataset, part), *seen) for part in PARTS}
    return {
        "name": dataset.name,
        "unit": dataset.clock.unit,
        "entities": dataset.vocab.num_entities,
        "entities_used": int(everything[0].sum()),
        "entities_in_train": int(seen[0].sum()),
        "relations": dataset.vocab.num_relations,
        "relations_used": int(everything[1].sum()),
        "relations_in_train": int(seen[1].sum()),
        "timestamps": len(np.unique(dataset.facts.t)),
        "parts": parts,
        "notes": list(dataset.notes),
    }


def _used(facts: Quadruples) -> tuple[Any, Any]:
    """Masks of the entities and relations that occur."""
    entities, relations = np.zeros(facts.vocab.num_entities, bool), np.zeros(facts.vocab.num_relations, bool)
    entities[facts.s] = entities[facts.o] = relations[facts.r] = True
    return entities, relations


def _inspect_part(facts: Quadruples, seen_entities: Any, seen_relations: Any) -> dict[str, Any]:
    rows = np.stack([facts.s, facts.r, facts.o, facts.t])[:, np.lexsort((facts.o, facts.r, facts.s, facts.t))]
    repeats = int((rows[:, 1:] == rows[:, :-1]).all(axis=0).sum())
    unseen = ~(seen_entities[facts.s] & seen_entities[facts.o])
    new_entities, _ = _used(facts)
    span = [facts.t.min(), facts.t.max()] if len(facts) else []
    return {
        "facts": len(facts),
        "distinct": len(facts) - repeats,
        "timestamps": len(np.unique(facts.t)),
        "first_t": int(span[0]) if span else None,
        "last_t": int(span[1]) if span else None,
        "first": facts.clock.format(float(span[0])) if span else None,
        "last": facts.clock.format(float(span[1])) if span else None,
        "self_loops": int((facts.s == facts.o).sum()),
        "unseen_entities": int((new_entities & ~seen_entities).sum()),
        "facts_with_unseen_entity": int(unseen.sum()),
        "share_with_unseen_entity": float(unseen.mean()) if len(facts) else 0.0,
        "facts_with_unseen_relation": int((~seen_relations[facts.r]).sum()),
    }

"""The known data sets, the folders to search for data, and the reader of their folders."""

from __future__ import annotations

import os
import sys
import tomllib
from dataclasses import dataclass, replace
from hashlib import sha1, sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from tangokg.errors import DataError
from tangokg.quads.clock import Clock
from tangokg.quads.files import find_file, read_bytes
from tangokg.quads.folders import PARTS, read_folder
from tangokg.quads.splits import split_at
from tangokg.quads.sums import file_sums
from tangokg.quads.tables import read_table
from tangokg.quads.values import Dataset

__all__ = [
    "KNOWN",
    "KnownFile",
    "KnownSet",
    "cache_folder",
    "data_folders",
    "is_set",
    "known_set",
    "known_sets",
    "read_any_folder",
    "read_known",
    "sums_of",
]


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
    """The expected content of a set: facts as in its files with repeats, ids as in ``stat.txt``, distinct times."""

    name: str
    about: str
    rows: dict[str, int]  # by part
    entities: int
    relations: int
    timestamps: int
    clock: Clock
    files: dict[str, KnownFile]
    cuts: tuple[str, ...] = ()  # where the set is one table: the dates at which validation and test begin

    @property
    def needed(self) -> tuple[str, ...]:
        """The files that a complete set needs."""
        parts = (f"{part}.txt" for part, rows in self.rows.items() if rows)
        return tuple(self.files) if self.cuts else tuple(name for name in parts if name in self.files)

    @property
    def published(self) -> bool:
        """Whether the set can be downloaded."""
        return all(self.files[name].url for name in self.needed)

    def is_in(self, folder: Path) -> bool:
        """Whether the folder has the first file of the set."""
        return find_file(folder, self.needed[0]) is not None


def _read_registry() -> dict[str, KnownSet]:
    text = files("tangokg.quads").joinpath("registry.toml").read_text(encoding="utf-8")
    return {name: _known_set(name, entry) for name, entry in tomllib.loads(text).items()}


def _known_set(name: str, entry: dict[str, Any]) -> KnownSet:
    rows = dict(zip(PARTS, entry.pop("rows"), strict=True))
    known = {file: KnownFile(_url(f["from"]), tuple(f["sums"])) for file, f in entry.pop("files").items()}
    cuts = tuple(entry.pop("cuts", ()))
    return KnownSet(name=name, rows=rows, clock=Clock(**entry.pop("clock")), files=known, cuts=cuts, **entry)


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


def known_sets() -> list[dict[str, Any]]:
    """Each known set with its counts, and the folder where it was found, if any."""
    rows = []
    for known in KNOWN.values():
        folders = [place / known.name for place in data_folders() if known.is_in(place / known.name)]
        rows.append(
            {
                "name": known.name,
                "about": known.about,
                "facts": sum(known.rows.values()),
                "entities": known.entities,
                "relations": known.relations,
                "times": known.timestamps,
                "unit": known.clock.unit,
                "published": known.published,
                "found": str(folders[0]) if folders else None,
            }
        )
    return rows


def cache_folder() -> Path:
    """Where downloaded sets are kept: the user's cache directory of this system."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "tangokg"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "tangokg"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tangokg"


def data_folders() -> list[Path]:
    """The folders to search for sets by name: those of ``$TANGOKG_DATA``, then the cache."""
    folders = os.environ.get("TANGOKG_DATA", "").split(os.pathsep)
    return [*(Path(folder) for folder in folders if folder), cache_folder()]


def is_set(folder: Path) -> bool:
    """Whether a folder holds a benchmark set, or a known one that is a table."""
    return bool(find_file(folder, "train.txt")) or any(k.cuts and k.is_in(folder) for k in KNOWN.values())


def read_known(known: KnownSet, folder: Path) -> Dataset:
    """Read a known set; a file with another sum, or other counts than expected, is an error."""
    for name, file in known.files.items():
        path = find_file(folder, name)
        if path and not file.accepts(read_bytes(path)):
            raise DataError(
                f"{path}: the sum is not one of those known for {known.name}: the file is damaged or of another "
                f"version. Take it away and run `tango data get {known.name}`."
            )
    dataset = _read_whole(known, folder)
    for part in PARTS:
        if (count := len(getattr(dataset, part))) != known.rows[part]:
            raise DataError(f"{folder / part}.txt: {count:,} facts found; {known.name} has {known.rows[part]:,}.")
    counts = {
        "entities": (dataset.vocab.num_entities, known.entities),
        "relations": (dataset.vocab.num_relations, known.relations),
        "timestamps": (len(np.unique(dataset.facts.t)), known.timestamps),
    }
    for subject, (count, expected) in counts.items():
        if count != expected:
            raise DataError(f"{folder}: {count:,} {subject} found; {known.name} has {expected:,}.")
    return dataset


def _read_whole(known: KnownSet, folder: Path) -> Dataset:
    if not known.cuts:
        return read_folder(folder, clock=known.clock, name=known.name)
    facts = read_table(folder / known.needed[0], unit=known.clock.unit)
    return replace(split_at(facts, *known.cuts, name=known.name), files=file_sums(folder))


def read_any_folder(folder: Path, overlap: str | None) -> Dataset:
    """Read a folder given by path: as a known set if it is complete, else as it is."""
    candidates = [known for known in KNOWN.values() if _accepted(known, known.needed[0], folder)]
    complete = next((known for known in candidates if not _differences(known, folder)), None)
    if complete and overlap is None:
        return read_known(complete, folder)
    return _read_alike(candidates[0], folder, overlap) if candidates else read_folder(folder, overlap=overlap)


def _accepted(known: KnownSet, name: str, folder: Path) -> bool:
    path = find_file(folder, name)
    return path is not None and known.files[name].accepts(read_bytes(path))


def _differences(known: KnownSet, folder: Path) -> list[str]:
    """The differences of a folder from a known set: ``test.txt differs``."""
    differences = []
    for name in dict.fromkeys([*known.files, *(f"{part}.txt" for part in PARTS)]):
        path = find_file(folder, name)
        if name not in known.files:
            differences += [f"{name} is there"] if path else []
        elif path is None:
            differences += [f"{name} is missing"] if name in known.needed else []
        elif not known.files[name].accepts(read_bytes(path)):
            differences.append(f"{name} differs")
    return differences


def _read_alike(known: KnownSet, folder: Path, overlap: str | None) -> Dataset:
    """Read a folder with the training part of a known set but other files, with the dates of the set."""
    clock = None if (folder / "clock.toml").is_file() else known.clock
    try:
        dataset = read_folder(folder, clock=clock, overlap=overlap)
    except DataError:
        if clock is None:
            raise
        dataset = read_folder(folder, overlap=overlap)
    other = ", ".join(_differences(known, folder)) or "nothing else differs"
    note = f"its training part is that of {known.name} ({other}); it is taken as it is"
    return replace(dataset, notes=(*dataset.notes, note))

"""The known data sets, and where data are looked for."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha1, sha256
from importlib.resources import files
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from tangokg.errors import DataError, UnknownName, checked
from tangokg.quads.clock import Clock
from tangokg.quads.counts import inspect
from tangokg.quads.files import read_bytes
from tangokg.quads.folders import PARTS, find_file, read_folder
from tangokg.quads.reading import TableKeywords, TableOptions
from tangokg.quads.splits import split, split_at
from tangokg.quads.sums import file_sums
from tangokg.quads.tables import read_table
from tangokg.quads.values import Dataset, Quadruples

__all__ = [
    "KNOWN",
    "KnownFile",
    "KnownSet",
    "cache_folder",
    "data_folders",
    "find",
    "inspect",
    "known_set",
    "read_events",
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
    """What a set must hold: facts as in its files, repeats included, ids as in ``stat.txt``, distinct times."""

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
        """The files without which it is not whole."""
        parts = (f"{part}.txt" for part, rows in self.rows.items() if rows)
        return tuple(self.files) if self.cuts else tuple(name for name in parts if name in self.files)

    @property
    def published(self) -> bool:
        """Whether it can be downloaded."""
        return all(self.files[name].url for name in self.needed)

    def is_in(self, folder: Path) -> bool:
        """Whether its first file is there."""
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


def cache_folder() -> Path:
    """Where downloaded sets are kept: the user's cache directory of this system."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "tangokg"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "tangokg"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tangokg"


def data_folders() -> list[Path]:
    """Where sets are looked for by name: the folders of ``$TANGOKG_DATA``, then the cache."""
    given = os.environ.get("TANGOKG_DATA", "").split(os.pathsep)
    return [*(Path(folder) for folder in given if folder), cache_folder()]


def find(source: str | Path, *, overlap: str | None = None, **keywords: Unpack[TableKeywords]) -> Dataset:
    """A data set from the path of a table (split 80 / 10 / 10), of a benchmark folder, or from the name of a set.

    The keywords say how a table is read (:class:`TableOptions`), ``overlap`` where a step goes that two parts share.
    """
    if os.path.isfile(source):
        if overlap is not None:
            raise DataError(f"{source}: an overlap is settled for a benchmark folder only, and this is a table.")
        facts = read_table(source, **keywords)
        return split(facts, name=Path(source).stem)
    if given := TableOptions(**keywords).given():
        raise DataError(f"{source}: options for a table ({', '.join(given)}) were given, and this is no file.")
    if _is_set(Path(source)):
        return _read_any_folder(Path(source), overlap)
    known = known_set(str(source))
    for place in data_folders():
        folder = place / (known.name if known else str(source))
        if known and known.is_in(folder):
            return read_known(known, folder)
        if not known and _is_set(folder):
            return _read_any_folder(folder, overlap)
    raise _not_found(str(source), known)


def _is_set(folder: Path) -> bool:
    """Whether a folder holds a benchmark set, or a known one that is a table."""
    return bool(find_file(folder, "train.txt")) or any(k.cuts and k.is_in(folder) for k in KNOWN.values())


def _not_found(source: str, known: KnownSet | None) -> DataError:
    looked = " and ".join(str(place) for place in data_folders())
    if known:
        get = f"Download it with `tango data get {known.name}`, or set" if known.published else "Set"
        return DataError(
            f"the data set {known.name} is not here: looked in {looked}. "
            f"{get} TANGOKG_DATA to the folder that holds it."
        )
    if os.path.isdir(source):
        return DataError(f"{source}: no benchmark folder: expected train.txt or train.txt.gz in it.")
    hint = f"There is no such file or folder, nor a set of this name in {looked}. Known are {', '.join(KNOWN)}."
    return UnknownName("data set", source, KNOWN, hint=hint)


@checked
def read_events(
    source: Any,
    *,
    columns: Mapping[str, str] | None = None,
    unit: str | None = None,
    timezone: str | None = None,
    date_format: str | None = None,
    skip_bad: bool = False,
    relation: str | None = None,
    overlap: str | None = None,
) -> Quadruples:
    """All dated facts of a table (a path or an object with the Arrow stream interface), a folder or a named set.

    ``columns`` maps roles to column names, ``unit`` is one step of time, ``timezone`` the zone of times without an
    offset, ``date_format`` how dates are written, ``relation`` the relation of all rows; ``skip_bad`` leaves out rows
    that cannot be used. ``overlap`` is for benchmark folders: the part, earlier or later, of a step that two share.
    What reading found and decided stands in ``notes`` of the result.
    """
    keywords = TableKeywords(
        columns=columns, unit=unit, timezone=timezone, date_format=date_format, skip_bad=skip_bad, relation=relation
    )
    if not isinstance(source, str | Path) or os.path.isfile(source):
        if overlap is not None:
            raise DataError("an overlap is settled for a benchmark folder only, and this is a table.")
        return read_table(source, **keywords)
    found = find(source, overlap=overlap, **keywords)
    return replace(found.facts, notes=found.notes)


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


def _read_whole(known: KnownSet, folder: Path) -> Dataset:
    if not known.cuts:
        return read_folder(folder, clock=known.clock, name=known.name)
    facts = read_table(folder / known.needed[0], unit=known.clock.unit)
    return replace(split_at(facts, *known.cuts, name=known.name), files=file_sums(folder))


def _read_any_folder(folder: Path, overlap: str | None) -> Dataset:
    """A folder given by path: a known set where it is whole, else what is there."""
    alike = [known for known in KNOWN.values() if _accepted(known, known.needed[0], folder)]
    whole = next((known for known in alike if not _differences(known, folder)), None)
    if whole and overlap is None:
        return read_known(whole, folder)
    return _read_alike(alike[0], folder, overlap) if alike else read_folder(folder, overlap=overlap)


def _accepted(known: KnownSet, name: str, folder: Path) -> bool:
    path = find_file(folder, name)
    return path is not None and known.files[name].accepts(read_bytes(path))


def _differences(known: KnownSet, folder: Path) -> list[str]:
    """What a folder has other than a known set: ``test.txt differs``."""
    found = []
    for name in dict.fromkeys([*known.files, *(f"{part}.txt" for part in PARTS)]):
        path = find_file(folder, name)
        if name not in known.files:
            found += [f"{name} is there"] if path else []
        elif path is None:
            found += [f"{name} is missing"] if name in known.needed else []
        elif not known.files[name].accepts(read_bytes(path)):
            found.append(f"{name} differs")
    return found


def _read_alike(known: KnownSet, folder: Path, overlap: str | None) -> Dataset:
    """A folder with the training part of a known set and other files, taken as it is, with the dates of the set."""
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

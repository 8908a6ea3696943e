"""Opens a source of facts: a table, a benchmark folder, a known set, or the built-in world."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from tangokg.errors import DataError, UnknownName, checked, nearest, offer
from tangokg.quads.addresses import Address
from tangokg.quads.importers import FORMATS, read_format
from tangokg.quads.reading import TableKeywords, TableOptions
from tangokg.quads.registry import KNOWN, KnownSet, data_folders, is_set, known_set, read_any_folder, read_known
from tangokg.quads.splits import split, split_at
from tangokg.quads.sql import as_database
from tangokg.quads.tables import read_table
from tangokg.quads.values import Dataset, Quadruples
from tangokg.quads.world import make_world

WORLD = "world"  # the name of the built-in world of seed 0


def find(
    source: str | Path | Sequence[str | Path],
    *,
    format: str | None = None,
    language: str | None = None,
    overlap: str | None = None,
    train_share: float | None = None,
    valid_share: float | None = None,
    valid_from: str | None = None,
    test_from: str | None = None,
    **keywords: Unpack[TableKeywords],
) -> Dataset:
    """A data set from the path of a table or of a benchmark folder, the name of a known set, or "world".

    The keywords say how a table is read (:class:`TableOptions`), ``overlap`` which part of a folder gets a step that
    two parts share. A table is split 80 / 10 / 10 by time, anything else keeps its own parts. Shares or dates split
    either in another way. With a ``format`` of :data:`FORMATS` the source is one or more published files, which "tgb"
    cuts as that benchmark does.
    """
    by_share = train_share is not None or valid_share is not None
    if (valid_from is None) != (test_from is None):
        raise DataError("--valid-from and --test-from go together: give both dates, or shares.")
    if valid_from is not None and by_share:
        raise DataError("parts are cut by shares or by dates: give --train-share or --valid-from, not both.")
    source = as_database(source)
    data = _read(source, format, language, overlap, keywords)
    facts = data if isinstance(data, Quadruples) else data.facts
    name = _name(source, format) if isinstance(data, Quadruples) else data.name
    if valid_from is not None and test_from is not None:
        parts = split_at(facts, valid_from, test_from, name=name)
    elif format is not None and (split_format := FORMATS[format].split) is not None and not by_share:
        return split_format(facts, name)
    elif by_share or isinstance(data, Quadruples):
        shares = 0.8 if train_share is None else train_share, 0.1 if valid_share is None else valid_share
        parts = split(facts, *shares, name=name)
    else:
        return data
    return replace(parts, notes=data.notes, files=data.files)


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
    format: str | None = None,
    language: str | None = None,
    query: str | None = None,
) -> Quadruples:
    """All dated facts of a table (a path or an object with the Arrow stream interface), a folder or a named set.

    ``columns`` maps roles to column names, ``unit`` is one step of time, ``timezone`` the zone of times without an
    offset, ``date_format`` how dates are written, ``relation`` the relation of all rows; ``skip_bad`` leaves out rows
    that cannot be used. ``overlap`` is for benchmark folders: the part, earlier or later, of a step that two share.
    What reading found and decided stands in ``notes`` of the result. "world" is the built-in world.

    ``format`` (icews, polecat, gdelt, acled, ucdp, wikidata, tgb) reads files as they are published, packed or not: a
    path, a pattern such as ``data/*.zip``, or a list. ``language`` takes the labels of Wikidata instead of its ids. The
    address of a database ("postgresql://...", "sqlite:///...", "duckdb:///...") names a table or a query; a query may
    also be given as ``query``.
    """
    source = as_database(source, query)
    keywords = TableKeywords(
        columns=columns, unit=unit, timezone=timezone, date_format=date_format, skip_bad=skip_bad, relation=relation
    )
    data = _read(source, format, language, overlap, keywords)
    return data if isinstance(data, Quadruples) else replace(data.facts, notes=data.notes)


def _read(
    source: Any, format: str | None, language: str | None, overlap: str | None, keywords: TableKeywords
) -> Quadruples | Dataset:
    """The facts of a file or of published files, or a data set with its parts."""
    if format is not None:
        if overlap is not None:
            raise DataError(f"--overlap is for the parts of a benchmark folder, and --format {format} reads files.")
        if isinstance(source, Address):
            raise DataError(
                f"{source}: --format {format} reads files, and this is a database: --column ROLE=NAME names columns."
            )
        return read_format(source, format, language=language, **keywords)
    if language is not None:
        raise DataError("--language is for the labels of Wikidata: it needs --format wikidata.")
    if not isinstance(source, str | Path) or os.path.isfile(source):
        return _read_file(source, overlap, keywords)
    return _find_set(source, overlap, keywords)


def _name(source: str | Path | Sequence[str | Path] | Address, format: str | None) -> str:
    """The name of a set: of its file if it is one file, of the table for a database."""
    if isinstance(source, Address):
        return source.name
    if isinstance(source, str | Path) and format is not None and (name := FORMATS[format].name) is not None:
        return name(Path(source))
    return Path(source).stem if isinstance(source, str | Path) and os.path.isfile(source) else format or "events"


def _read_file(source: Any, overlap: str | None, keywords: TableKeywords) -> Quadruples:
    if overlap is not None:
        prefix = f"{source}: " if isinstance(source, str | Path) else ""
        raise DataError(f"{prefix}--overlap is for the parts of a benchmark folder, and this is a table.")
    return read_table(source, **keywords)


def _find_set(source: str | Path, overlap: str | None, keywords: TableKeywords) -> Dataset:
    """A benchmark folder, a known set or the built-in world."""
    if source == WORLD and not os.path.exists(source):
        return make_world().dataset
    folders = [place / source for place in data_folders()]
    if _is_written_as_path(source) and not any(os.path.exists(place) for place in (source, *folders)):
        raise _no_such_path(Path(source))
    if options := TableOptions(**keywords).given():
        raise DataError(f"{source}: options for a table ({', '.join(options)}) were given, but this is not a file.")
    if is_set(Path(source)):
        return read_any_folder(Path(source), overlap)
    known = known_set(str(source))
    for folder in folders if known is None else [place / known.name for place in data_folders()]:
        if known and known.is_in(folder):
            return read_known(known, folder)
        if not known and is_set(folder):
            return read_any_folder(folder, overlap)
    raise _not_found(str(source), known)


def _is_written_as_path(source: str | Path) -> bool:
    return bool(Path(source).suffix) or os.sep in str(source) or "/" in str(source)


def _no_such_path(path: Path) -> DataError:
    alike = nearest(path.name, os.listdir(path.parent)) if path.parent.is_dir() else []
    return DataError(
        f"{path}: no such file or folder.{offer(repr(str(path.parent / name)) for name in alike)} "
        f"Known sets have names: {', '.join(KNOWN)}."
    )


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
    if nearest(source, [WORLD]):
        hint = "That is the built-in one; `tango data list` has others."
        return UnknownName("data set", source, [WORLD], hint=hint)
    hint = f"There is no such file or folder, nor a set of this name in {looked}. Known are {', '.join(KNOWN)}."
    return UnknownName("data set", source, KNOWN, hint=hint)

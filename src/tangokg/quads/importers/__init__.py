"""Published event tables, dumps and edge lists -> quadruples: one file and one line in FORMATS for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from tangokg.errors import DataError, UnknownName
from tangokg.quads.importers.acled import ACLED
from tangokg.quads.importers.format import Format
from tangokg.quads.importers.gathered import Gathered
from tangokg.quads.importers.gdelt import GDELT
from tangokg.quads.importers.icews import ICEWS
from tangokg.quads.importers.packed import list_files
from tangokg.quads.importers.polecat import POLECAT
from tangokg.quads.importers.tgb import TGB
from tangokg.quads.importers.ucdp import UCDP
from tangokg.quads.importers.wikidata import WIKIDATA
from tangokg.quads.reading import TableKeywords, TableOptions
from tangokg.quads.tables import read_table
from tangokg.quads.values import Quadruples

__all__ = ["FORMATS", "Format", "read_format"]

FORMATS: dict[str, Format] = {
    "icews": ICEWS,
    "polecat": POLECAT,
    "gdelt": GDELT,
    "acled": ACLED,
    "ucdp": UCDP,
    "wikidata": WIKIDATA,
    "tgb": TGB,
}


def read_format(
    source: str | Path | Sequence[str | Path],
    format: str,
    *,
    language: str | None = None,
    **keywords: Unpack[TableKeywords],
) -> Quadruples:
    """All dated facts of one or more files of a published format, and its static graph where it has one.

    ``source`` is a path, a pattern such as ``data/*.zip``, or several; ``language`` asks for labels instead of ids.
    """
    if format not in FORMATS:
        raise UnknownName("format", format, FORMATS, hint=f"Choose one of {', '.join(FORMATS)}.")
    if not isinstance(source, str | Path) and not isinstance(source, list | tuple):
        raise DataError(f"a {type(source).__name__} is no file: --format {format} reads a path, a pattern or a list.")
    kind, options = FORMATS[format], TableOptions(**keywords)
    if language is not None and kind.label is None:
        raise DataError(f"--language is for the labels of Wikidata; {format} has its names in one language.")
    paths = list_files(source)
    for path in paths:
        if path.is_dir() and not kind.folders:
            raise DataError(f"{path}: this is a folder; expected files, such as '{path / '*'}'.")
    gathered = Gathered(kind.words, kind.blanks)
    kind.read(paths, gathered, options)
    if kind.label is not None and language is not None:
        kind.label(paths, gathered, language)
    static, notes = gathered.static(), gathered.notes()
    table = gathered.source(paths[0].resolve().name if len(paths) == 1 else f"{len(paths)} files")
    keywords["columns"], keywords["unit"] = None, options.unit or kind.unit  # the columns have the names of their roles
    facts = read_table(table, **keywords)
    if static is not None:
        notes += (f"{len(static):,} static edges are kept beside the facts; models do not use them",)
    return replace(facts, notes=(*facts.notes, *notes), static=static)

"""Wikidata JSON dumps (mediawiki.org, Wikibase/DataModel/JSON): one entity a line, read line by line.

A statement of an item about an item is a fact where it has a start (P580), an end (P582) or a point in time (P585). All
others are edges of the static graph. Deprecated statements are left out.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tangokg.errors import DataError
from tangokg.quads.importers.format import Format
from tangokg.quads.importers.gathered import Gathered, clean
from tangokg.quads.importers.packed import Stream, streams
from tangokg.quads.importers.statements import held, item_of
from tangokg.quads.reading import TableOptions

ROWS = 1 << 16  # facts and edges that are kept as text before they become integers
FACT = ("subject", "relation", "object", "start", "end")
_ID = re.compile(rb'"id"\s*:\s*"([QP]\d+)"')


def read(paths: Sequence[Path], into: Gathered, options: TableOptions) -> None:
    """Add the statements of all items."""
    if options.columns or options.relation:
        raise DataError("a Wikidata dump has no columns: leave --column and --relation out.")
    for path in paths:
        for stream in streams(path):
            _read_stream(stream, into)


def _read_stream(stream: Stream, into: Gathered) -> None:
    facts: list[tuple[str, str, str, str, str | None, int]] = []
    edges: list[tuple[str, str, str]] = []
    for line, entity in _entities(stream, into):
        try:
            statements = [(s, r, o, held(qualifiers)) for s, r, o, qualifiers in _statements(entity)]
            "".join(name for row in statements for name in row[:3]).encode()  # half a character is no text
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            into.bad.append(f"{stream.place}:{line}: {entity['id']} has no statements of the known form ({error!r}).")
            continue
        for subject, relation, value, times in statements:
            if times is None:
                edges.append((subject, relation, value))
            elif isinstance(times, str):
                into.left_out[times] += 1
            else:
                facts += [(subject, relation, value, time.start, time.end, line) for time in times]
        if len(facts) + len(edges) >= ROWS:
            _flush(stream.place, facts, edges, into)
    _flush(stream.place, facts, edges, into)


def _flush(place: str, facts: list[Any], edges: list[Any], into: Gathered) -> None:
    """Turn rows into integers."""
    if facts:
        *columns, lines = zip(*facts, strict=True)
        texts = {role: pa.array(column, pa.string()) for role, column in zip(FACT, columns, strict=True)}
        into.add(place, texts, np.array(lines, np.int64))
    if edges:
        into.add_edges({r: pa.array(c, pa.string()) for r, c in zip(FACT[:3], zip(*edges, strict=True), strict=True)})
    facts.clear()
    edges.clear()


def _entities(stream: Stream, into: Gathered) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """``(line, entity)``: the lines of one JSON array with an entity on each, or of JSON lines."""
    line = 0
    for line, text in enumerate(stream.lines(), start=1):
        record = text.strip().rstrip(b",")
        if record in (b"", b"[", b"]"):
            continue
        try:
            entity = json.loads(record)
        except (ValueError, RecursionError) as error:
            if line <= 2:
                raise _misfit(stream, text) from None
            into.bad.append(f"{stream.place}:{line}: no JSON ({error}); expected one entity.")
            continue
        if not isinstance(entity, dict) or not isinstance(entity.get("id"), str):
            raise _misfit(stream, text)
        yield line, entity
    if line == 0:
        raise DataError(f"{stream.place}: the file is empty; expected a Wikidata dump, with one entity on each line.")


def _misfit(stream: Stream, text: bytes) -> DataError:
    start = text[:60].decode(errors="replace").strip()
    return DataError(
        f"{stream.place}: this is no JSON dump of Wikidata: {start!r} found; expected '[' and then one entity with its "
        f"'id' on each line. Choose the format it has, or leave --format out to read it as an ordinary table."
    )


def _statements(entity: Mapping[str, Any]) -> Iterator[tuple[str, str, str, Mapping[str, Any]]]:
    """``(subject, property, object, qualifiers)`` of the statements about items, without deprecated ones."""
    claims = entity.get("claims")
    if entity.get("type") != "item" or not isinstance(claims, dict):  # an empty one is written as []
        return
    for relation, statements in claims.items():
        for statement in statements:
            value = item_of(statement.get("mainsnak", {}))
            if value is not None and statement.get("rank") != "deprecated":
                yield entity["id"], relation, value, statement.get("qualifiers") or {}


def label(paths: Sequence[Path], into: Gathered, language: str) -> None:
    """Replace ids by labels, in a second pass over the files.

    A label that several ids share gets its id in brackets; an id without a label stays.
    """
    labels: dict[str, dict[str, str]] = {"entity": {}, "relation": {}}
    for path in paths:
        for stream in streams(path):
            for text in stream.lines():
                match = _ID.search(text)
                if match is not None and b'"claims"' not in text[: match.start()]:  # its own id: most are not needed
                    name = match[1].decode()
                    if name not in into.ids["entity"] and name not in into.ids["relation"]:
                        continue
                name, text_label = _label(text, language)
                kind = "relation" if name.startswith("P") else "entity"
                if text_label and name in into.ids[kind]:
                    labels[kind][name] = text_label
    for kind, names in labels.items():
        shared = Counter([*names.values(), *into.ids[kind]])
        labels[kind] = {
            name: text_label if shared[text_label] == 1 else f"{text_label} ({name})"
            for name, text_label in names.items()
        }
        if without := len(into.ids[kind]) - len(names):
            into.remarks.append(f"{kind} names without a label in {language!r}, called by their ids: {without:,}")
    into.rename(labels)


def _label(text: bytes, language: str) -> tuple[str, str]:
    """The id of an entity, and its label in a language, or the one for all languages ("mul"); else nothing."""
    try:
        entity = json.loads(text.strip().rstrip(b","))
        labels = entity["labels"]
        label = clean((labels.get(language) or labels["mul"])["value"])
        return str(entity["id"]), label.encode().decode()
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError):
        return "", ""


WIKIDATA = Format("JSON dumps of Wikidata", read, unit="year", label=label)

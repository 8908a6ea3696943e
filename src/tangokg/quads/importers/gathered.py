"""The facts that importers collect, as integers with distinct names, and counts of skipped rows."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tangokg.errors import DataError
from tangokg.quads.badrows import Bools
from tangokg.quads.files import Source
from tangokg.quads.static import StaticGraph
from tangokg.quads.vocabulary import Vocabulary

KINDS = {
    "subject": "entity",
    "object": "entity",
    "relation": "relation",
    "time": "time",
    "start": "time",
    "end": "time",
}
NAMED = ("subject", "relation", "object")

Codes = NDArray[np.int32]


@dataclass
class Gathered:
    """Facts and static edges so far: each name, and each time as it is written, is kept once; rows hold integers."""

    words: Mapping[str, str] = field(default_factory=dict)  # code of a relation -> its plain name
    blanks: frozenset[str] = frozenset({""})  # what stands in a cell without a name
    ids: dict[str, dict[str, int]] = field(default_factory=lambda: {"entity": {}, "relation": {}, "time": {}})
    blocks: list[dict[str, Codes]] = field(default_factory=list)
    lines: list[NDArray[np.int64]] = field(default_factory=list)  # of the rows of each block
    places: list[str] = field(default_factory=list)  # the file of each block
    edges: list[dict[str, Codes]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)  # "rows without an object" -> how many
    remarks: list[str] = field(default_factory=list)  # for people
    bad: list[str] = field(default_factory=list)  # where and why a row cannot be used

    def add(self, place: str, columns: Mapping[str, pa.Array], lines: NDArray[np.int64]) -> None:
        """Add facts: role -> text of equal length. Rows that lack a name are counted and left out."""
        codes, mask = self._named(columns, "rows")
        self.blocks.append({role: code[mask] for role, code in codes.items()})
        self.lines.append(lines[mask])
        self.places.append(place)

    def add_edges(self, columns: Mapping[str, pa.Array]) -> None:
        """Add edges of the static graph: subject, relation and object."""
        codes, mask = self._named(columns, "edges")
        self.edges.append({role: code[mask] for role, code in codes.items()})

    def source(self, place: str) -> Source:
        """The facts as a table, for :func:`tangokg.quads.tables.read_table`; the blocks are given up."""
        if not any(len(lines) for lines in self.lines):
            reasons = "".join(f"; {note}" for note in self.notes())
            if self.bad:
                reasons += f"; the first that cannot be used: {self.bad[0]}"
            raise DataError(f"{place}: no facts were found{reasons}.")
        roles = list(self.blocks[0])
        columns = {}
        for role in roles:
            codes = np.concatenate([block.pop(role) for block in self.blocks])
            names = pa.array(list(self.ids[KINDS[role]]), pa.string())
            columns[role] = pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), names)
        return Source(pa.table(columns), place, bad=tuple(self.bad), where=self._where)

    def static(self) -> StaticGraph | None:
        """The distinct static edges with names of their own; None where there are none."""
        if not sum(len(edges["subject"]) for edges in self.edges):
            return None
        rows = np.stack([np.concatenate([edges[role] for edges in self.edges]) for role in NAMED])
        s, r, o = np.unique(rows, axis=1)
        entities, ends = np.unique(np.concatenate([s, o]), return_inverse=True)
        relations, r = np.unique(r, return_inverse=True)
        vocab = Vocabulary(self._names("entity", entities), self._names("relation", relations))
        s, o = np.split(ends.ravel().astype(np.int64), 2)
        return StaticGraph(s, r.ravel().astype(np.int64), o, vocab)

    def notes(self) -> tuple[str, ...]:
        """Notes on skipped rows, and other remarks for users."""
        return (*(f"{what}, left out: {count:,}" for what, count in self.left_out.items() if count), *self.remarks)

    def rename(self, names: Mapping[str, Mapping[str, str]]) -> None:
        """Rename entities and relations: kind -> name -> new name. Equal new names are kept distinct."""
        for kind, new in names.items():
            renamed: dict[str, int] = {}
            for name, code in self.ids[kind].items():
                new_name = new.get(name, name)
                renamed[new_name if new_name not in renamed else f"{new_name} ({name})"] = code
            self.ids[kind] = renamed

    def _named(self, columns: Mapping[str, pa.Array], noun: str) -> tuple[dict[str, Codes], Bools]:
        codes = {role: self._encode(role, column) for role, column in columns.items()}
        mask = np.ones(len(next(iter(codes.values()))), bool)
        for role in (role for role in NAMED if role in codes):
            lacks = mask & (codes[role] < 0)
            self.left_out[f"{noun} without {'an' if role == 'object' else 'a'} {role}"] += int(lacks.sum())
            mask &= ~lacks
        return codes, mask

    def _encode(self, role: str, column: pa.Array) -> Codes:
        """Ids of the cells; -1 for empty cells."""
        cells = column.dictionary_encode()
        ids = self.ids[KINDS[role]]
        known = np.full(len(cells.dictionary) + 1, -1, np.int32)
        for i, text in enumerate(cells.dictionary.to_pylist()):
            name = clean(text)
            if name not in self.blanks:
                known[i] = ids.setdefault(self._worded(name) if role == "relation" else name, len(ids))
        codes: Codes = known[np.asarray(cells.indices.fill_null(-1))]
        return codes

    def _worded(self, code: str) -> str:
        """The plain name of a code, which may have lost its first zero."""
        return self.words.get(code) or self.words.get(f"0{code}") or code

    def _names(self, kind: str, codes: Codes) -> tuple[str, ...]:
        names = list(self.ids[kind])
        return tuple(names[code] for code in codes)

    def _where(self, row: int) -> str:
        """``events.tab:7``: where a fact stands."""
        ends = np.cumsum([len(lines) for lines in self.lines])
        block = bisect_right(ends, row)
        first = int(ends[block - 1]) if block else 0
        return f"{self.places[block]}:{self.lines[block][row - first]}"


def clean(text: str) -> str:
    """A cell without quotes around it, and with single blanks in place of tabs and line breaks."""
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1].replace('""', '"')
    return " ".join(text.split())

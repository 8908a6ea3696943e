"""Search of names: first names with a word that starts with the text, then names that contain it, then the nearest."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np

from tangokg.errors import nearest
from tangokg.quads.vocabulary import Vocabulary
from tangokg.serve.state import State

SCHEMA = """
CREATE TABLE names (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, facts INTEGER NOT NULL);
CREATE UNIQUE INDEX by_name ON names (kind, name);
CREATE INDEX by_facts ON names (facts DESC);
CREATE VIRTUAL TABLE words USING fts5(name, content='', prefix='1 2 3', tokenize='unicode61 remove_diacritics 2');
"""
KINDS = ("entity", "relation")


class Names:
    """The names of a state, kept up with new facts; used by several threads."""

    def __init__(self, state: State) -> None:
        self._lock = threading.Lock()
        self._db = sqlite3.connect(":memory:", check_same_thread=False)
        self._db.executescript(SCHEMA)
        vocab = state.index.vocab
        counts = np.zeros(vocab.num_entities, np.int64)
        for layer in state.index.edges:
            s = layer.read(slice(None))[0]
            counts += np.bincount(s, minlength=len(counts))
        self._add("entity", zip(vocab.entities, counts.tolist(), strict=True))
        self._add("relation", zip(vocab.relations, state.index.relations.tolist(), strict=True))
        self._sizes = vocab.num_entities, vocab.num_relations
        self.position = state.position  # of the journal that the names include

    def _add(self, kind: str, rows: Iterable[tuple[str, int]]) -> None:
        for name, facts in rows:
            cursor = self._db.execute("INSERT INTO names (kind, name, facts) VALUES (?, ?, ?)", (kind, name, facts))
            spaced = name.replace("_", " ")
            self._db.execute("INSERT INTO words (rowid, name) VALUES (?, ?)", (cursor.lastrowid, spaced))

    def grow(self, vocab: Vocabulary, counts: Iterable[tuple[str, str, int]], position: int) -> None:
        """Take over new names, and count further facts, (kind, name, how many), of the post at a position."""
        with self._lock:
            entities, relations = self._sizes
            self._add("entity", ((name, 0) for name in vocab.entities[entities:]))
            self._add("relation", ((name, 0) for name in vocab.relations[relations:]))
            self._sizes = vocab.num_entities, vocab.num_relations
            rows = [(number, kind, name) for kind, name, number in counts]
            self._db.executemany("UPDATE names SET facts = facts + ? WHERE kind = ? AND name = ?", rows)
            self.position = position

    def find(self, text: str, kind: str | None, limit: int) -> list[dict[str, Any]]:
        """Names for a text, the most frequent first; without a text the most frequent of all."""
        kinds = KINDS if kind is None else (kind,)
        words = re.findall(r"\w+", text.replace("_", " "))
        with self._lock:
            if not text.strip():
                return self._rows("TRUE", (), kinds, limit)
            rows: list[dict[str, Any]] = []
            if words:
                match = " ".join(f'"{word}"*' for word in words)
                inside = "id IN (SELECT rowid FROM words WHERE words MATCH ?)"
                rows = self._rows(inside, (match,), kinds, limit)
            if len(rows) < limit:
                have = {(row["kind"], row["name"]) for row in rows}
                more = self._rows("instr(lower(name), lower(?))", (text.strip(),), kinds, limit)
                rows += [row for row in more if (row["kind"], row["name"]) not in have]
        return rows[:limit] or self._nearest(text, kinds, limit)

    def _nearest(self, text: str, kinds: tuple[str, ...], limit: int) -> list[dict[str, Any]]:
        with self._lock:
            rows = self._rows("TRUE", (), kinds, -1)
        by_name = {row["name"]: row for row in rows}
        return [by_name[name] for name in nearest(text, by_name, limit)]

    def _rows(self, where: str, values: tuple[str, ...], kinds: tuple[str, ...], limit: int) -> list[dict[str, Any]]:
        marks = ", ".join("?" * len(kinds))
        query = (
            f"SELECT name, kind, facts FROM names WHERE {where} AND kind IN ({marks}) ORDER BY facts DESC, id LIMIT ?"
        )
        rows = self._db.execute(query, (*values, *kinds, limit)).fetchall()
        return [{"name": name, "kind": kind, "facts": facts} for name, kind, facts in rows]

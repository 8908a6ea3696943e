"""Journal of all posts, each on disk before it is answered: SQLite with one writer, in order of arrival."""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tangokg.errors import RunError
from tangokg.serve.schemas import Fact

VERSION = 1
SCHEMA = """
CREATE TABLE IF NOT EXISTS journal (id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS posts (
    position INTEGER PRIMARY KEY, key TEXT UNIQUE, digest TEXT NOT NULL, posted_at TEXT NOT NULL,
    facts TEXT NOT NULL, answer TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS scores (
    position INTEGER NOT NULL, subject TEXT NOT NULL, relation TEXT NOT NULL, object TEXT NOT NULL, step REAL NOT NULL,
    rank REAL NOT NULL, rank_of_subject REAL NOT NULL, chance REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS least_expected ON scores (chance, rank DESC);
CREATE TABLE IF NOT EXISTS reliability (
    position INTEGER NOT NULL, bin INTEGER NOT NULL, said REAL NOT NULL, happened REAL NOT NULL, count INTEGER NOT NULL
);
"""
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Post:
    """A post and its answer; ``scores`` and ``reliability`` are rows of the tables without the position."""

    facts: Sequence[Fact]
    digest: str
    posted_at: str
    answer: dict[str, Any]
    key: str | None = None
    scores: Sequence[Row] = ()
    reliability: Sequence[Row] = ()


class Journal:
    """The one writing connection; a post is either completely on disk or absent."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._prepare()
        except sqlite3.Error as error:
            raise RunError(f"{path}: the journal cannot be used ({error}). Restore it, or move it away.") from None

    def _prepare(self) -> None:
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version not in (0, VERSION):
            raise RunError(f"{self.path}: a journal of version {version}; this version of tangokg reads {VERSION}.")
        self._db.executescript(f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
        if self._db.execute("PRAGMA quick_check").fetchone() != ("ok",):
            raise RunError(f"{self.path}: the journal is damaged. Restore it from a backup, or move it away.")
        if self._db.execute("SELECT id FROM journal").fetchone() is None:
            self._db.execute("INSERT INTO journal VALUES (?)", (uuid.uuid4().hex,))
        (self.id,) = self._db.execute("SELECT id FROM journal").fetchone()

    def close(self) -> None:
        self._db.close()

    @property
    def last(self) -> int:
        """The position of the last post; 0 before the first."""
        (last,) = self._db.execute("SELECT coalesce(max(position), 0) FROM posts").fetchone()
        return int(last)

    def find(self, key: str) -> tuple[str, dict[str, Any]] | None:
        """Digest and answer of the post with an idempotency key."""
        row = self._db.execute("SELECT digest, answer FROM posts WHERE key = ?", (key,)).fetchone()
        return None if row is None else (row[0], json.loads(row[1]))

    def append(self, post: Post) -> None:
        """Write a post at the position that its answer names; returns when it is on disk."""
        position = post.answer["position"]
        facts = json.dumps([[f.subject, f.relation, f.object, f.at] for f in post.facts], ensure_ascii=False)
        answer = json.dumps(post.answer, ensure_ascii=False)
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.execute(
                "INSERT INTO posts VALUES (?, ?, ?, ?, ?, ?)",
                (position, post.key, post.digest, post.posted_at, facts, answer),
            )
            marks = "(?, ?, ?, ?, ?, ?, ?, ?)"
            self._db.executemany(f"INSERT INTO scores VALUES {marks}", [(position, *row) for row in post.scores])
            rows = [(position, *row) for row in post.reliability]
            self._db.executemany("INSERT INTO reliability VALUES (?, ?, ?, ?, ?)", rows)
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def facts_after(self, position: int) -> Iterator[Fact]:
        """All facts of the posts after a position, in their order."""
        rows = self._db.execute("SELECT facts FROM posts WHERE position > ? ORDER BY position", (position,))
        for (facts,) in rows:
            yield from _facts(facts)


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A separate reading connection; all its queries see one consistent snapshot."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA query_only=ON")
        db.execute("BEGIN")
        yield db


def facts_since(path: Path, position: int) -> tuple[list[Fact], int]:
    """The facts of the posts after a position, and the position of the last of them; for any thread."""
    query = "SELECT position, facts FROM posts WHERE position > ? ORDER BY position"
    with reading(path) as db:
        rows = db.execute(query, (position,)).fetchall()
    facts = [fact for _, text in rows for fact in _facts(text)]
    return facts, rows[-1][0] if rows else position


def _facts(text: str) -> Iterator[Fact]:
    for s, r, o, at in json.loads(text):
        yield Fact.model_construct(subject=s, relation=r, object=o, at=at)

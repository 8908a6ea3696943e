"""The journal and the facts of its run folder: replay at start, and folding the journal into the folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tangokg.errors import DataError, RunError
from tangokg.forecast import load
from tangokg.serve.checking import make_facts
from tangokg.serve.journal import Journal, facts_since
from tangokg.serve.state import State
from tangokg.train import RunFolder
from tangokg.train.replacing import owning_existing

FILE = "journal.sqlite"
ID, POSITION = b"journal", b"position"  # in the metadata of history.parquet, which is written whole with its facts


def folded(run: Path, journal: Journal) -> int:
    """The position up to which a run folder already contains the journal; 0 if it contains none of it."""
    try:
        metadata = pq.read_schema(run / "history.parquet").metadata or {}
    except (OSError, pa.ArrowException):
        return 0
    return int(metadata.get(POSITION, b"0")) if metadata.get(ID) == journal.id.encode() else 0


def replay(state: State, journal: Journal, run: Path) -> State:
    """The state with all posts that the run folder lacks; a repeated fact changes nothing."""
    facts = list(journal.facts_after(folded(run, journal)))
    if not facts:
        return replace(state, position=journal.last)
    try:
        return state.with_facts(make_facts(state, facts), journal.last)[0]
    except DataError as error:
        raise RunError(f"{journal.path}: the journal does not fit this run ({error}).") from None


def catch_up(state: State, journal: Path) -> State:
    """The state with the posts that came since, for a process or a run that only reads the journal."""
    facts, position = facts_since(journal, state.position)
    return state if position == state.position else state.with_facts(make_facts(state, facts), position)[0]


def compact(run: Path, path: Path, device: str = "cpu") -> int:
    """Write the facts of the journal into the run folder; returns the position that it now holds.

    The position is stored in the file of the facts, which is replaced atomically: after an interruption, the next start
    reads the facts of the folder and the missing ones from the journal. The journal is kept for the track record.
    """
    with owning_existing(run):
        journal = Journal(path)
        try:
            state = replay(State.of(load(run, device)), journal, run)
            if state.position > folded(run, journal):
                note = {ID: journal.id.encode(), POSITION: str(state.position).encode()}
                RunFolder(run).keep_facts(state.forecaster.dataset, note)
        finally:
            journal.close()
    return state.position

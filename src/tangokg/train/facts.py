"""The facts of a run folder, ``history.parquet``: integer columns, and the part of each fact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tangokg.errors import RunError
from tangokg.quads.clock import Clock
from tangokg.quads.values import Dataset, Quadruples
from tangokg.quads.vocabulary import Vocabulary

PARTS = ("train", "valid", "test", "before", "after")  # a fact's part is its number here


def facts_file(dataset: Dataset, note: dict[bytes, bytes] | None = None) -> bytes:
    """The content of the facts file, with a note."""
    facts = dataset.facts
    columns = {c: getattr(facts, c) for c in "srot"}
    part = np.concatenate([np.full(len(part), PARTS.index(name), np.int8) for name, part in dataset.parts.items()])
    exact = {} if facts.exact is None else {"exact": facts.exact}
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns | {"part": part} | exact).replace_schema_metadata(note), sink)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def read_facts(path: Path, vocab: Vocabulary, clock: Clock, name: str) -> Dataset:
    """Read the parts from a facts file."""
    try:
        table = pq.read_table(path)
        s, r, o, t, part = (table.column(c).to_numpy().astype(np.int64) for c in ("s", "r", "o", "t", "part"))
        timed = "exact" in table.column_names  # not in runs of older versions, nor where all facts lie on steps
        exact = table.column("exact").to_numpy().astype(np.float64) if timed else None
    except FileNotFoundError:
        raise RunError(
            f"{path}: the facts are missing; a shared run may come without them. Give them when it is loaded: "
            f"tk.load(RUN, facts=events), with dated facts as tk.read_events takes them. For the command line, save "
            f"what was loaded as a run folder: tk.load(RUN, facts=events).save(FOLDER)."
        ) from None
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise RunError(f"{path}: damaged or not of this form ({error}).") from None
    if exact is not None and not ((t <= exact) & (exact < t + 1)).all():
        raise RunError(f"{path}: a moment lies outside the step of its fact; the run folder is damaged.")
    facts = Quadruples(s, r, o, t, vocab, clock, exact)
    sizes = (("a subject", facts.s, vocab.num_entities), ("an object", facts.o, vocab.num_entities))
    for kind, ids, size in (*sizes, ("a relation", facts.r, vocab.num_relations)):
        if len(ids) and not 0 <= ids.min() <= ids.max() < size:
            raise RunError(
                f"{path}: the id of {kind} lies outside the vocabulary of {size}; the run folder is damaged."
            )
    train, valid, test, before, after = (facts.select(part == i) for i in range(len(PARTS)))
    return Dataset(
        train, valid, test, name, before=before if len(before) else None, after=after if len(after) else None
    )

"""How fast facts come from files into snapshots, and how much memory that takes, each way in a process of its own.

The facts are drawn in the size and kind of tkgl-icews: a day has 1,500 of them, few entities and relations have most,
one in nine held on the day before, and more than half held at some time before.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from experiments.bench.form import Measured, alone, logger
from tangokg.quads import read_events
from tangokg.quads.values import Ids
from tangokg.snapshots.timeline import build_timeline

FACTS_A_DAY = 1500
NUM_ENTITIES = 87_856
NUM_RELATIONS = 391
HELD_THE_DAY_BEFORE = 0.11
PARTS = {"train": 0.7, "valid": 0.85, "test": 1.0}  # up to which share of the facts


def measure(*, facts: int = 15_000_000, named_facts: int = 1_500_000, seed: int = 0) -> Measured:
    """Facts a second read from text and from Parquet, and read and built into snapshots, with peak memory.

    ``facts`` have integer ids, as benchmark folders do; ``named_facts`` of them names and dates, as tables do. Files
    are written where temporary files go (``$TMPDIR``), and removed again. The CPU does all the work.
    """
    with tempfile.TemporaryDirectory(prefix="tangokg-load-") as place:
        logger.info("drawing facts")
        files = write_files(Path(place), draw_facts(facts, seed), named_facts)
        rows = [_measure_file(form, path, count) for form, (path, count) in files.items()]
    text, parquet = rows[:2]
    figures = {"seconds": text["seconds"], "peak_bytes": text["peak_bytes"]}
    figures |= {"text_facts_a_second": text["read_facts_a_second"]}
    figures |= {"parquet_facts_a_second": parquet["read_facts_a_second"]}
    return Measured(figures, rows, {})


def _measure_file(form: str, path: Path, facts: int) -> dict[str, Any]:
    """One row: reading alone, then, in another process, reading and building."""
    logger.info(form)
    (read_alone, _), read_peak = alone(load, path=path, build=False)
    (read, build), peak = alone(load, path=path, build=True)
    return {
        "form": form,
        "facts": facts,
        "read_seconds": read_alone,
        "read_facts_a_second": facts / read_alone,
        "read_peak_bytes": read_peak,
        "build_seconds": build,
        "seconds": read + build,
        "facts_a_second": facts / (read + build),
        "peak_bytes": peak,
    }


def load(path: Path, build: bool) -> tuple[float, float]:
    """Seconds to read the facts of a file or folder and, with ``build``, to make their snapshots."""
    start = time.perf_counter()
    facts = read_events(path)
    read = time.perf_counter()
    if build:
        build_timeline(facts)
    return read - start, time.perf_counter() - read


def draw_facts(facts: int, seed: int) -> tuple[Ids, Ids, Ids, Ids]:
    """s, r, o and the day of each fact, in time order; the same seed draws the same facts."""
    rng = np.random.default_rng(seed)

    def draw(size: int, most: int, power: float) -> Ids:
        """Ids below ``most``; the share of the first i is (i / most)^(1 / power)."""
        return np.minimum((most * rng.random(size) ** power).astype(np.int64), most - 1)

    kinds = max(1, facts)  # triples that may happen, of which few happen often
    names = rng.permutation(NUM_ENTITIES)
    s, o = names[draw(kinds, NUM_ENTITIES, 4)], names[draw(kinds, NUM_ENTITIES, 4)]
    r = draw(kinds, NUM_RELATIONS, 4)
    row = np.arange(facts)
    again = (rng.random(facts) < HELD_THE_DAY_BEFORE) & (row >= FACTS_A_DAY)
    source = row - FACTS_A_DAY * again
    while (source != (further := source[source])).any():  # what is repeated may be a repeat itself
        source = further
    kind = draw(facts, kinds, 2.7)[source]
    return s[kind], r[kind], o[kind], row // FACTS_A_DAY


def write_files(place: Path, facts: tuple[Ids, Ids, Ids, Ids], named_facts: int) -> dict[str, tuple[Path, int]]:
    """Form -> where it lies, and its number of facts: a benchmark folder and a Parquet file of ids, two of names."""
    columns = ("subject", "relation", "object", "time")
    ids = pa.table(dict(zip(columns, facts, strict=True)))
    folder = place / "ids"
    folder.mkdir()
    plain = pa.csv.WriteOptions(include_header=False, delimiter="\t")
    first = 0
    for part, share in PARTS.items():
        end = len(ids) if share == 1 else int(share * len(ids)) // FACTS_A_DAY * FACTS_A_DAY  # a day is in one part
        pa.csv.write_csv(ids.slice(first, end - first), folder / f"{part}.txt", plain)
        first = end
    (folder / "stat.txt").write_text(f"{NUM_ENTITIES}\t{NUM_RELATIONS}\n")
    pq.write_table(ids, place / "ids.parquet")
    s, r, o, t = (column[:named_facts] for column in facts)
    entities = np.array([f"Entity number {i}" for i in range(NUM_ENTITIES)])
    relations = np.array([f"Relation number {i}" for i in range(NUM_RELATIONS)])
    dates = np.datetime64("1995-01-01") + t
    named = pa.table(dict(zip(columns, (entities[s], relations[r], entities[o], dates), strict=True)))
    pa.csv.write_csv(named, place / "names.csv")
    pq.write_table(named, place / "names.parquet")
    return {
        "text, ids": (folder, len(ids)),
        "Parquet, ids": (place / "ids.parquet", len(ids)),
        "text, names": (place / "names.csv", len(named)),
        "Parquet, names": (place / "names.parquet", len(named)),
    }

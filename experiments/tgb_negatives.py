"""The released negatives of TGB's large sets -> Parquet, with the ids that tangokg gives the names of the edge list.

py-tgb keeps them as pickles, which can run any code when they are opened: tangokg never does. This script lets py-tgb
open them (``pip install py-tgb``), so use it on files from TGB alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from tangokg.errors import DataError
from tangokg.quads import Dataset, find
from tangokg.rank.candidate_tables import ROWS, write_candidates

PARTS = {"valid": "val", "test": "test"}  # our name of a part and that in the names of files
Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Numbering:
    """Maps the numbers of py-tgb to ids of our data set."""

    entity: Ids  # number -> id
    relation: Ids  # number -> id
    times: Ids  # as in the edge list, ascending; place -> step
    steps: Ids

    def questions(self, keys: Ids) -> tuple[Ids, Ids, Ids]:
        """(s, label, step) of keys (K, 3) of time, source and type; types from R on ask for subjects."""
        place = np.searchsorted(self.times, keys[:, 0]).clip(max=len(self.times) - 1)
        if (self.times[place] != keys[:, 0]).any():
            raise DataError(f"the negatives have a time {keys[self.times[place] != keys[:, 0]][0, 0]} without a fact.")
        number, inverse = keys[:, 2] % len(self.relation), keys[:, 2] // len(self.relation)
        return self.entity[keys[:, 1]], self.relation[number] + inverse * len(self.relation), self.steps[place]


def number(edges: Path, dataset: Dataset) -> Numbering:
    """The numbers that py-tgb gives: entities in the order in which rows name them, head before tail.

    Relations are numbered in their order too, unless they are numbers already.
    """
    text = pa.csv.ConvertOptions(column_types=dict.fromkeys(("head", "tail", "relation_type"), pa.string()))
    rows = pa.csv.read_csv(edges, convert_options=text)
    when, head, tail, relation = (rows.column(i).combine_chunks() for i in range(4))
    order = np.arange(2 * len(rows)).reshape(2, -1).T.ravel()  # head, tail, head, tail
    entities = pa.concat_arrays([head, tail]).take(pa.array(order)).unique().to_pylist()
    relations = relation.unique().to_pylist()
    if all(name.isdecimal() for name in relations):
        relations = [str(i) for i in range(len(relations))]
    times, steps = np.unique(np.asarray(when)), np.unique(dataset.facts.t)
    if len(times) != len(steps):
        raise DataError(
            f"{edges.name}: its {len(times):,} times are {len(steps):,} steps of the data set. Read it with a "
            f"smaller --unit, so that each time is a step."
        )
    of_entities, of_relations = dataset.vocab.ids_of(entities, relations)
    return Numbering(np.asarray(of_entities), np.asarray(of_relations), times, steps)


def convert(folder: Path, name: str) -> list[Path]:
    """Write ``NAME_valid_ns.parquet`` and ``NAME_test_ns.parquet`` beside the pickles; returns what was written."""
    try:
        from tgb.utils.utils import load_pkl
    except ImportError as error:
        raise DataError(f"the negatives are pickles, which py-tgb opens: pip install py-tgb ({error}).") from None
    edges = folder / f"{name}_edgelist.csv"
    dataset = find(edges, format="tgb")
    numbering, written = number(edges, dataset), []
    for part, short in PARTS.items():
        path = folder / f"{name}_{part}_ns.parquet"
        rows = _rows(load_pkl(folder / f"{name}_{short}_ns.pkl"), numbering, dataset.vocab.num_relations)
        write_candidates(path, rows, dataset.vocab)
        written.append(path)
    return written


def _rows(negatives: Mapping[Any, Any], numbering: Numbering, num_relations: int) -> Iterator[dict[str, Any]]:
    """The columns of successive chunks of rows, in lookup order."""
    keys = list(negatives)
    s, label, step = numbering.questions(np.array(keys, np.int64).reshape(-1, 3))
    order = np.lexsort((label, s, step))
    for first in range(0, len(order), ROWS):
        chunk = order[first : first + ROWS]
        lists = [np.asarray(negatives[keys[i]], np.int64) for i in chunk]
        ids = numbering.entity[np.concatenate(lists)].astype(np.int32)
        ends = np.cumsum([0, *map(len, lists)]).astype(np.int32)
        for_subject = label[chunk] >= num_relations
        yield {
            "subject": pa.array(s[chunk], pa.int32(), mask=for_subject),
            "relation": pa.array(label[chunk] % num_relations, pa.int32()),
            "object": pa.array(s[chunk], pa.int32(), mask=~for_subject),
            "time": pa.array(step[chunk]),
            "candidates": pa.ListArray.from_arrays(ends, ids),
        }

"""Small sets in the layout of TGB 2.0: edge lists as it publishes them, negatives as its own package draws them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import torch

SETS = {  # the header of the edge list, whether entities are Wikidata's, how its negatives are made
    "tkgl-smallpedia": ("ts", True, "time-filtered"),
    "tkgl-wikidata": ("ts", True, "dst-time-filtered"),
    "tkgl-icews": ("date", False, "time-filtered"),
    "tkgl-yago": ("date", False, "time-filtered"),
}
NEGATIVES = 12  # of a question, where they are listed
ENTITIES, RELATIONS, TIMES = 30, 3, 40


def write_set(root: Path, name: str, seed: int = 0) -> Path:
    """The edge list of a set, and its static one, in the folder that py-tgb would make; facts come back irregularly."""
    header, wiki, _ = SETS[name]
    rng = np.random.default_rng(seed)
    entities = [f"Q{i}" if wiki else str(i) for i in rng.permutation(ENTITIES)]
    relations = [f"P{30 + i}" if wiki else str(i) for i in rng.permutation(RELATIONS)]
    folder = root / name.replace("-", "_")
    folder.mkdir(parents=True)
    rows, held = [f"{header},head,tail,relation_type"], list[tuple[int, int, int]]()
    for step in range(TIMES):
        new = [(int(rng.integers(ENTITIES)), int(rng.integers(RELATIONS)), int(rng.integers(8))) for _ in range(4)]
        held = [fact for fact in held if rng.random() < 0.8] + new
        for s, r, o in dict.fromkeys(held):
            rows.append(f"{_time(step, wiki)},{entities[s]},{entities[o]},{relations[r]}")
    (folder / f"{name}_edgelist.csv").write_text("\n".join(rows) + "\n")
    if wiki:
        static = ["head,tail,relation_type", f"{entities[0]},Q999,P31", f"{entities[1]},{entities[2]},P31"]
        (folder / f"{name}_static_edgelist.csv").write_text("\n".join(static) + "\n")
    return folder


def _time(step: int, wiki: bool) -> int:
    """A year, the first two long before the others; or midnight in Montreal, clocks being changed on the way."""
    if wiki:
        return 12 + step if step < 2 else 1900 + step
    day = datetime(2018, 2, 20, tzinfo=ZoneInfo("America/Montreal")) + timedelta(days=step)
    return int(day.timestamp())


@dataclass(frozen=True)
class Official:
    """A set as py-tgb reads it, with the names behind its numbers."""

    data: Any  # tgb.linkproppred.dataset.LinkPropPredDataset
    entities: list[str]
    relations: list[str]

    def part(self, name: str) -> list[np.ndarray[Any, Any]]:
        """Sources, destinations, times and types of the edges of a part, both directions."""
        mask = getattr(self.data, f"{name}_mask")
        columns = ("sources", "destinations", "timestamps", "edge_type")
        return [self.data.full_data[column][mask] for column in columns]


def open_set(folder: Path, name: str) -> Official:
    """What py-tgb makes of a folder; its own files are written beside the edge list."""
    from tgb.linkproppred.dataset import LinkPropPredDataset
    from tgb.utils.info import PROJ_DIR

    data = LinkPropPredDataset(name, root=os.path.relpath(folder.parent, PROJ_DIR), download=False)
    rows = [line.split(",") for line in (folder / f"{name}_edgelist.csv").read_text().splitlines()[1:]]
    entities = list(dict.fromkeys(cell for _, head, tail, _ in rows for cell in (head, tail)))
    relations = list(dict.fromkeys(row[3] for row in rows))
    return Official(data, entities, relations if SETS[name][1] else sorted(relations, key=int))


def draw_negatives(official: Official, folder: Path, name: str) -> None:
    """``NAME_val_ns.pkl`` and ``NAME_test_ns.pkl`` as py-tgb generates them, and its sampler with them loaded."""
    from tgb.linkproppred.tkg_negative_generator import TKGNegativeEdgeGenerator
    from torch_geometric.data import TemporalData

    def edges(mask: Any) -> Any:
        full = official.data.full_data
        own = {"src": "sources", "dst": "destinations", "t": "timestamps", "edge_type": "edge_type"}
        return TemporalData(**{key: torch.from_numpy(full[column][mask]) for key, column in own.items()})

    strategy = SETS[name][2]
    whole = edges(slice(None))
    with _same_generator():
        generator = TKGNegativeEdgeGenerator(
            name, int(whole.dst.min()), int(whole.dst.max()), strategy, NEGATIVES, 42, str(folder), whole
        )
        for part, mask in (("val", official.data.val_mask), ("test", official.data.test_mask)):
            generator.generate_negative_samples(edges(mask), part, str(folder))
    official.data.load_val_ns()
    official.data.load_test_ns()


@contextmanager
def _same_generator() -> Iterator[None]:
    """py-tgb seeds the generator of the whole process."""
    state = np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002

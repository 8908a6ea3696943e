"""Facts as the graphs of other libraries."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import torch

from tangokg.errors import ConfigError, checked
from tangokg.quads.values import Dataset, Quadruples, in_time_order


@checked
def to_networkx(facts: Quadruples | Dataset) -> Any:
    """A ``networkx.MultiDiGraph`` of names: an edge for each fact, with its ``relation``, ``time`` and step ``t``.

    A fact that is repeated is an edge each time. Names without facts are no nodes.
    """
    graph = import_module("networkx").MultiDiGraph()
    facts = in_time_order(_all(facts))
    entities, relations = facts.vocab.entities, facts.vocab.relations
    columns = (getattr(facts, column).tolist() for column in ("s", "r", "o", "t", "moments"))
    graph.add_edges_from(
        (entities[s], entities[o], {"relation": relations[r], "time": facts.clock.format(moment), "t": t})
        for s, r, o, t, moment in zip(*columns, strict=True)
    )
    return graph


@checked
def to_pyg(facts: Quadruples | Dataset) -> Any:
    """A ``torch_geometric.data.TemporalData`` in time order: ``src``, ``dst``, ``t`` in steps, and ``rel``, all ids.

    The names of the ids are those of ``facts.vocab``. Models that take messages need ``msg``, such as
    ``torch.nn.functional.one_hot(data.rel).float()``.
    """
    try:
        temporal = import_module("torch_geometric.data").TemporalData
    except ModuleNotFoundError as error:
        raise ConfigError(f"to_pyg needs PyG ({error.name} is missing): pip install torch_geometric.") from None
    facts = in_time_order(_all(facts))
    src, rel, dst, t = (torch.from_numpy(np.array(getattr(facts, column))) for column in "srot")
    return temporal(src=src, dst=dst, t=t, rel=rel)


def _all(facts: Quadruples | Dataset) -> Quadruples:
    return facts.facts if isinstance(facts, Dataset) else facts

"""A graph of another library has the facts, all of them and nothing else."""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np
import pytest

from conftest import dated, make_dataset, make_facts
from tangokg.errors import ConfigError
from tangokg.exchange import to_networkx, to_pyg
from tangokg.quads.values import Dataset, Quadruples


@pytest.mark.parametrize(
    "facts", [make_facts(1), make_dataset(1), dated(make_dataset(2))], ids=["facts", "set", "dates"]
)
def test_edges_of_networkx_are_the_facts_by_name(facts: Quadruples | Dataset) -> None:
    graph = to_networkx(facts)
    whole = facts.facts if isinstance(facts, Dataset) else facts
    found = Counter((s, d["relation"], o, d["t"], d["time"]) for s, o, d in graph.edges(data=True))
    e, r = whole.vocab.entities, whole.vocab.relations
    rows = zip(whole.s, whole.r, whole.o, whole.t, strict=True)
    assert found == Counter((e[s], r[p], e[o], t, whole.clock.format(float(t))) for s, p, o, t in rows)
    assert [d["t"] for *_, d in graph.edges(data=True)].count(min(whole.t)) == (whole.t == min(whole.t)).sum()


def test_temporal_data_of_pyg_are_the_facts_in_time_order() -> None:
    pytest.importorskip("torch_geometric", reason="PyG is not installed")
    from torch_geometric.loader import TemporalDataLoader

    facts = make_facts(3)
    data = to_pyg(facts)
    rows = [tuple(column.tolist()) for column in (data.src, data.rel, data.dst, data.t)]
    order = np.argsort(facts.t, kind="stable")
    assert rows == [tuple(getattr(facts, c)[order].tolist()) for c in "srot"]
    batches = list(TemporalDataLoader(data, batch_size=5))
    assert sum(len(batch.src) for batch in batches) == len(facts)
    train, valid, test = data.train_val_test_split(0.2, 0.2)
    assert train.t.max() <= valid.t.min() <= valid.t.max() <= test.t.min()


def test_without_pyg_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("torch_geometric")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "torch_geometric", None)
    with pytest.raises(ConfigError, match=r"to_pyg needs PyG .* pip install torch_geometric"):
        to_pyg(make_facts(1))

"""How many numbers a training step of several processes sends: those that docs/large.md names."""

from __future__ import annotations

import pytest
import torch

from conftest import N, make_timeline
from meeting import together
from processes_run import config_of
from tangokg.models.tango import Tango
from tangokg.shards import Shard
from tangokg.snapshots.blocks import build_block
from tangokg.snapshots.windows import queries_at, windows_at
from tangokg.train.dividing import divide
from tangokg.train.material import build_model
from tangokg.train.processes import Group

TIMELINE, TARGET = make_timeline(), torch.tensor([5, 6, 8])
LOSS = torch.zeros((), dtype=torch.float64)


def test_windows_divided_send_all_weights_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [p.numel() for p in build_model(config_of("tango-tucker"), TIMELINE).parameters()]

    def send(shard: Shard) -> None:
        model = build_model(config_of("tango-tucker"), TIMELINE)
        Group(shard.rank, shard.size).add_gradients(list(model.parameters()), LOSS)

    assert together(2, N, send, monkeypatch)[1].sent == sum(sizes) + len(sizes) + 1


def test_entities_divided_send_what_a_step_touches(monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of("tango-tucker", shard_entities=True)
    windows, queries = windows_at(TIMELINE, TARGET), queries_at(TIMELINE, TARGET)
    history, dim = config.settings.history, config.settings.dim

    def step(shard: Shard) -> None:
        model = build_model(config, TIMELINE).train()
        assert isinstance(model, Tango)
        model.settle(TIMELINE)
        divide(model, Group(shard.rank, shard.size), config)
        model(TIMELINE, windows, queries, torch.Generator()).backward()
        assert model.entities.grad is not None
        assert model.entities.grad.shape == (shard.rows.stop - shard.rows.start, dim)  # no process has the table

    rows = len(build_block(TIMELINE, windows, history).entity) + len(queries)
    assert together(2, N, step, monkeypatch)[1].sent == 2 * rows * dim + 3 * len(queries)

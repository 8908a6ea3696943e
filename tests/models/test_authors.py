"""The authors' form against a twin written edge by edge, and its gradients by autograd."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import batch_norm, cross_entropy

from conftest import equal, make_timeline
from tangokg.decode import DECODERS
from tangokg.errors import ConfigError
from tangokg.fields.authors import symmetric
from tangokg.models.authors import AuthorsSettings, TangoAuthors
from tangokg.rank import distance_travelled
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import queries_at, windows_at

TARGET = torch.tensor([0, 1, 7, 4])


def make_model(timeline: Timeline, **settings: Any) -> TangoAuthors:
    """In float64, in training mode without dropout; weights that are zero at first are moved."""
    chosen = AuthorsSettings(**({"dim": 4, "dropout": 0.0, "history": 3, "step_time": 0.3} | settings))
    model = TangoAuthors(chosen, timeline, torch.Generator().manual_seed(1)).double()
    with torch.no_grad():
        model.derivative.delta.fill_(0.6)
        for bias in (*model.derivative.biases, model.derivative.bias_trans):
            bias.copy_(torch.linspace(-0.5, 0.8, len(bias)))
    return model


def summed(h: Tensor, h_rel: Tensor, edges: list[tuple[int, int, int, int]]) -> Tensor:
    """From each object to its subject, one edge after the other."""
    degree = [sum(s == i for s, _, _, _ in edges) for i in range(len(h))]
    rows = [torch.zeros_like(h[0]) for _ in h]
    for s, r, o, sign in edges:
        rows[s] = rows[s] + sign * h[o] * h_rel[r] / math.sqrt(degree[s] * degree[o])
    return torch.stack(rows)


def slope(model: TangoAuthors, timeline: Timeline, j: int, change: int, z: Tensor) -> Tensor:
    f, n = model.derivative, timeline.num_entities
    g = timeline[j]
    edges = [(s, r, o, 1) for s, r, o in zip(g.s.tolist(), g.r.tolist(), g.o.tolist(), strict=True)]
    changes = list(zip(*(column.tolist() for column in timeline.transition(change)), strict=True))
    h, h_rel = z[:n], z[n:]
    x = h
    for layer in range(len(f.weights)):
        norm: Any = f.norms[layer]
        total = summed(x, (1 + f.delta) ** layer * h_rel, edges) @ f.weights[layer].T + f.biases[layer]
        x = x + f.delta * torch.relu(batch_norm(total, None, None, norm.weight, norm.bias, training=True))
    total = summed(h, h_rel, changes) * f.w_trans + f.bias_trans
    trans = f.norm_trans
    x = x + f.w * torch.relu(batch_norm(total, None, None, trans.weight, trans.bias, training=True))
    return torch.cat([x, ((1 + f.delta) ** len(f.weights) + f.w) * h_rel])


def twin_states(model: TangoAuthors, timeline: Timeline, known: int, t: float) -> Tensor:
    z = torch.cat([model.entities, model.relations])
    times = [*timeline.t.tolist()[:known], t]
    for j in range(max(0, known - model.settings.history), known):
        dt = (times[j + 1] - times[j]) * model.settings.step_time / float(model.gap)
        change = min(j + 1, known - 1)
        k1 = slope(model, timeline, j, change, z)
        k2 = slope(model, timeline, j, change, z + dt / 2 * k1)
        k3 = slope(model, timeline, j, change, z + dt / 2 * k2)
        z = z + dt / 6 * (k1 + 2 * k2 + 2 * k3 + slope(model, timeline, j, change, z + dt * k3))
    return z


def test_states_loss_and_gradients_equal_those_of_the_twin() -> None:
    timeline = make_timeline(2)
    model, n = make_model(timeline), timeline.num_entities
    windows, queries = windows_at(timeline, TARGET), queries_at(timeline, TARGET)
    loss = model(timeline, windows, queries, torch.Generator())
    ends = zip(windows.known.tolist(), windows.t.tolist(), strict=True)
    states = torch.stack([twin_states(model, timeline, known, t) for known, t in ends])
    assert equal(model.encode(timeline, windows).states, states)
    h, h_rel = states[queries.window, :n], states[queries.window, n + queries.r]
    row, s = torch.arange(len(queries)), queries.s
    e, e_rel = model.entities, model.relations[queries.r]
    scores = torch.einsum("bd,bd,bnd->bn", h[row, s], h_rel, h) + torch.einsum("bd,bd,nd->bn", e[s], e_rel, e)
    expected = cross_entropy(scores, queries.answer)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    names = [name for name, _ in model.named_parameters()]
    found, wanted = (torch.autograd.grad(x, list(model.parameters()), retain_graph=True) for x in (loss, expected))
    for name, a, b in zip(names, found, wanted, strict=True):
        assert equal(a, b), name
        before_norm = ".bias" in name  # a batch normalisation takes off what is common to its rows
        assert before_norm or b.abs().max() > 1e-7, f"{name}: nothing to compare"


def test_dropout_is_drawn_anew_at_each_stage_and_from_the_generator_alone() -> None:
    timeline = make_timeline(2)
    model = make_model(timeline, dropout=0.5)
    windows, queries = windows_at(timeline, TARGET), queries_at(timeline, TARGET)
    losses = [model(timeline, windows, queries, torch.Generator().manual_seed(seed)).item() for seed in (1, 1, 2)]
    assert losses[0] == losses[1] != losses[2]
    generator = torch.Generator().manual_seed(0)
    z = torch.cat([model.entities, model.relations])
    edges, stages = timeline[0], []
    for _ in range(2):
        graph = symmetric(edges.s, edges.r, edges.o, timeline.num_entities)
        stages.append(model._slope(0.0, z, (graph, graph), timeline.num_entities, generator))
    assert not equal(stages[0], stages[1], 1e-6)
    scores = [model.eval().score(model.encode(timeline, windows), queries) for _ in range(2)]
    assert torch.equal(*scores)


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("decoder", DECODERS)
def test_the_static_score_is_that_of_the_embeddings(decoder: str, static: bool) -> None:
    """In evaluation; with a history of nothing the score is twice that of the embeddings."""
    timeline = make_timeline(2)
    model = make_model(timeline, decoder=decoder, static=static).eval()
    windows, queries = windows_at(timeline, TARGET[:1]), queries_at(timeline, TARGET[:1])
    scores = model.score(model.encode(timeline, windows), queries)
    query = model.decoder(model.entities[queries.s], model.relations, queries.r)
    assert equal(scores, (1 + static) * query @ model.entities.T)


def test_states_travel_and_impossible_settings_are_refused() -> None:
    timeline = make_timeline(2)
    model = make_model(timeline)
    distance = distance_travelled(model, timeline, TARGET)
    assert distance is not None
    assert 0.1 < distance < math.inf
    for settings, text in (
        ({"decoder": "x"}, "is unknown"),
        ({"steps": 0}, "at least 1"),
        ({"dropout": 1.0}, "lie in"),
    ):
        with pytest.raises(ConfigError, match=text):
            AuthorsSettings(**settings)
    with pytest.raises(ConfigError, match="must not be negative"):
        AuthorsSettings(step_time=-1.0)

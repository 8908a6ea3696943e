"""RE-Net equals its formula, one question and one edge after the other; its two parts learn apart."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from conftest import N, R, all_queries, equal, make_timeline
from tangokg.errors import ConfigError
from tangokg.masks import dropout
from tangokg.models import renet as renet_module
from tangokg.models import renet_graph
from tangokg.models.renet import ReNet, ReNetSettings
from tangokg.models.renet_sequences import appearances_of
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, queries_at, windows_at

SMALL = ReNetSettings(dim=4, history=3, dropout=0.0)


def build(timeline: Timeline, **more: Any) -> ReNet:
    return ReNet(replace(SMALL, **more), timeline, torch.Generator().manual_seed(3)).double()


def block_diagonal(model: ReNet, layer: int, label: int) -> Tensor:
    """The whole matrix (D, D) of a label, cut where its last block is."""
    dim, size = model.settings.dim, model.settings.block
    own = model.aggregator.blocks.view(2 * R, model.settings.layers, -1, size, size)[label, layer]
    whole: Tensor = torch.block_diag(*own)
    return whole[:dim, :dim]


def neighbourhoods(model: ReNet, timeline: Timeline, j: int) -> dict[int, Tensor]:
    """g of each entity of snapshot j, edge by edge."""
    g, last = timeline[j], model.settings.layers - 1
    edges = list(zip(g.s.tolist(), g.r.tolist(), g.o.tolist(), strict=True))
    h = {e: model.entities[e] for e in g.o.tolist()}
    for layer in range(last + 1):
        new = {}
        for o in h:
            messages = [h[s] @ block_diagonal(model, layer, r) for s, r, other in edges if other == o]
            new[o] = torch.stack(messages).mean(0) + h[o] @ model.aggregator.loops[layer]
        h = {o: state.relu() if layer < last else state for o, state in new.items()}
    return h


def read(gru: nn.GRU, steps: list[Tensor]) -> Tensor:
    """The state of a GRU after some inputs, by its formula."""
    w_x, w_h, b_x, b_h = gru.parameters()
    h = w_h.new_zeros(gru.hidden_size)
    for x in steps:
        r, z, n = (w_x @ x + b_x).chunk(3)
        r_h, z_h, n_h = (w_h @ h + b_h).chunk(3)
        z = torch.sigmoid(z + z_h)
        h = (1 - z) * torch.tanh(n + torch.sigmoid(r + r_h) * n_h) + z * h
    return h


class Twin:
    """The model on lists."""

    def __init__(self, model: ReNet, timeline: Timeline) -> None:
        self.model, self.k = model, model.settings.history
        self.g = [neighbourhoods(model, timeline, j) for j in range(len(timeline))]
        pooled = [torch.stack(list(g.values())).amax(0) for g in self.g]
        self.whole = [read(model.encoder_of_whole, pooled[: j + 1][-self.k :]) for j in range(len(timeline))]

    def scores(self, s: int, r: int, known: int) -> tuple[Tensor, Tensor, Tensor]:
        """Of objects (N,), of labels (2R,), and of who takes part (N,)."""
        m, e_s, e_r = self.model, self.model.entities[s], self.model.relations[r]
        past = [j for j in range(known) if s in self.g[j]][-self.k :]
        h = read(m.encoder, [torch.cat([e_s, self.g[j][s], e_r, self.whole[j]]) for j in past])
        h_r = read(m.encoder_of_relations, [torch.cat([e_s, self.g[j][s], self.whole[j]]) for j in past])
        return (
            m.objects @ torch.cat([e_s, h, e_r]) + m.objects_bias,
            m.labels @ torch.cat([e_s, h_r]) + m.labels_bias,
            m.actors @ self.whole[known - 1] + m.actors_bias,
        )


@pytest.mark.parametrize("more", [{}, {"layers": 1}, {"dim": 5, "block": 2}, {"block": 4, "history": 20}])
def test_scores_equal_those_of_the_twin(more: dict[str, Any]) -> None:
    timeline = make_timeline(1)
    model = build(timeline, **more).eval()
    target = torch.tensor([7, 0, 4])  # at the first of all nothing is known: no history
    queries = all_queries(len(target)).select(slice(0, None, 5))
    with torch.no_grad():
        scores, twin = model.score(model.encode(timeline, windows_at(timeline, target)), queries), Twin(model, timeline)
        for i, (w, s, r) in enumerate(zip(queries.window, queries.s.tolist(), queries.r.tolist(), strict=True)):
            assert equal(scores[i], twin.scores(s, r, int(target[w]))[0])


def loss_of(model: ReNet, timeline: Timeline, queries: Queries, target: Tensor) -> Tensor:
    return model.forward(timeline, windows_at(timeline, target), queries, torch.Generator().manual_seed(0))


def test_the_loss_is_that_of_objects_labels_and_who_takes_part() -> None:
    timeline, target = make_timeline(1), torch.tensor([3, 6])
    model, queries = build(timeline, global_loss=0.5), queries_at(timeline, target)
    twin, total = Twin(model, timeline), 0.0
    rows = zip(queries.window, queries.s.tolist(), queries.r.tolist(), queries.answer.tolist(), strict=True)
    with torch.no_grad():
        for w, s, r, o in rows:
            objects, labels, actors = (x.log_softmax(0) for x in twin.scores(s, r, int(target[w])))
            total -= float(objects[o] + 0.1 * labels[r] + 0.5 * actors[s]) / len(queries)
        assert float(loss_of(model, timeline, queries, target)) == pytest.approx(total, abs=1e-10)


def test_the_global_model_and_the_rest_learn_apart() -> None:
    timeline, target = make_timeline(1), torch.tensor([3, 6])
    queries, found = queries_at(timeline, target), []
    for weight in (0.0, 2.0):
        model = build(timeline, dropout=0.3, global_loss=weight).train()
        loss_of(model, timeline, queries, target).backward()
        found.append(model)
    own = ("encoder_of_whole", "actors")
    for (name, without), beside in zip(found[0].named_parameters(), found[1].parameters(), strict=True):
        assert beside.grad is not None
        if name.startswith(own):
            assert without.grad is None
            assert beside.grad.any()
        else:
            assert without.grad is not None
            assert equal(beside.grad, without.grad)


def test_dropout_falls_on_self_loops_on_what_the_networks_read_and_before_the_scores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where masks are drawn in a step, and that a loss changes with those of each place alone."""
    timeline, target = make_timeline(1), torch.tensor([3, 6])
    model, queries = build(timeline, dropout=0.5), queries_at(timeline, target)
    places: list[tuple[int, ...]] = []
    chosen = -1

    def spy(x: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
        if generator is None or not rate:
            return x
        places.append(tuple(x.shape))
        return dropout(x, rate, generator) if len(places) - 1 == chosen else x

    for module in (renet_module, renet_graph):
        monkeypatch.setattr(module, "dropout", spy)
    plain = loss_of(model, timeline, queries, target)
    rows, w, k, d = len(appearances_of(timeline)), len(target), SMALL.history, SMALL.dim
    b = len(queries)
    assert sorted(places) == sorted(
        [(rows, d), (b * k, d), (b, k, 4 * d), (b, k, 3 * d), (w, k, d), (b, 3 * d), (b, 2 * d)]
    )
    for chosen in range(len(places)):
        places.clear()
        assert not equal(loss_of(model, timeline, queries, target), plain, 1e-6), chosen


def test_what_is_pooled_has_no_dropout() -> None:
    timeline = make_timeline(1)
    model, windows = build(timeline, dropout=0.5), windows_at(timeline, torch.tensor([3]))
    drawn, plain = (model.encode(timeline, windows, g) for g in (torch.Generator().manual_seed(0), None))
    assert not equal(drawn.neighbourhoods.all(), plain.neighbourhoods.all(), 1e-3)
    assert equal(drawn.pooled, plain.pooled)
    assert equal(drawn.whole, plain.whole)


def test_the_sum_over_blocks_has_the_gradient_of_finite_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renet_graph, "CHUNK", 5)
    appearances = appearances_of(make_timeline(2))
    generator = torch.Generator().manual_seed(0)
    blocks = torch.rand(2 * R, 2, 2, 2, generator=generator, dtype=torch.float64, requires_grad=True)
    for edges, rows in ((appearances.from_entities, N), (appearances.from_rows, len(appearances))):
        h = torch.rand(rows, 3, generator=generator, dtype=torch.float64, requires_grad=True)
        sums = partial(renet_graph.block_means, edges=edges, rows=len(appearances))
        assert torch.autograd.gradcheck(sums, (h, blocks), fast_mode=True)


def test_padding_is_never_read() -> None:
    """Whatever stands in rows of other entities, a question about s reads those of s alone."""
    timeline = make_timeline(1)
    appearances = appearances_of(timeline)
    s, known = torch.cartesian_prod(torch.arange(N), torch.arange(len(timeline) + 1)).T
    rows, length = appearances.last(s, known, 3)
    for i in range(len(s)):
        own = rows[i, : length[i]]
        there = [j for j in range(int(known[i])) if s[i] in timeline[j].o][-3:]
        assert appearances.snapshot[own].tolist() == there
        assert (appearances.entity[own] == s[i]).all()


def test_every_table_of_entities_or_labels_is_named() -> None:
    state = build(make_timeline(1), dim=5).state_dict()  # no other size is N or 2R
    kinds = {N: "entity", 2 * R: "relation"}
    assert ReNet.rows == {name: kinds[len(table)] for name, table in state.items() if len(table) in kinds}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [("block", 0, "block must be at least 1"), ("dropout", 1.0, "dropout must lie"), ("global_loss", -1.0, "negative")],
)
def test_a_wrong_setting_is_told(name: str, value: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(SMALL, **{name: value})

"""The authors' form and its switches: a twin written edge by edge, the paper's derivative, finite differences."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, cross_entropy

from conftest import TAKEN_OFF, equal, make_timeline
from tangokg.decode import DECODERS
from tangokg.errors import ConfigError
from tangokg.fields import Derivative
from tangokg.masks import dropout_mask
from tangokg.models.authors import SWITCHES, AuthorsSettings, TangoAuthors
from tangokg.models.tango import Tango, TangoSettings
from tangokg.rank import distance_travelled
from tangokg.snapshots.blocks import build_block
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Windows, queries_at, windows_at

TARGET = torch.tensor([0, 1, 7, 4])
PAPER = {name: paper for name, (_, paper) in SWITCHES.items()}
FORMS: dict[str, dict[str, Any]] = {"authors": {}, "paper": PAPER, **{name: {name: PAPER[name]} for name in PAPER}}
each_form = pytest.mark.parametrize("switches", FORMS.values(), ids=FORMS)


def make_model(timeline: Timeline, **settings: Any) -> TangoAuthors:
    """In float64, in training mode without dropout; weights that are zero at first are moved."""
    chosen = AuthorsSettings(**({"dim": 4, "dropout": 0.0, "history": 3, "step_time": 0.3} | settings))
    model = TangoAuthors(chosen, timeline, torch.Generator().manual_seed(1)).double()
    with torch.no_grad():
        delta = model.derivative.delta
        delta.copy_(torch.linspace(0.6, 0.9, delta.numel()).view_as(delta))
        for name, bias in model.derivative.named_parameters():
            if "bias" in name:  # also of normalisation: where all of a column is dropped, relu has its kink at 0
                bias.copy_(torch.linspace(-0.5, 0.8, len(bias)))
    return model


def summed(h: Tensor, h_rel: Tensor, edges: list[tuple[int, int, int, int]], settings: AuthorsSettings) -> Tensor:
    """From each object to its subject, or the other way, one edge after the other."""
    degree = [sum(s == i for s, _, _, _ in edges) for i in range(len(h))]
    rows = [torch.zeros_like(h[0]) for _ in h]
    for s, r, o, sign in edges:
        to, other = (s, o) if settings.messages_to == "subject" else (o, s)
        size = math.sqrt(degree[s] * degree[o]) if settings.weighting == "symmetric" else degree[to]
        rows[to] = rows[to] + sign * h[other] * h_rel[r] / size
    return torch.stack(rows)


def normed(total: Tensor, bias: Tensor | None, norm: Any) -> Tensor:
    if bias is None:
        return total
    return batch_norm(total + bias, None, None, norm.weight, norm.bias, training=True)


def slope(model: TangoAuthors, timeline: Timeline, j: int, change: int, z: Tensor) -> Tensor:
    f, n, settings = model.derivative, timeline.num_entities, model.settings
    g = timeline[j]
    edges = [(s, r, o, 1) for s, r, o in zip(g.s.tolist(), g.r.tolist(), g.o.tolist(), strict=True)]
    changes = list(zip(*(column.tolist() for column in timeline.transition(change)), strict=True))
    h, h_rel = z[:n], z[n:]
    x, growth = h, torch.ones(()).double()
    for layer in range(len(f.weights)):
        delta = f.delta if settings.shared_delta else f.delta[layer]
        bias, norm = (f.biases[layer], f.norms[layer]) if settings.batch_norm else (None, None)
        total = summed(x, growth * h_rel, edges, settings) @ f.weights[layer].T
        x = x + delta * torch.relu(normed(total, bias, norm))
        growth = growth * (1 + delta) if settings.moving_relations else growth
    total = summed(h, h_rel, changes, settings) * f.w_trans
    x = x + f.w * torch.relu(normed(total, f.bias_trans, f.norm_trans))
    return torch.cat([x, (growth + f.w) * h_rel if settings.moving_relations else 0 * h_rel])


def alike(a: Tensor, b: Tensor) -> bool:
    """Equal for their size: where relations move and nothing is normalised, states are of any size."""
    size = b.abs().max().clamp(min=1.0)
    return equal(a / size, b / size, 1e-11)


def twin_states(model: TangoAuthors, timeline: Timeline, known: int, t: float) -> Tensor:
    z = torch.cat([model.entities, model.relations])
    times = [*timeline.t.tolist()[:known], t]
    for j in range(max(0, known - model.settings.history), known):
        dt = (times[j + 1] - times[j]) * model.settings.step_time / float(model.gap)
        change = min(j + 1, known - 1) if model.settings.transition_of == "next" else j
        k1 = slope(model, timeline, j, change, z)
        k2 = slope(model, timeline, j, change, z + dt / 2 * k1)
        k3 = slope(model, timeline, j, change, z + dt / 2 * k2)
        z = z + dt / 6 * (k1 + 2 * k2 + 2 * k3 + slope(model, timeline, j, change, z + dt * k3))
    return z


@each_form
def test_states_loss_and_gradients_equal_those_of_the_twin(switches: dict[str, Any]) -> None:
    timeline = make_timeline(2)
    model, n = make_model(timeline, **switches), timeline.num_entities
    windows, queries = windows_at(timeline, TARGET), queries_at(timeline, TARGET)
    loss = model(timeline, windows, queries, torch.Generator())
    ends = zip(windows.known.tolist(), windows.t.tolist(), strict=True)
    states = torch.stack([twin_states(model, timeline, known, t) for known, t in ends])
    assert alike(model.encode(timeline, windows).states, states)
    h, h_rel = states[queries.window, :n], states[queries.window, n + queries.r]
    row, s = torch.arange(len(queries)), queries.s
    e, e_rel = model.entities, model.relations[queries.r]
    scores = torch.einsum("bd,bd,bnd->bn", h[row, s], h_rel, h) + torch.einsum("bd,bd,nd->bn", e[s], e_rel, e)
    expected = cross_entropy(scores, queries.answer)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    names = [name for name, _ in model.named_parameters()]
    found, wanted = (torch.autograd.grad(x, list(model.parameters()), retain_graph=True) for x in (loss, expected))
    for name, a, b in zip(names, found, wanted, strict=True):
        assert alike(a, b), name
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
        graph = model.derivative.bind(edges.s, edges.r, edges.o, timeline.num_entities)
        stages.append(model._slope(0.0, z, (graph, graph), timeline.num_entities, generator))
    assert not equal(stages[0], stages[1], 1e-6)
    scores = [model.eval().score(model.encode(timeline, windows), queries) for _ in range(2)]
    assert torch.equal(*scores)


@pytest.mark.parametrize("name", SWITCHES)
def test_each_switch_is_set_as_by_the_authors_and_changes_the_derivative(name: str) -> None:
    timeline = make_timeline(2)
    windows = windows_at(timeline, TARGET)
    assert getattr(AuthorsSettings(), name) == SWITCHES[name][0]
    states = [
        make_model(timeline, dropout=0.5, **switches).encode(timeline, windows, torch.Generator().manual_seed(0)).states
        for switches in ({}, {name: SWITCHES[name][0]}, {name: SWITCHES[name][1]})
    ]
    assert torch.equal(states[0], states[1])
    assert not equal(states[0], states[2], 1e-3)
    with pytest.raises(ConfigError, match=f"{name} 'x' is unknown; choose one of {SWITCHES[name][0]}"):
        make_model(timeline, **{name: "x"})


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_all_switches_the_other_way_are_the_derivative_of_the_paper(layers: int) -> None:
    """The same weights and masks; an entity without edges has dh/dt = h, a relation none."""
    timeline, known = make_timeline(2), 5
    model = make_model(timeline, layers=layers, dropout=0.5, transition=0.7, **PAPER)
    ours, n = model.derivative, timeline.num_entities
    paper = Derivative(4, layers, 0.7, True, torch.Generator()).double()
    paper.load_state_dict({name.replace("delta", "deltas"): tensor for name, tensor in ours.state_dict().items()})
    block = build_block(timeline, windows_at(timeline, torch.tensor([known])), 1)
    (interval,) = block.intervals
    touched, objects = block.entity[interval.rows], interval.num_objects
    random = torch.Generator().manual_seed(3)
    h, h_rel = (torch.randn(rows, 4, generator=random).double() for rows in (n, len(model.relations)))
    masks = dropout_mask(h.new_empty(layers, n, 4), 0.5, random)
    field = paper.bind(interval, h_rel, 1.0, masks[:, touched[:objects]].flatten(0, 1))
    dz = field(0.0, torch.cat([h[touched], h[:1]])) / field.dt
    graph, (s, r, o, sign) = timeline[known - 1], timeline.transition(known - 1)
    edges, changes = ours.bind(graph.s, graph.r, graph.o, n), ours.bind(s, r, o, n, sign)
    dh, dh_rel = ours(h, h_rel, edges, changes, None, masks)
    expected = h.index_copy(0, touched, dz[:-1])
    assert len(touched) < n
    assert equal(dh, expected, 1e-13)
    assert not dh_rel.any()


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("decoder", DECODERS)
def test_all_switches_the_other_way_are_the_model_of_the_paper(decoder: str, static: bool) -> None:
    """States, loss, and the gradient of every parameter."""
    timeline = make_timeline(2)
    model = make_model(timeline, decoder=decoder, static=static, **PAPER)
    same = ("decoder", "dim", "history", "step_time", "dropout", "static")
    shared = {key: getattr(model.settings, key) for key in same}
    settings = TangoSettings(**shared, identity=True, reach=0.0, unseen="own")
    paper = Tango(settings, timeline, torch.Generator()).double()
    names = {name: name.replace(".delta", ".deltas") for name, _ in model.named_parameters()}
    paper.load_state_dict({names[name]: tensor for name, tensor in model.named_parameters()}, strict=False)
    windows, queries = windows_at(timeline, TARGET), queries_at(timeline, TARGET)
    w, entity = torch.cartesian_prod(torch.arange(len(windows)), torch.arange(timeline.num_entities)).unbind(1)
    states, _ = paper.encode(timeline, windows).states.take(w, entity)
    assert equal(model.encode(timeline, windows).states[w, entity], states)
    losses = [m(timeline, windows, queries, torch.Generator()) for m in (model, paper)]
    assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-12)
    for loss in losses:
        loss.backward()
    wanted = dict(paper.named_parameters())
    assert set(names.values()) == set(wanted)
    for name, parameter in model.named_parameters():
        found, expected = parameter.grad, wanted[names[name]].grad
        assert found is not None
        assert expected is not None
        assert equal(found, expected), name
        assert name in TAKEN_OFF or expected.abs().max() > 1e-7, f"{name}: nothing to compare"


class Moved(nn.Module):
    """The states of a model, with the same dropout at each call."""

    def __init__(self, model: TangoAuthors) -> None:
        super().__init__()
        self.model = model

    def forward(self, timeline: Timeline, windows: Windows) -> Tensor:
        return self.model.encode(timeline, windows, torch.Generator().manual_seed(0)).states


@pytest.mark.parametrize("length", [0.3, 1.0])
@each_form
def test_each_gradient_is_that_of_finite_differences(switches: dict[str, Any], length: float) -> None:
    """Of the states after two intervals with different graphs, for each parameter by itself, with dropout."""
    timeline = make_timeline(2)
    timeline = replace(timeline, t=torch.arange(len(timeline)).double())
    moved = Moved(make_model(timeline, dropout=0.5, history=2, step_time=length, transition=0.3, **switches))
    windows = windows_at(timeline, TARGET[2:3])
    for name, parameter in moved.named_parameters():

        def states(tensor: Tensor, name: str = name) -> Tensor:
            value: Tensor = torch.func.functional_call(moved, {name: tensor}, (timeline, windows))
            return value

        assert torch.autograd.gradcheck(states, (parameter,), atol=1e-6, rtol=1e-4, fast_mode=True), name


@pytest.mark.parametrize("masks_of", SWITCHES["masks_of"])
def test_masks_of_an_interval_are_drawn_once_however_many_stages_there_are(masks_of: str) -> None:
    timeline = make_timeline(2)
    left = []
    for steps in (1, 3):
        generator = torch.Generator().manual_seed(0)
        model = make_model(timeline, dropout=0.5, masks_of=masks_of, steps=steps)
        model.encode(timeline, windows_at(timeline, TARGET), generator)
        left.append(generator.get_state())
    assert torch.equal(*left) == (masks_of == "interval")


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

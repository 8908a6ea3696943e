"""TANGO on touched rows, batched, against a dense twin: all N rows, one window at a time, plain autograd."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import batch_norm, cross_entropy, normalize

from conftest import TAKEN_OFF, all_queries, equal, make_facts, make_timeline
from tangokg.decode import DECODERS
from tangokg.errors import ConfigError
from tangokg.fields import TangoField
from tangokg.models.counters import Frequency
from tangokg.models.histories import windows_elsewhere
from tangokg.models.tango import Tango, TangoSettings
from tangokg.rank import distance_travelled
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import Queries, Windows, queries_at, windows_at
from tangokg.solve import ADAPTIVE, GRADIENTS, TABLEAUS

Slope = Callable[[Tensor], Tensor]


def euler(f: Slope, z: Tensor, dt: float) -> Tensor:
    return z + dt * f(z)


def midpoint(f: Slope, z: Tensor, dt: float) -> Tensor:
    return z + dt * f(z + dt / 2 * f(z))


def heun(f: Slope, z: Tensor, dt: float) -> Tensor:
    k1 = f(z)
    return z + dt / 2 * (k1 + f(z + dt * k1))


def rk4(f: Slope, z: Tensor, dt: float) -> Tensor:
    k1 = f(z)
    k2 = f(z + dt / 2 * k1)
    k3 = f(z + dt / 2 * k2)
    k4 = f(z + dt * k3)
    return z + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


STEP = {"euler": euler, "midpoint": midpoint, "heun": heun, "rk4": rk4}


def convtranse(decoder: Any, h_s: Tensor, h_r: Tensor) -> Tensor:
    """Its query vectors, one product of kernel and position after the other."""
    x = torch.nn.functional.pad(torch.stack([h_s, h_r], dim=1), (1, 1))  # (B, 2, D + 2)
    dim = h_s.shape[1]
    maps = sum(decoder.kernel[:, i, k, None] * x[:, i, None, k : k + dim] for i in (0, 1) for k in (0, 1, 2))
    out = torch.relu(torch.as_tensor(maps)).flatten(1) @ decoder.linear  # (B, D)
    out = (out - out.mean(1, keepdim=True)) / (out.var(1, unbiased=False, keepdim=True) + decoder.norm.eps).sqrt()
    return torch.relu(out * decoder.norm.weight + decoder.norm.bias)


def conve(decoder: Any, h_s: Tensor, h_r: Tensor) -> Tensor:
    """Its query vectors, one position of the filters after the other."""

    def norm(x: Tensor, layer: Any) -> Tensor:
        return batch_norm(x, None, None, layer.weight, layer.bias, training=True)

    image = norm(torch.stack([h_s, h_r], dim=2).view(-1, 1, *decoder.image), decoder.norm_image)  # (B, 1, ., .)
    height, width = decoder.kernels.shape[2:]
    high, wide = decoder.image[0] - height + 1, decoder.image[1] - width + 1  # of a map
    maps = sum(
        decoder.kernels[:, 0, i, j][None, :, None, None] * image[:, :, i : i + high, j : j + wide]
        for i in range(height)
        for j in range(width)
    )
    features = torch.relu(norm(torch.as_tensor(maps), decoder.norm_maps)).flatten(1)
    return torch.relu(norm(features @ decoder.projection.T + decoder.shift, decoder.norm_query))


@dataclass(frozen=True, eq=False)
class Dense:
    """The twin: states (N, D) of one window, and the scores and the loss made of them in plain torch."""

    model: Tango
    timeline: Timeline

    def states(self, known: int, t: float, start: Tensor | None = None, step: str = "rk4", steps: int = 1) -> Tensor:
        settings, times = self.model.settings, self.timeline.t.tolist()
        h = self.unit(self.model.entities if start is None else start)
        if not settings.ode:
            return h
        for j in range(max(0, known - settings.history), known):
            dt = (times[j + 1] if j + 1 < known else t) - times[j]
            dt = min(dt, settings.reach * float(self.model.longest_gap)) if settings.reach else dt
            dt *= settings.step_time / float(self.model.gap) / steps
            change = min(j + 1, known - 1) if settings.transition_of == "next" else j
            for _ in range(steps):
                h = STEP[step](self.slope(j, change), h, dt)
            h = self.unit(h)
        return h

    def unit(self, h: Tensor) -> Tensor:
        return self.model.settings.length * normalize(h) if self.model.settings.normalise else h

    def slope(self, j: int, change: int) -> Slope:
        g, (cs, cr, co, sign), f = self.timeline[j], self.timeline.transition(change), self.model.derivative
        shape = (2 * self.timeline.num_relations, self.timeline.num_entities, self.timeline.num_entities)
        edges, changes = torch.zeros(shape).double(), torch.zeros(shape).double()
        edges[g.r, g.o, g.s] = 1.0
        changes[cr, co, cs] = sign.double()
        edges /= edges.sum((0, 2), keepdim=True).clamp(min=1)
        changes /= changes.abs().sum((0, 2), keepdim=True).clamp(min=1)

        def f_of(h: Tensor) -> Tensor:
            x = h
            for weight, delta in zip(f.weights, f.deltas, strict=True):
                x = x + delta * torch.relu(self.mean(edges, x) @ weight.T)
            return (x if f.identity else x - h) + f.w * torch.relu(self.mean(changes, h) * f.w_trans)

        return f_of

    def mean(self, adjacency: Tensor, h: Tensor) -> Tensor:
        return torch.einsum("ros,sd,rd->od", adjacency, h, self.model.relations)

    def query(self, h_s: Tensor, r: Tensor) -> Tensor:
        """Query vectors; TuckER's in training mode, batch normalisation over all queries."""
        decoder: Any = self.model.decoder
        if self.model.settings.decoder == "distmult":
            return h_s * self.model.relations[r]
        if twin := {"convtranse": convtranse, "conve": conve}.get(self.model.settings.decoder):
            return twin(decoder, h_s, self.model.relations[r])
        dim = h_s.shape[1]
        norms = decoder.norm_in, decoder.norm_out
        first, second = ((norm.weight, norm.bias) for norm in norms)
        x = batch_norm(h_s, None, None, *first, training=True)
        x = torch.einsum("bi,bj,jik->bk", x, self.model.relations[r], decoder.core.view(dim, dim, dim))
        return batch_norm(x, None, None, *second, training=True)

    def loss(self, windows: Windows, queries: Queries, **method: Any) -> Tensor:
        each = [self.states(int(k), float(t), **method) for k, t in zip(windows.known, windows.t, strict=True)]
        states = torch.stack(each)  # (W, N, D)
        return cross_entropy(self.scores(states, queries), queries.answer)

    def scores(self, states: Tensor, queries: Queries) -> Tensor:
        h_s = states[queries.window, queries.s]  # (B, D)
        if not self.model.settings.static:
            return torch.einsum("bd,bnd->bn", self.query(h_s, queries.r), states[queries.window])
        e = self.unit(self.model.entities)
        query = self.query(torch.cat([h_s, e[queries.s]]), queries.r.repeat(2))  # (2B, D)
        now, still = query[: len(queries)], query[len(queries) :]
        return torch.einsum("bd,bnd->bn", now, states[queries.window]) + still @ e.T


def make_model(timeline: Timeline, **settings: Any) -> Tango:
    """In float64, without dropout unless asked for, deltas and states large enough for the graph to matter."""
    chosen = TangoSettings(**({"dim": 4, "dropout": 0.0, "history": 3, "step_time": 0.4} | settings))
    model = Tango(chosen, timeline, torch.Generator().manual_seed(1)).double()
    with torch.no_grad():
        model.derivative.deltas.copy_(torch.linspace(0.5, 0.9, chosen.layers))
        model.entities.mul_(2)
        model.relations.mul_(2)
    return model


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def gradients(model: Tango, loss: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    loss.backward()
    found = {name: torch.zeros_like(p) if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    return found


def states_of(model: Tango, timeline: Timeline, windows: Windows) -> Tensor:
    """(W, N, D): every entity looked up."""
    encoded = model.encode(timeline, windows)
    w, entity = torch.cartesian_prod(torch.arange(len(windows)), torch.arange(timeline.num_entities)).unbind(1)
    rows, _ = encoded.states.take(w, entity)
    return rows.view(len(windows), timeline.num_entities, -1).detach()


TARGET = torch.tensor([0, 1, 7, 2, 5])  # the first has no history, the next two less than the others


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("identity", [True, False])
@pytest.mark.parametrize("transition", [0.0, 1.0])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("decoder", DECODERS)
def test_touched_rows_equal_all_rows(
    decoder: str, layers: int, transition: float, identity: bool, normalise: bool
) -> None:
    """States, loss and the gradient of every parameter, to 1e-10 of their size."""
    timeline = make_timeline(layers)
    model = make_model(
        timeline, decoder=decoder, layers=layers, transition=transition, identity=identity, normalise=normalise
    )
    windows, queries = windows_at(timeline, TARGET), queries_at(timeline, TARGET)
    dense = Dense(model, timeline)
    for w, states in enumerate(states_of(model, timeline, windows)):
        assert equal(states, dense.states(int(windows.known[w]), float(windows.t[w])).detach())
    check_loss_and_gradients(model, dense, windows, queries)


def check_loss_and_gradients(model: Tango, dense: Dense, windows: Windows, queries: Queries, **method: Any) -> None:
    loss, twin = model(dense.timeline, windows, queries, generator()), dense.loss(windows, queries, **method)
    assert loss.item() == pytest.approx(twin.item(), rel=1e-12)
    found, expected = gradients(model, loss), gradients(model, twin)
    for name, gradient in expected.items():
        assert equal(found[name], gradient), name
        unused = name in TAKEN_OFF or (name == "derivative.w_trans" and not model.settings.transition)
        unused = unused or (name.startswith("derivative.") and not model.settings.ode)
        assert unused or gradient.abs().max() > 1e-6, f"{name}: nothing to compare"


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize(
    "switches",
    [
        {"ode": False},
        {"transition_of": "next"},
        {"transition_of": "next", "history": 1},
        {"static": True, "identity": True},
        {"static": True, "normalise": True},
        {"normalise": True, "length": 3.0},
        {"static": True, "transition_of": "next", "ode": False},
    ],
    ids=str,
)
def test_switches_equal_their_twins(switches: dict[str, Any], decoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loss and the gradient of every parameter, with each form of the field."""
    timeline = make_timeline(3)
    model = make_model(timeline, decoder=decoder, **switches)
    windows, queries = windows_at(timeline, TARGET), queries_at(timeline, TARGET)
    fast = TangoField.fast
    for form in (fast, lambda field: fast(field, fused=True), lambda field: field):
        monkeypatch.setattr(TangoField, "fast", form)
        check_loss_and_gradients(model, Dense(model, timeline), windows, queries)


@pytest.mark.parametrize("transition_of", ["start", "next"])
def test_graphs_of_another_window_are_those_of_one_before(transition_of: str) -> None:
    """The states are those that the other window's graphs give; the windows stay what they are."""
    timeline = make_timeline(3)
    model = make_model(timeline, graphs="other", transition_of=transition_of)
    own = make_model(timeline, transition_of=transition_of)
    windows = windows_at(timeline, TARGET)
    other = windows_elsewhere(timeline, windows, 3, model.draw)
    assert equal(states_of(model, timeline, windows), states_of(own, timeline, other))
    assert not equal(states_of(model, timeline, windows), states_of(own, timeline, windows), 1e-3)
    assert model.encode(timeline, windows).windows is windows


def test_another_window_ends_earlier_and_is_drawn_for_good() -> None:
    timeline = make_timeline(1, snapshots=60)
    known = torch.arange(len(timeline) + 1)
    last = timeline.t[(known - 1).clamp(min=0)]
    windows = Windows(known, last + 0.5 + known % 3)
    draws = torch.tensor([0, 1, 2**62])
    found = [windows_elsewhere(timeline, windows, 4, draw) for draw in draws]
    for other in found:
        assert other.known[:2].tolist() == [0, 1]
        assert (other.known[2:5] < known[2:5]).all()
        assert (other.known[5:] <= known[5:] - 4).all()
        assert (other.known[1:] >= 1).all()
        assert equal(other.t - timeline.t[(other.known - 1).clamp(min=0)], windows.t - last)
        assert len(other.known.unique()) > 25
        one = windows_elsewhere(timeline, windows.select(slice(40, 41)), 4, draws[found.index(other)])
        assert one.known.tolist() == other.known[40:41].tolist()
    assert not torch.equal(found[0].known, found[1].known)


def test_the_distance_is_that_of_touched_entities_from_their_first_states() -> None:
    timeline = make_timeline(4)
    model = make_model(timeline).train()
    windows, dense = windows_at(timeline, TARGET), Dense(model, timeline)
    expected = []
    for known, t in zip(windows.known.tolist(), windows.t.tolist(), strict=True):
        steps = range(max(0, known - 3), known)
        touched = {int(o) for j in steps for o in (*timeline[j].o, *timeline.transition(j)[2])}
        moved, start = dense.states(known, t).detach(), model.entities.detach()
        expected += [float((moved[i] - start[i]).norm() / start[i].norm()) for i in sorted(touched)]
    assert model.travelled(model.encode(timeline, windows)).tolist() == pytest.approx(expected, rel=1e-10)
    mean = sum(expected) / len(expected)
    assert distance_travelled(model, timeline, TARGET) == pytest.approx(mean, rel=1e-10)
    assert model.training
    assert distance_travelled(make_model(timeline, ode=False), timeline, TARGET) is None
    assert distance_travelled(Frequency(), timeline, TARGET) is None


def test_newcomers_that_no_graph_of_the_window_touches_do_not_count_as_travelled() -> None:
    facts = make_facts(4)
    timeline = build_timeline(facts)
    model = make_model(build_timeline(facts.before(int(timeline.t[1]))), history=1).eval()
    encoded = model.encode(timeline, windows_at(timeline, torch.tensor([4])))
    touched = {int(o) for o in (*timeline[3].o, *timeline.transition(3)[2])}
    assert len(model.travelled(encoded)) == len(touched) < len(encoded.states.touched)


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("solver", TABLEAUS)
def test_every_fixed_solver_scales_the_untouched_as_it_moves_the_touched(solver: str, steps: int) -> None:
    timeline = make_timeline(5)
    model = make_model(timeline, decoder="distmult", solver=solver, steps=steps)
    windows, queries = windows_at(timeline, TARGET, horizon=2.0), queries_at(timeline, TARGET)
    dense = Dense(model, timeline)
    check_loss_and_gradients(model, dense, windows, queries, step=solver, steps=steps)


@pytest.mark.parametrize("solver", ADAPTIVE)
def test_adaptive_solvers_agree_as_the_tolerance_goes_to_zero(solver: str) -> None:
    timeline = make_timeline(5)
    windows = windows_at(timeline, torch.tensor([3, 1]))
    with torch.no_grad():
        exact = Dense(make_model(timeline, step_time=0.2), timeline).states(3, float(windows.t[0]), steps=60)
        errors = []
        for tolerance in (1e-4, 1e-7):
            model = make_model(timeline, step_time=0.2, solver=solver, rtol=tolerance, atol=tolerance)
            errors.append(float((states_of(model, timeline, windows)[0] - exact).abs().max()))
    assert errors[1] < min(6e-5, errors[0] / 20)


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("gradient", GRADIENTS)
def test_the_state_does_not_depend_on_the_gradient_but_for_the_nodes_of_irdm(gradient: str, normalise: bool) -> None:
    timeline = make_timeline(5)
    windows = windows_at(timeline, TARGET)
    plain = states_of(make_model(timeline, steps=16, normalise=normalise), timeline, windows)
    other = make_model(timeline, steps=16, normalise=normalise, gradient=gradient)
    assert equal(states_of(other, timeline, windows), plain, 1e-6 if gradient == "irdm" else 1e-12)


def test_windows_in_a_training_batch_do_not_mix() -> None:
    """The loss of a batch is the mean over its queries of those of its windows alone (DistMult, no dropout)."""
    timeline = make_timeline(4)
    model = make_model(timeline, decoder="distmult")
    together = model(timeline, windows_at(timeline, TARGET), queries_at(timeline, TARGET), generator())
    each, sizes = [], []
    for target in TARGET.split(1):
        queries = queries_at(timeline, target)
        each.append(model(timeline, windows_at(timeline, target), queries, generator()))
        sizes.append(len(queries))
    mean = sum(loss * size for loss, size in zip(each, sizes, strict=True)) / sum(sizes)
    assert together.item() == pytest.approx(mean.item(), rel=1e-12)
    found, expected = gradients(model, together), gradients(model, mean)
    assert all(equal(found[name], expected[name]) for name in expected)


def test_dropout_is_for_training_alone_and_comes_from_the_generator() -> None:
    timeline = make_timeline(4)
    windows, queries = windows_at(timeline, TARGET), queries_at(timeline, TARGET)
    for decoder in DECODERS:
        model = make_model(timeline, decoder=decoder, dropout=0.5)
        without = make_model(timeline, decoder=decoder, dropout=0.0)
        one, same = (model(timeline, windows, queries, generator()) for _ in range(2))
        assert torch.equal(one, same)
        assert abs(one.item() - without(timeline, windows, queries, generator()).item()) > 1e-3
        scores = [m.eval().score(m.encode(timeline, windows), queries) for m in (model, model)]
        assert torch.equal(*scores)


def test_the_solver_time_of_the_median_gap_is_step_time_and_later_facts_do_not_change_it() -> None:
    facts = make_facts(2)
    part = build_timeline(facts.before(int(facts.t.max()) - 3))
    gaps = sorted(part.t.diff().tolist())
    model = make_model(part, step_time=0.7, identity=True)
    assert float(model.gap) == gaps[(len(gaps) - 1) // 2]
    windows = Windows(torch.tensor([1]), part.t[:1] + model.gap)
    untouched = int((~torch.isin(torch.arange(part.num_entities), part[0].o)).nonzero()[0, 0])
    grown = states_of(model, part, windows)[0, untouched] / model.entities[untouched].detach()
    polynomial = 1 + 0.7 + 0.7**2 / 2 + 0.7**3 / 6 + 0.7**4 / 24
    assert grown.tolist() == pytest.approx([polynomial] * 4, rel=1e-12)


def test_scores_of_every_query_equal_the_twin() -> None:
    timeline = make_timeline(6)
    for decoder in DECODERS:
        model = make_model(timeline, decoder=decoder)
        windows, queries = windows_at(timeline, TARGET), all_queries(len(TARGET))
        dense = Dense(model, timeline)
        states = torch.stack([dense.states(int(k), float(t)) for k, t in zip(windows.known, windows.t, strict=True)])
        assert equal(model.score(model.encode(timeline, windows), queries), dense.scores(states, queries))


def test_evaluating_first_does_not_spoil_training() -> None:
    """What a timeline derives once must be of use with gradients, also where evaluation asked for it first."""
    timeline = make_timeline(4)
    model = make_model(timeline, decoder="distmult")
    windows, queries = windows_at(timeline, TARGET), queries_at(timeline, TARGET)
    with torch.inference_mode():
        model.eval().score(model.encode(timeline, windows), queries)
    model.train()
    model(timeline, windows, queries, generator()).backward()
    assert model.entities.grad is not None


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"decoder": "tuker"}, "decoder 'tuker' is unknown; choose one of distmult, tucker, convtranse"),
        ({"dim": -1}, "dim must be at least 1, or 0 for a size by rule, found -1"),
        ({"layers": 0}, "layers must be at least 1"),
        ({"history": 0}, "history must be at least 1"),
        ({"dropout": 1.0}, r"dropout must lie in \[0, 1\), found 1.0"),
        ({"step_time": -1.0}, "must not be negative"),
        ({"transition": -1.0}, "must not be negative"),
        ({"reach": -1.0}, "must not be negative"),
        ({"length": 0.0}, "length must be positive, found 0.0"),
        ({"graphs": "others"}, "graphs 'others' is unknown; choose one of own, other"),
        ({"transition_of": "last"}, "transition_of 'last' is unknown; choose one of start, next"),
        ({"solver": "rk5"}, "solver = 'rk5' is unknown"),
        ({"gradient": "reverse"}, "gradient = 'reverse' is unknown"),
        ({"steps": 0}, "steps = 0 must be"),
        ({"nodes": 1}, "nodes = 1 must be"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        TangoSettings(**settings)


def test_an_interval_is_followed_no_further_than_its_reach() -> None:
    """Beyond ``reach`` longest training gaps the states stand still; within it nothing changes."""
    timeline = make_timeline(1)
    longest = float(timeline.t.diff().max())
    known, last = len(timeline), float(timeline.t[-1])

    def states_after(gaps: float, reach: float) -> Tensor:
        windows = Windows(torch.tensor([known]), torch.tensor([last + gaps * longest], dtype=torch.float64))
        return states_of(make_model(timeline, reach=reach), timeline, windows)[0]

    assert equal(states_after(1.4, reach=1.5), states_after(1.4, reach=0.0))
    assert equal(states_after(9.0, reach=1.5), states_after(1.5, reach=0.0))
    assert (states_after(9.0, reach=0.0) - states_after(1.5, reach=0.0)).abs().max() > 1e-3

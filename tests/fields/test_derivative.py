"""The field of one interval: its formula edge by edge, its masks, that it stays as it was bound, and its fast forms."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from conftest import N, R, equal, make_timeline
from tangokg.fields import Derivative, TangoField
from tangokg.fields.fast import FastField
from tangokg.fields.fast.recorded import Tape
from tangokg.masks import dropout_mask
from tangokg.snapshots.blocks import Interval, build_block
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import windows_at
from tangokg.solve import GRADIENTS, TABLEAUS, Method, solve
from tangokg.solve.integrate import integrate

D, J, DT, UNIT = 5, 4, 3.0, 0.1


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def draw_masks(interval: Interval, layers: int, seed: int) -> Tensor:
    """(L objects, D) for a dropout of 0.5."""
    return dropout_mask(torch.empty(layers * interval.num_objects, D).double(), 0.5, generator(seed))


Form = Callable[[TangoField], TangoField]
FAST: dict[str, Form] = {"gathered": TangoField.fast, "fused": lambda field: field.fast(fused=True)}
READ: dict[str, Form] = {"read": lambda field: field}
each_form = pytest.mark.parametrize("form", [*READ.values(), *FAST.values()], ids=[*READ, *FAST])
each_fast_form = pytest.mark.parametrize("form", FAST.values(), ids=FAST)


def one_interval(
    derivative: Derivative, timeline: Timeline, form: Form, masks: int | None = None
) -> tuple[TangoField, Tensor, Tensor]:
    """The field of snapshot J for one window of length DT, relation states, and the entity of each row but the last."""
    windows = windows_at(timeline, torch.tensor([J + 1]))
    windows.t.fill_(float(timeline.t[J]) + DT)
    block = build_block(timeline, windows, 1)
    interval = block.intervals[0]
    h_rel = torch.randn(2 * R, D, dtype=torch.float64, generator=generator(7))
    drawn = None if masks is None else draw_masks(interval, len(derivative.weights), masks)
    return form(derivative.bind(interval, h_rel, UNIT, drawn)), h_rel, block.entity[interval.rows]


def by_hand(derivative: Derivative, timeline: Timeline, h: Tensor, h_rel: Tensor) -> Tensor:
    """dh/dt of all N entities, one edge at a time."""
    g, (cs, cr, co, sign) = timeline[J], timeline.transition(J)
    state = h
    for weight, delta in zip(derivative.weights, derivative.deltas, strict=True):
        rows = []
        for entity in range(N):
            into = (g.o == entity).nonzero()[:, 0].tolist()
            mean = sum((weight @ (state[g.s[e]] * h_rel[g.r[e]]) for e in into), torch.zeros(D).double())
            rows.append(state[entity] + delta * torch.relu(mean / max(len(into), 1)))
        state = torch.stack(rows)
    rows = []
    for entity in range(N):
        into = (co == entity).nonzero()[:, 0].tolist()
        total = sum((derivative.w_trans * sign[e] * h[cs[e]] * h_rel[cr[e]] for e in into), torch.zeros(D).double())
        rows.append(torch.relu(total / max(len(into), 1)))
    return (state if derivative.identity else state - h) + derivative.w * torch.stack(rows)


@each_form
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("w", [0.0, 0.7])
@pytest.mark.parametrize("identity", [True, False])
def test_the_formula_edge_by_edge(layers: int, w: float, identity: bool, form: Form) -> None:
    derivative = Derivative(D, layers, w, identity, generator(layers)).double()
    timeline = make_timeline(1)
    field, h_rel, entity = one_interval(derivative, timeline, form)
    h = torch.randn(N, D, dtype=torch.float64, generator=generator(2))
    isolated = torch.ones(1, D, dtype=torch.float64)
    dz = field(0.0, torch.cat([h[entity], isolated]))
    expected = by_hand(derivative, timeline, h, h_rel) * DT * UNIT
    assert equal(dz[:-1], expected[entity])
    assert equal(dz[-1:], isolated * DT * UNIT * identity)
    untouched = [e for e in range(N) if e not in entity.tolist()]
    assert untouched
    assert equal(expected[untouched], h[untouched] * DT * UNIT * identity)


@each_form
def test_masks_are_drawn_once_and_fall_on_the_messages_alone(form: Form) -> None:
    derivative = Derivative(D, 1, 0.0, True, generator()).double()
    plain, _, entity = one_interval(derivative, make_timeline(), form)
    masked, _, _ = one_interval(derivative, make_timeline(), form, 3)
    z = torch.randn(len(entity) + 1, D, dtype=torch.float64, generator=generator(4))
    assert torch.equal(masked(0.0, z), masked(0.5, z))
    objects = plain.graph.num_objects
    mask = dropout_mask(z[:objects], 0.5, generator(3))
    update = plain(0.0, z)[:objects] - z[:objects] * plain.dt[:objects]
    assert equal(masked(0.0, z)[:objects], z[:objects] * plain.dt[:objects] + update * mask)
    assert (update * (mask == 0)).abs().max() > 1e-3  # something was there to drop


@each_form
def test_rebinding_keeps_the_graph_and_replaces_every_tensor(form: Form) -> None:
    derivative = Derivative(D, 2, 1.0, True, generator()).double()
    field, _, entity = one_interval(derivative, make_timeline(), form)
    other = field.rebind(tuple(2 * tensor.detach() for tensor in field.tensors()))
    assert other.graph is field.graph
    assert all(torch.equal(b, 2 * a) for a, b in zip(field.tensors(), other.tensors(), strict=True))
    z = torch.randn(len(entity) + 1, D, dtype=torch.float64, generator=generator(4))
    again = other.rebind(field.tensors())
    assert torch.equal(again(0.0, z), field(0.0, z))
    assert not torch.equal(other(0.0, z), field(0.0, z))


def test_first_values_are_the_papers() -> None:
    derivative = Derivative(D, 3, 1.0, True, generator())
    assert derivative.deltas.tolist() == pytest.approx([0.1] * 3)
    same = Derivative(D, 3, 1.0, True, generator())
    for (name, a), b in zip(derivative.named_parameters(), same.parameters(), strict=True):
        assert torch.equal(a, b), f"{name} comes from the generator"


@each_fast_form
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("w", [0.0, 0.7])
@pytest.mark.parametrize("identity", [True, False])
@pytest.mark.parametrize("dropped", [False, True])
def test_a_fast_form_is_the_readable_one(layers: int, w: float, identity: bool, dropped: bool, form: Form) -> None:
    """In value, and in the gradient of every input, which autograd takes of the readable form."""
    derivative = Derivative(D, layers, w, identity, generator(layers)).double()
    timeline = make_timeline(1)
    interval = build_block(timeline, windows_at(timeline, torch.tensor([J + 1, 2])), 1).intervals[0]
    z = torch.randn(interval.num_rows, D, dtype=torch.float64, generator=generator(2), requires_grad=True)
    h_rel = torch.randn(2 * R, D, dtype=torch.float64, generator=generator(7), requires_grad=True)
    masks = draw_masks(interval, len(derivative.weights), 3) if dropped else None
    field = derivative.bind(interval, h_rel, UNIT, masks)
    written, plain = form(field)(0.0, z), field(0.0, z)
    assert equal(written, plain)
    look = torch.randn(z.shape, dtype=torch.float64, generator=generator(4))
    leaves = {"z": z, "relations": h_rel, **dict(derivative.named_parameters())}
    found, expected = (torch.autograd.grad(dz, tuple(leaves.values()), look) for dz in (written, plain))
    for name, a, b in zip(leaves, found, expected, strict=True):
        assert equal(a, b), name
        assert b.abs().max() > 0 or (name == "w_trans" and not w), name


@each_fast_form
@pytest.mark.parametrize("solver", TABLEAUS)
@pytest.mark.parametrize("steps", [1, 3])
def test_steps_of_a_fast_form_have_the_gradient_of_autograd(solver: str, steps: int, form: Form) -> None:
    derivative = Derivative(D, 2, 0.7, True, generator()).double()
    timeline = make_timeline(1)
    interval = build_block(timeline, windows_at(timeline, torch.tensor([J + 1, 2])), 1).intervals[0]
    z = torch.randn(interval.num_rows, D, dtype=torch.float64, generator=generator(2), requires_grad=True)
    h_rel = torch.randn(2 * R, D, dtype=torch.float64, generator=generator(7), requires_grad=True)
    masks = draw_masks(interval, len(derivative.weights), 3)
    field = derivative.bind(interval, h_rel, UNIT, masks)
    found = solve(form(field), z, 0.0, 1.0, Method(solver, steps=steps))
    expected = integrate(field, z, 0.0, 1.0, tableau=TABLEAUS[solver], steps=steps)
    assert equal(found, expected)
    leaves, look = (z, h_rel, *derivative.parameters()), torch.randn(z.shape, dtype=z.dtype, generator=generator(4))
    for a, b in zip(*(torch.autograd.grad(end, leaves, look) for end in (found, expected)), strict=True):
        assert equal(a, b)
        assert b.abs().max() > 0


@each_fast_form
@pytest.mark.parametrize("gradient", GRADIENTS)
def test_every_gradient_is_that_of_the_readable_form(gradient: str, form: Form) -> None:
    derivative = Derivative(D, 2, 0.7, True, generator()).double()
    field, h_rel, entity = one_interval(derivative, make_timeline(1), READ["read"])
    z = torch.randn(len(entity) + 1, D, dtype=torch.float64, generator=generator(2), requires_grad=True)
    look = torch.randn(z.shape, dtype=z.dtype, generator=generator(4))
    leaves, method = (z, h_rel.requires_grad_(), *derivative.parameters()), Method(gradient=gradient, steps=3, nodes=4)
    ends = [solve(one, z, 0.0, 1.0, method) for one in (form(field), field)]
    for a, b in zip(*(torch.autograd.grad(end, leaves, look) for end in ends), strict=True):
        assert equal(a, b)
        assert b.abs().max() > 0


@each_fast_form
def test_without_a_gradient_nothing_is_recorded(form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve evaluations have room for one each, and none of it is kept."""
    derivative = Derivative(D, 2, 0.7, True, generator()).double()
    field, _, entity = one_interval(derivative, make_timeline(), form)
    alive = []
    made = FastField.tape

    def tape(self: FastField, z: Tensor) -> Tape:
        room = made(self, z)
        alive.append(weakref.ref(room))
        assert sum(one() is not None for one in alive) == 1
        return room

    monkeypatch.setattr(FastField, "tape", tape)
    with torch.no_grad():
        solve(field, torch.ones(len(entity) + 1, D, dtype=torch.float64), 0.0, 1.0, Method(steps=3))
    assert len(alive) == 12

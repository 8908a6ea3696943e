"""The gradients of TANGO itself, parameter by parameter, over intervals of length 0.3 and 1 with two graphs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from conftest import TAKEN_OFF, N, R, facts_like, make_facts
from tangokg.decode import DECODERS
from tangokg.fields.fast import FastField
from tangokg.models import tango
from tangokg.models.tango import Tango, TangoSettings
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import queries_at, windows_at
from tangokg.solve import GRADIENTS, Method, solve

SMALL = {"convtranse": {"channels": 3}}  # settings of a decoder with many weights
TIMES = (0, 7, 10, 20)  # the window's intervals are 3 and 10 long: 0.3 and 1 of solver time
REVERSE = [name for name in GRADIENTS if name != "direct"]


def rings() -> Timeline:
    """Snapshot j links each entity i to i + j + 1: the same sizes everywhere, and no edge in common."""
    rows = [(i, i % R, (i + j + 1) % N, t) for j, t in enumerate(TIMES) for i in range(N)]
    return build_timeline(facts_like(make_facts(), rows))


def make_model(timeline: Timeline, **settings: Any) -> Tango:
    model = Tango(
        TangoSettings(**({"dim": 4, "history": 2, "dropout": 0.0} | settings)),
        timeline,
        torch.Generator().manual_seed(4),
    ).double()
    model.gap.fill_(10.0)
    return model


def excited(model: Tango) -> Tango:
    """Far from the first weights, so that the graph matters as much as the state itself."""
    with torch.no_grad():
        model.derivative.deltas.fill_(0.8)
        model.entities.mul_(2)
        model.relations.mul_(2)
    return model


def loss_of(model: Tango, timeline: Timeline) -> Tensor:
    target = torch.tensor([3])
    loss: Tensor = model(timeline, windows_at(timeline, target), queries_at(timeline, target), torch.Generator())
    return loss


def gradients(model: Tango, timeline: Timeline) -> dict[str, Tensor]:
    """Each parameter by itself: all others are constants."""
    found = {}
    for name, parameter in model.named_parameters():
        if name in TAKEN_OFF:
            continue
        for other in model.parameters():
            other.requires_grad_(other is parameter)
        (found[name],) = torch.autograd.grad(loss_of(model, timeline), [parameter])
    return found


def far_apart(found: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float) -> set[str]:
    """The parameters whose gradients differ by more than ``tolerance`` of the largest entry."""
    return {
        name
        for name, gradient in expected.items()
        if float((found[name] - gradient).abs().max()) > tolerance * float(gradient.abs().max())
    }


def test_the_intervals_are_those_of_the_title() -> None:
    timeline = rings()
    model = make_model(timeline)
    assert [(b - a) * model.settings.step_time / float(model.gap) for a, b in ((7, 10), (10, 20))] == [0.3, 1.0]


@pytest.mark.parametrize("decoder", DECODERS)
def test_direct_agrees_with_finite_differences(decoder: str) -> None:
    """Central differences of every entry; a kink within 1e-6 would show, and none is there."""
    timeline = rings()
    model = excited(make_model(timeline, decoder=decoder, decoding=SMALL.get(decoder, {})))
    found, eps = gradients(model, timeline), 1e-6
    expected = {}
    with torch.no_grad():
        for name in found:
            parameter = model.get_parameter(name)
            flat, slope = parameter.view(-1), torch.zeros(parameter.numel(), dtype=torch.float64)
            for i in range(len(flat)):
                value = flat[i].item()
                ends = []
                for sign in (1, -1):
                    flat[i] = value + sign * eps
                    ends.append(loss_of(model, timeline).item())
                flat[i] = value
                slope[i] = (ends[0] - ends[1]) / (2 * eps)
            expected[name] = slope.view_as(parameter)
            assert slope.abs().max() > 1e-4, f"{name}: nothing to compare"
    assert not far_apart(found, expected, 1e-6)


@cache
def direct_gradients(decoder: str) -> dict[str, Tensor]:
    timeline = rings()
    return gradients(make_model(timeline, decoder=decoder, steps=32), timeline)


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("gradient", REVERSE)
def test_reverse_gradients_agree_with_direct(gradient: str, decoder: str) -> None:
    """At the first weights: each kink that z crosses costs an error of one step times the jump of the slope."""
    timeline = rings()
    found = gradients(make_model(timeline, decoder=decoder, steps=32, nodes=6, gradient=gradient), timeline)
    assert not far_apart(found, direct_gradients(decoder), 1e-3)


@dataclass(eq=False)
class Swappable:
    """The defect that binding prevents: a field that looks up its graph when it is called."""

    field: FastField
    current: list[FastField]

    def __call__(self, t: float | Tensor, z: Tensor) -> Tensor:
        last = self.current[-1]
        return replace(self.field, graph=last.graph, edges=last.edges)(t, z)

    def tensors(self) -> tuple[Tensor, ...]:
        return self.field.tensors()

    def rebind(self, tensors: tuple[Tensor, ...]) -> Swappable:
        return Swappable(self.field.rebind(tensors), self.current)


@pytest.mark.parametrize("gradient", REVERSE)
def test_a_graph_swapped_before_the_reverse_pass_fails_that_test(
    gradient: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeline = rings()
    direct = direct_gradients("distmult")
    current: list[FastField] = []

    def careless(field: FastField, z0: Tensor, t0: float, t1: float, method: Method) -> Tensor:
        current.append(field)
        return solve(Swappable(field, current), z0, t0, t1, method)

    monkeypatch.setattr(tango, "solve", careless)
    model = make_model(timeline, decoder="distmult", steps=32, nodes=6, gradient=gradient)
    assert far_apart(gradients(model, timeline), direct, 1e-3) == set(direct)

"""A captured step is the plain step. These tests need a GPU; what captures are made of is tested without one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from conftest import make_timeline
from tangokg.errors import TrainingError
from tangokg.fields.fast.captured import FIRST, Captures
from tangokg.models.tango import Tango, TangoSettings
from tangokg.snapshots.windows import queries_at, windows_at

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
TARGETS = [[5, 2, 7], [1, 3, 8], [2, 6, 4], [7, 5, 3], [8, 1, 2], [3, 4, 5], [6, 7, 8], [2, 3, 4], [4, 8, 6]]


def make_model(cuda_graphs: bool, dtype: torch.dtype = torch.float32, **settings: object) -> Tango:
    settings = {"dim": 20, "history": 3, "dropout": 0.0, **settings}
    model = Tango(TangoSettings(**settings), make_timeline(1), torch.Generator().manual_seed(0))  # type: ignore[arg-type]
    model.cuda_graphs = cuda_graphs
    return model.to("cuda", dtype).train()


def losses_and_gradients(model: Tango, targets: list[list[int]]) -> list[dict[str, Tensor]]:
    timeline, masks = make_timeline(1).to(torch.device("cuda")), torch.Generator("cuda").manual_seed(3)
    found = []
    for target in map(torch.tensor, targets):
        model.zero_grad()
        loss = model(timeline, windows_at(timeline, target), queries_at(timeline, target), masks)
        loss.backward()
        gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
        found.append({"loss": loss.detach(), **gradients})
    return found


@pytest.mark.parametrize("identity", [False, True])
@pytest.mark.parametrize("transition", [0.0, 1.0])
@pytest.mark.parametrize("decoder", ["tucker", "distmult"])
@pytest.mark.parametrize("more", [{}, {"static": True}, {"graphs": "other"}], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_losses_and_gradients_are_those_of_the_plain_path(
    identity: bool, transition: float, decoder: str, more: dict[str, object], dtype: torch.dtype
) -> None:
    settings = {"identity": identity, "transition": transition, "decoder": decoder, **more}
    model = make_model(True, dtype, **settings)
    found = losses_and_gradients(model, TARGETS)
    expected = losses_and_gradients(make_model(False, dtype, **settings), TARGETS)
    assert model._captures is not None
    assert model._captures.captured, "nothing was captured"
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    for a, b in zip(found, expected, strict=True):
        assert a.keys() == b.keys()
        for name in b:
            error, size = float((a[name] - b[name]).abs().max()), float(b[name].abs().max())
            assert error <= tolerance * max(1e-3, size), f"{name}: {error} of {size}"


@pytest.mark.parametrize("switch", [{"ode": False}, {"transition_of": "next"}])
def test_switches_that_captures_were_not_made_for_keep_to_the_plain_path(switch: dict[str, object]) -> None:
    model = make_model(True, torch.float64, **switch)
    found = losses_and_gradients(model, TARGETS)
    expected = losses_and_gradients(make_model(False, torch.float64, **switch), TARGETS)
    assert model._captures is None
    assert all(torch.allclose(a["loss"], b["loss"], rtol=1e-10) for a, b in zip(found, expected, strict=True))


def test_dropout_is_drawn_anew_in_each_replay() -> None:
    model = make_model(True, dropout=0.5)
    losses = [found["loss"].item() for found in losses_and_gradients(model, [[5, 2, 7]] * (FIRST + 4))]
    assert model._captures is not None
    assert model._captures.captured
    assert len(set(losses)) == len(losses)


def test_a_step_overwritten_before_its_backward_pass_is_refused() -> None:
    model, timeline = make_model(True), make_timeline(1).to(torch.device("cuda"))
    target = torch.tensor([5, 2, 7])
    asked = windows_at(timeline, target), queries_at(timeline, target), torch.Generator("cuda")
    for _ in range(FIRST):
        model(timeline, *asked).backward()
    first, second = model(timeline, *asked), model(timeline, *asked)
    with pytest.raises(TrainingError, match="before its backward"):
        first.backward()
    second.backward()


def test_gradients_of_two_backward_passes_add_up() -> None:
    model, timeline = make_model(True), make_timeline(1).to(torch.device("cuda"))
    target = torch.tensor([5, 2, 7])
    asked = windows_at(timeline, target), queries_at(timeline, target), torch.Generator("cuda")
    for _ in range(FIRST + 1):
        model.zero_grad()
        model(timeline, *asked).backward()
    once = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model(timeline, *asked).backward()
    for name, p in model.named_parameters():
        if name in once:
            assert p.grad is not None
            assert torch.allclose(p.grad, 2 * once[name], rtol=1e-4, atol=1e-7), name


def test_where_memory_runs_out_the_plain_path_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise torch.cuda.OutOfMemoryError

    monkeypatch.setattr(Captures, "find", full)
    model = make_model(True)
    found = losses_and_gradients(model, [[5, 2, 7]])
    assert (model.cuda_graphs, model._captures) == (False, None)
    assert found[0]["loss"].isfinite()


def test_moving_the_weights_makes_new_captures() -> None:
    model = make_model(True)
    losses_and_gradients(model, [[5, 2, 7]] * (FIRST + 1))
    before = model._captures
    for p in model.derivative.parameters():
        p.data = p.data.clone()
    losses_and_gradients(model, [[5, 2, 7]])
    assert model._captures is not before

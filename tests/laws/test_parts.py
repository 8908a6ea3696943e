"""A loss computed in parts is the loss computed at once, and holds no more scores than fit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from conftest import TAKEN_OFF, N, make_timeline
from tangokg.decode import DECODERS
from tangokg.decode.parts import cut, sum_of_parts
from tangokg.history.heads import HEADS
from tangokg.models import MODELS, Model
from tangokg.snapshots.windows import queries_at, windows_at
from tangokg.train import make_config
from tangokg.train.material import build_model

SMALL = {"dim": 5, "dropout": 0.0, "history": 3, "width": 8, "pair_dropout": 0.0}
TIMELINE, TARGET = make_timeline(), torch.tensor([5, 6, 8])


def small_model(name: str, more: dict[str, Any]) -> Model:
    known = {field for field in SMALL if hasattr(MODELS[name].settings, field)}
    values = {key: value for key, value in SMALL.items() if key in known} | more
    config = make_config(name, {"settings": values, "train": {"precision": "64-true", "device": "cpu"}})
    model = build_model(config, TIMELINE)
    model.settle(TIMELINE)
    return model.train()


IN_PARTS = [name for name in MODELS if small_model(name, {}).in_parts]
CASES = [
    *((name, {}) for name in IN_PARTS),
    *(("tango-tucker", {"decoder": decoder}) for decoder in DECODERS),
    *(("tango", {"heads": ", ".join((*head.needs, name))}) for name, head in HEADS.items()),
    ("tango", {"ode": True, "auxiliary": 0.0, "smoothing": 0.0}),
    ("tango-distmult", {"static": True}),
]


def loss_and_gradients(model: Model, room: int) -> tuple[Tensor, dict[str, Tensor | None]]:
    model.score_bytes = room
    model.zero_grad()
    loss = model(TIMELINE, windows_at(TIMELINE, TARGET), queries_at(TIMELINE, TARGET), torch.Generator())
    (2 * loss).backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if name not in TAKEN_OFF}
    return loss.detach(), {name: grad if grad is None else grad.clone() for name, grad in gradients.items()}


@pytest.mark.parametrize(("name", "more"), CASES, ids=str)
@pytest.mark.parametrize("room", [1, 3000, 20_000])
def test_the_loss_in_parts_is_the_loss_at_once(name: str, more: dict[str, Any], room: int) -> None:
    model = small_model(name, more)
    loss, gradients = loss_and_gradients(model, 0)
    again, in_parts = loss_and_gradients(model, room)
    assert float(again) == pytest.approx(float(loss), rel=1e-12)
    assert gradients.keys() == in_parts.keys()
    for key, gradient in gradients.items():
        found = in_parts[key]
        if gradient is None or found is None:
            assert gradient is None or not gradient.any(), key
            assert found is None or not found.any(), key
        else:
            torch.testing.assert_close(found, gradient, rtol=1e-9, atol=1e-13, msg=key)


class Largest(TorchDispatchMode):
    """The largest number of rows of any tensor with a column for each entity."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.rows = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and result.dim() == 2 and result.shape[1] == N:
            self.rows = max(self.rows, len(result))
        return result


@pytest.mark.parametrize("name", IN_PARTS)
def test_no_more_scores_are_held_than_fit(name: str) -> None:
    model = small_model(name, {})
    rows = []
    for room in (0, 1):
        model.score_bytes = room
        queries = queries_at(TIMELINE, TARGET)
        with Largest() as largest:
            model(TIMELINE, windows_at(TIMELINE, TARGET), queries, torch.Generator()).backward()
        rows.append(largest.rows)
    assert rows[0] >= len(queries.distinct()[0]) > N > 2 * SMALL["dim"] >= rows[1]


def test_parts_hold_what_fits_and_all_queries_once() -> None:
    costs = torch.tensor([3, 4, 2, 9, 1, 1, 1, 5])
    assert cut(costs, 0) == cut(costs, int(costs.sum())) == [slice(0, 8)]
    parts = cut(costs, 7)
    assert parts == [slice(0, 2), slice(2, 3), slice(3, 4), slice(4, 7), slice(7, 8)]
    assert [int(costs[part].sum()) for part in parts] == [7, 2, 9, 3, 5]  # one query that does not fit is alone
    assert cut(costs[:0], 7) == [slice(0, 0)]


def test_constants_have_no_gradient_and_no_cost() -> None:
    x, y = torch.ones(6, requires_grad=True), torch.ones(6)
    parts = [slice(0, 2), slice(2, 6)]
    loss = sum_of_parts(lambda part, x, y: (x[part] * y[part]).sum(), parts, (x, y), ())
    loss.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0] * 6
    assert y.grad is None
    assert float(sum_of_parts(lambda part, y: y[part].sum(), parts, (y,), ())) == 6

"""A moving average of the weights: what is evaluated and kept where a run asks for it (docs/maths.md, row M46)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Average:
    r""":math:`\bar w \leftarrow \beta \bar w + (1 - \beta) w` after each step, with a smaller :math:`\beta` at first.

    With a decay of 0 there is no average, and all of this does nothing.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model, self.decay, self.steps = model, decay, 0
        self.weights: dict[str, Tensor] = {}
        if decay:
            self.weights = {name: p.detach().clone() for name, p in model.named_parameters()}

    def step(self) -> None:
        """Take the weights of the model after a step into the average."""
        if self.decay:
            self.steps += 1
            beta = min(self.decay, (1 + self.steps) / (10 + self.steps))
            now = [p.detach() for p in self.model.parameters()]
            torch._foreach_lerp_(list(self.weights.values()), now, 1 - beta)

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint keeps."""
        kept = {f"average.{name}": weight for name, weight in self.weights.items()}
        return kept | {"average": torch.tensor(self.steps)} if kept else {}

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Go on from what :meth:`tensors` gave."""
        if self.decay:
            self.steps = int(tensors["average"])
            for name, weight in self.weights.items():
                weight.copy_(tensors[f"average.{name}"])

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The model with the average in place of its weights, which come back afterwards."""
        if not self.decay:
            yield
            return
        own = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        self._put(self.weights)
        try:
            yield
        finally:
            self._put(own)

    @torch.no_grad()
    def _put(self, weights: dict[str, Tensor]) -> None:
        for name, p in self.model.named_parameters():
            p.copy_(weights[name])

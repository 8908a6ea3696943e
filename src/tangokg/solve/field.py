"""The interface of integration: a derivative bound to its graph, and a state of several tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, Self, runtime_checkable

from torch import Tensor

Tensors = tuple[Tensor, ...]
Slope = Callable[[float | Tensor, Tensors], Tensors]


class Field(Protocol):
    """dz/dt = f(t, z) on one interval, bound to one graph for good: a reverse pass calls it again later.

    ``t`` is a float from a fixed grid and a tensor () from an adaptive solver.
    """

    def __call__(self, t: float | Tensor, z: Tensor) -> Tensor: ...

    def tensors(self) -> tuple[Tensor, ...]:
        """Every tensor besides z that needs a gradient; a reverse pass gives none to a tensor left out here."""
        ...

    def rebind(self, tensors: tuple[Tensor, ...]) -> Self:
        """The same field, graph and all, on other tensors of the same shapes."""
        ...


@runtime_checkable
class Stepping(Field, Protocol):
    """A field that can take the steps of a fixed grid itself, with a gradient of its own making."""

    def along(
        self, z0: Tensor, a: tuple[tuple[float, ...], ...], b: tuple[float, ...], lengths: Sequence[float]
    ) -> Tensor:
        """z after steps of these lengths from z0, by the Runge-Kutta method with stages a and weights b."""
        ...


class Solver(Protocol):
    """Carries a state along ``times``, ascending or descending, and gives it at each of ``times[1:]``."""

    def __call__(self, f: Slope, state: Tensors, times: Sequence[float]) -> list[Tensors]: ...

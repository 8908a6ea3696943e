"""Adaptive integration, all of it torchdiffeq's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from tangokg.errors import TrainingError
from tangokg.solve.field import Slope, Tensors

# Left out: torchdiffeq's fixed grids (its ``rk4`` is the 3/8 rule, ours the classical tableau) and its ``fehlberg2``,
# whose error was 17 to 50 times the tolerance on smooth fields.
ADAPTIVE = ("dopri5", "dopri8", "bosh3", "adaptive_heun")


@dataclass(frozen=True)
class Adaptive:
    """An embedded Runge-Kutta pair that chooses its steps from the estimated error, kept below rtol |z| + atol."""

    name: str
    rtol: float
    atol: float

    def __call__(self, f: Slope, state: Tensors, times: Sequence[float]) -> list[Tensors]:
        """Steps end on ``times``: left alone, torchdiffeq steps past the end and interpolates back from there.

        A kink of f just beyond the end then spoils the gradient (relu, dopri5, tolerance 1e-7: 1e-3 instead of 2e-7).
        One inside still spoils ``direct`` (tolerance 1e-6: 8e-3); ``adjoint`` and ``irdm`` control that error (2e-4).
        """
        from torchdiffeq import odeint  # takes a quarter of a second to import, for scipy

        t = torch.tensor(times, dtype=torch.float64, device=state[0].device)
        options = {"step_t": t[1:]}
        try:
            along = odeint(f, state, t, rtol=self.rtol, atol=self.atol, method=self.name, options=options)
        except AssertionError as error:  # how torchdiffeq says that it cannot go on
            reason = str(error).split(":")[0]  # what follows a colon is the whole state
            raise TrainingError(
                f"solver {self.name!r} stopped between t = {times[0]:g} and {times[-1]:g} ({reason}): the state grows "
                f"beyond all bounds, or rtol = {self.rtol:g} and atol = {self.atol:g} are finer than {state[0].dtype} "
                f"can resolve. Loosen them, use float64, lower the learning rate or take a fixed grid."
            ) from error
        return [tuple(z[i] for z in along) for i in range(1, len(times))]

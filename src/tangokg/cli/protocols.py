"""How an evaluation asks, from options: at which horizons, by which protocol, among which candidates."""

from __future__ import annotations

from enum import StrEnum
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from tangokg.errors import ConfigError

if TYPE_CHECKING:
    from tangokg.forecast import Forecaster
    from tangokg.rank import CandidateLists, Protocol

Protocols = list[tuple[float | None, "Protocol"]]  # by horizon

MOST_HORIZONS = 1000


class ProtocolName(StrEnum):
    """Protocols that need no number, as :data:`tangokg.rank.protocols.PLAIN`."""

    SINGLE_STEP = "single-step"
    TGB = "tgb"


def parse_horizons(text: str) -> list[float]:
    """``3``, ``1,3,5``, ``1-8`` or a mixture -> horizons, in the order given."""
    horizons: list[float] = []
    for piece in text.split(","):
        first, dash, last = piece.strip().partition("-")
        try:
            steps = range(int(first), int(last) + 1)[: MOST_HORIZONS + 1] if dash else [float(piece)]
        except ValueError:
            steps = []
        horizons += map(float, steps)
        if not steps or not all(0 < dt < inf for dt in steps) or len(horizons) > MOST_HORIZONS:
            raise ConfigError(
                f"--horizon {text!r}: expected numbers of time steps above 0: 3, a list 1,3,5 or a range 1-8, "
                f"{MOST_HORIZONS} at most."
            )
    return horizons


def make_protocols(
    trained: Forecaster,
    split: str,
    horizons: list[float | None],
    inductive: bool,
    multi_step: bool,
    as_tgb: bool,
) -> Protocols:
    """The protocol of each horizon; None is the single step. What was ``trained`` says which entities are new."""
    from tangokg import rank

    base = rank.inductive(trained.seen) if inductive else rank.tgb() if as_tgb else rank.SINGLE_STEP
    if multi_step:
        times = getattr(trained.dataset, split).t
        base = rank.multi_step(float(times.min()) if len(times) else 0.0, base)  # an empty part has no queries
    return [(dt, base if dt is None else rank.horizon(dt, base)) for dt in horizons]


def read_lists(forecaster: Forecaster, candidates: Path | None) -> CandidateLists | None:
    """Lists of candidates, read once for all models."""
    from tangokg.rank import read_candidates

    known = forecaster.facts
    return None if candidates is None else read_candidates(candidates, known.vocab, known.clock)

"""Probabilities compared with outcomes: reliability, expected calibration error, Brier score."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tangokg.quads.values import Floats
from tangokg.showing import html_table, to_frame

BIN = ("said", "happened", "answers")  # as people read it
BINS = 10
LEAST = 0.05  # answers below it do not count for the calibration error: nearly all are, and right


@dataclass(frozen=True)
class Bin:
    """Answers with neighbouring probabilities."""

    answers: int
    said: float  # the mean probability
    happened: float  # the share of them that came true


@dataclass(frozen=True, eq=False)
class Calibration:
    """Probabilities ``p`` (M,) of events, whether each happened, and the probability that the base rate gives."""

    p: Floats
    happened: Floats
    base: Floats

    def __len__(self) -> int:
        return len(self.p)

    @property
    def brier(self) -> float:
        r""":math:`\frac{1}{M} \sum (p - y)^2` (docs/maths.md, row M48)."""
        return _mean((self.p - self.happened) ** 2)

    @property
    def base_brier(self) -> float:
        return _mean((self.base - self.happened) ** 2)

    @property
    def skill(self) -> float:
        """The part of the base rate's Brier score that is gone: 1 is perfect, 0 as good as the base rate."""
        return 1 - self.brier / self.base_brier if self.base_brier else 0.0

    def bins(self, count: int = BINS, least: float = LEAST) -> list[Bin]:
        """Answers of at least ``least``, in order, in bins of equally many."""
        rows = np.flatnonzero(self.p >= least)
        rows = rows[np.argsort(self.p[rows], kind="stable")]
        parts = [part for part in np.array_split(rows, count) if len(part)]
        return [Bin(len(part), _mean(self.p[part]), _mean(self.happened[part])) for part in parts]

    def error(self, count: int = BINS, least: float = LEAST) -> float:
        """The expected calibration error: the mean difference between said and happened, weighted by answers."""
        bins = self.bins(count, least)
        total = sum(b.answers for b in bins)
        return sum(b.answers * abs(b.said - b.happened) for b in bins) / total if total else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        figures = {"answers": len(self), "happened": _mean(self.happened), "brier": self.brier}
        figures |= {"base_brier": self.base_brier, "skill": self.skill, "calibration_error": self.error()}
        return figures | {"bins": [asdict(b) for b in self.bins()]}

    def to_pandas(self) -> Any:
        """A pandas DataFrame with a row for each bin: said, happened, answers; ``df.attrs`` has the figures."""
        bins = self.bins()
        frame = to_frame({name: [getattr(b, name) for b in bins] for name in BIN})
        frame.attrs = {name: value for name, value in self.to_dict().items() if name != "bins"}
        return frame

    def _repr_html_(self) -> str:
        error = f"calibration error {100 * self.error():.1f} points"
        title = f"{len(self):,} answers: Brier {self.brier:.4f}, base rate {self.base_brier:.4f}, {error}"
        return html_table(title, BIN, self.cells(), left=0)

    def cells(self) -> list[list[str]]:
        """The bins as rows of a table, with the columns :data:`BIN`."""
        return [[f"{b.said:.1%}", f"{b.happened:.1%}", f"{b.answers:,}"] for b in self.bins()]


def _mean(x: Floats) -> float:
    return float(x.mean()) if len(x) else 0.0

"""Models on the same queries -> one table of figures with intervals, a test of the first two, and one plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from tangokg.rank.metrics import Metrics, Summary
from tangokg.rank.significance import FLIPS, RESAMPLES, Paired, interval, paired, resampled_means
from tangokg.report.figures import COLOURS, write_figure
from tangokg.showing import FIGURES, figures, html_table, html_text, to_frame

FILTER = "time-aware"
HEADINGS = ("model", FIGURES[0], "95 % interval", *FIGURES[1:], "training (s)", "queries/s")
FONT, MARK = 8.0, 4.0  # sizes in typographic points
WIDTH, HEIGHT = 0.6 * FONT, 1.25 * FONT  # of a letter, about
Box = tuple[float, float, float, float]  # left, bottom, right, top
# Right or left of a point, and lines above it: the nearest first
PLACES = [(side, line) for line in (0, 1, -1, 2, -2, 3, -3, 4, -4, 5, -5, 6, -6) for side in (1, -1)]


@dataclass(frozen=True, eq=False)
class Measured:
    """The metrics of a model, and how long they took."""

    name: str
    metrics: Metrics
    train_seconds: float | None  # None if the run does not store it
    seconds: float  # of the evaluation


@dataclass(frozen=True)
class Row:
    """Figures of one model, in per cent."""

    name: str
    figures: Summary
    low: float  # of the interval of the MRR
    high: float
    train_seconds: float | None
    queries_per_second: float

    def cells(self) -> list[str]:
        """As a row of a table, with the columns :data:`HEADINGS`."""
        mrr, *hits = figures(self.figures.to_dict())
        trained = "" if self.train_seconds is None else f"{self.train_seconds:,.1f}"
        return [self.name, mrr, f"{self.low:.2f} to {self.high:.2f}", *hits, trained, f"{self.queries_per_second:,.0f}"]

    def to_dict(self) -> dict[str, Any]:
        timing = {"train_seconds": self.train_seconds, "queries_per_second": round(self.queries_per_second, 1)}
        return {"model": self.name, **self.figures.to_dict(), "mrr_interval": [self.low, self.high], **timing}


@dataclass(frozen=True)
class Comparison:
    """Rows with the best MRR first, and a test of the first against the second if they can be compared."""

    rows: list[Row]
    test: Paired | None

    def to_dict(self) -> dict[str, Any]:
        names = {"first": self.rows[0].name, "second": self.rows[1].name} if self.test else {}
        test = names | asdict(self.test) | {"flips": FLIPS} if self.test else None
        about = {"filter": FILTER, "queries": self.rows[0].figures.queries, "resamples": RESAMPLES}
        return about | {"models": [row.to_dict() for row in self.rows], "paired": test}

    def to_pandas(self) -> Any:
        """A pandas DataFrame with a row for each model, the best first; ``df.attrs`` has the test of the first two."""
        payload = self.to_dict()
        frame = to_frame(payload.pop("models"))
        frame.attrs = payload
        return frame

    @property
    def sentence(self) -> str:
        """The test of the first two in words; empty if there is none."""
        if self.test is None:
            return ""
        between = f"95 % interval {self.test.low:+.2f} to {self.test.high:+.2f}"
        names = f"{self.rows[0].name} less {self.rows[1].name}"
        difference = f"MRR {self.test.difference:+.2f}, {between}"
        return f"{names}: {difference}, p = {self.test.p:.4f} (sign-flip test over the queries)"

    def _repr_html_(self) -> str:
        title = f"{self.rows[0].figures.queries:,} queries, {FILTER}, in per cent"
        html = html_table(title, HEADINGS, [row.cells() for row in self.rows])
        return html + (f"<p>{html_text(self.sentence)}</p>" if self.test else "")


def compare(measured: Sequence[Measured], seed: int = 0) -> Comparison:
    """Figures of models that ranked the same queries in the same order; ``seed`` is for the resampling."""
    for model in measured[1:]:
        pairs = ((getattr(measured[0].metrics, c), getattr(model.metrics, c)) for c in ("s", "r", "answer", "t"))
        assert all(torch.equal(a.cpu(), b.cpu()) for a, b in pairs), "all models rank the same queries"
    ordered = sorted(measured, key=lambda m: -m.metrics[FILTER].mrr)
    values = torch.stack([100 / m.metrics.ranks[FILTER].realistic.cpu().double() for m in ordered])  # (M, B)
    generator = torch.Generator().manual_seed(seed)
    means = resampled_means(values, generator)  # (M, resamples)
    rows = [
        Row(m.name, m.metrics[FILTER], *interval(mean), m.train_seconds, m.metrics.queries / max(m.seconds, 1e-9))
        for m, mean in zip(ordered, means, strict=True)
    ]
    fair = len(rows) > 1 and not any(m.metrics.not_comparable for m in ordered[:2])
    return Comparison(rows, paired(values[:2], means[:2], generator) if fair else None)


def plot_comparison(path: Path, rows: Sequence[Row], title: str) -> None:
    """MRR with its interval over training time, on a scale that is linear up to 1 second, then logarithmic."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.8), dpi=150, layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, loc="left", fontsize="medium", parse_math=False, wrap=True)
    axes.set_xlabel("training time (seconds, logarithmic from 1 on; 0: nothing to train)")
    axes.set_ylabel(f"MRR, {FILTER} (per cent), with its 95 % interval")
    points = [(row, row.train_seconds) for row in rows if row.train_seconds is not None]
    for row, seconds in points:
        ends = [[row.figures.mrr - row.low], [row.high - row.figures.mrr]]
        bars = axes.errorbar(seconds, row.figures.mrr, ends, color=COLOURS[0], marker="o", ms=4, capsize=3, lw=1)
        bars.set_label(row.name)
    axes.set_xscale("symlog", linthresh=1.0)
    axes.set_xlim(-0.3, 4 * max([1.0, *(seconds for _, seconds in points)]))
    axes.xaxis.set_major_formatter(lambda seconds, _: f"{seconds:,.0f}")
    axes.margins(y=0.12)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.draw_without_rendering()  # fixes the positions on the page
    _label(axes, [(row.name, seconds, row.figures.mrr) for row, seconds in points])
    write_figure(figure, path)


def _label(axes: Any, points: Sequence[tuple[str, float, float]]) -> None:
    """A name beside each point, at the nearest free place; a thin line leads to one that is further away."""
    pixels = axes.figure.dpi / 72  # in a typographic point
    frame = axes.get_window_extent()
    centres = [tuple(axes.transData.transform((x, y))) for _, x, y in points]
    occupied = [(x - MARK * pixels, y - MARK * pixels, x + MARK * pixels, y + MARK * pixels) for x, y in centres]
    for (name, *point), (x, y) in zip(points, centres, strict=True):
        boxes = {place: _box(x, y, place, len(name), pixels) for place in PLACES}
        inside = {p: b for p, b in boxes.items() if frame.x0 <= b[0] and b[2] <= frame.x1 and frame.y0 <= b[1]}
        free = (p for p, b in inside.items() if not any(_overlap(b, other) for other in occupied))
        side, line = place = next(free, PLACES[0])
        occupied.append(boxes[place])
        axes.annotate(
            name,
            point,
            (side * _gap(line), line * HEIGHT),
            textcoords="offset points",
            ha="left" if side > 0 else "right",
            va="center",
            fontsize=FONT,
            parse_math=False,
            arrowprops={"arrowstyle": "-", "lw": 0.5, "color": "grey"} if line else None,
        ).set_in_layout(False)


def _gap(line: int) -> float:
    """From a point to its name, in typographic points."""
    return 14.0 if line else 7.0


def _box(x: float, y: float, place: tuple[int, int], letters: int, pixels: float) -> Box:
    """The box that a label covers, in pixels."""
    side, line = place
    near, far = _gap(line) * pixels, (_gap(line) + WIDTH * letters) * pixels
    left, right = (x + near, x + far) if side > 0 else (x - far, x - near)
    return left, y + (line - 0.5) * HEIGHT * pixels, right, y + (line + 0.5) * HEIGHT * pixels


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]

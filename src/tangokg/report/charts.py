"""Lines -> small SVG figures that follow the colours of the page and include a text description."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tangokg.report.figures import MARKED
from tangokg.report.markup import Html, joined, tag

WIDTH, HEIGHT = 380, 250
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 26, 42  # margins of the drawing
STYLES = 6  # colours, each with its own dashes
TICKS, DATES, EXACT = 6, 3, 9  # labels on an axis at most; points up to which each has its own


@dataclass(frozen=True)
class Line:
    """Points in the order of x, drawn in one style."""

    name: str
    points: Sequence[tuple[float, float]]
    style: str  # a class of report.css: s0 to s5, beside0, beside1, guide or base


@dataclass(frozen=True)
class Axis:
    """What an axis shows, from ``low`` to ``high``."""

    label: str
    low: float
    high: float
    show: Callable[[float], str] = lambda value: f"{value:,.4g}"
    integer: bool = False
    ticks: int = TICKS
    at: Sequence[float] = ()  # where the points are, if each may have a label

    def places(self) -> list[float]:
        if self.low == self.high:
            return [self.low]
        if 0 < len(self.at) <= EXACT:
            return list(self.at)
        from matplotlib.ticker import MaxNLocator

        ticks = MaxNLocator(self.ticks, integer=self.integer, min_n_ticks=1).tick_values(self.low, self.high)
        return [float(value) for value in ticks if self.low <= value <= self.high]

    def share(self, value: float) -> float:
        """How far along the axis a value lies, from 0 to 1."""
        return (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5


def style_of(place: int) -> str:
    """The style of a run by its place."""
    return f"s{place % STYLES}"


def chart(ident: str, title: str, about: str, lines: Sequence[Line], x: Axis, y: Axis) -> Html:
    """A figure with its legend; ``about`` says in words what the lines show."""
    place = _placing(x, y)
    drawn = joined(_draw(line, place, x, y) for line in lines)
    image = tag(
        "svg",
        tag("title", title, id=f"{ident}-title"),
        tag("desc", about, id=f"{ident}-about"),
        _grid(x, y, place),
        drawn,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_labelledby=f"{ident}-title {ident}-about",
    )
    return tag("figure", tag("figcaption", title), image, _legend(lines))


def _placing(x: Axis, y: Axis) -> Callable[[float, float], tuple[float, float]]:
    def place(a: float, b: float) -> tuple[float, float]:
        across = LEFT + x.share(a) * (WIDTH - LEFT - RIGHT)
        return round(across, 1), round(HEIGHT - BOTTOM - y.share(b) * (HEIGHT - TOP - BOTTOM), 1)

    return place


def _grid(x: Axis, y: Axis, place: Callable[[float, float], tuple[float, float]]) -> Html:
    """Ticks with their labels, lines across, and what the axes show."""
    parts = [tag("text", y.label, x=LEFT - 40, y=13, class_="label")]
    for value in y.places():
        _, down = place(x.low, value)
        parts.append(tag("path", d=f"M{LEFT} {down}H{WIDTH - RIGHT}", class_="grid"))
        parts.append(tag("text", y.show(value), x=LEFT - 6, y=down + 4, class_="end"))
    for value in x.places():
        across, down = place(value, y.low)
        parts.append(tag("path", d=f"M{across} {down}v4", class_="tick"))
        side = "end" if across > WIDTH - 60 else "middle"
        parts.append(tag("text", x.show(value), x=across, y=down + 17, class_=side))
    parts.append(tag("text", x.label, x=WIDTH - RIGHT, y=HEIGHT - 6, class_="end label"))
    return joined(parts)


def _draw(line: Line, place: Callable[[float, float], tuple[float, float]], x: Axis, y: Axis) -> Html:
    """The line, and a mark on each point that shows its values under the pointer."""
    points = [place(*point) for point in line.points]
    path = "M" + "L".join(f"{across} {down}" for across, down in points)
    parts = [tag("path", d=path, class_=f"line {line.style}")]
    if line.style not in ("guide", "base") and len(points) <= MARKED:
        for (across, down), (a, b) in zip(points, line.points, strict=True):
            tooltip = tag("title", f"{line.name}: {x.show(a)}, {y.show(b)}")
            parts.append(tag("circle", tooltip, cx=across, cy=down, r=3, class_=f"mark {line.style}"))
    return joined(parts)


def _legend(lines: Sequence[Line]) -> Html:
    if len(lines) < 2:
        return Html()
    items = []
    for line in lines:
        sample = tag("path", d="M0 6H26", class_=f"line {line.style}")
        items.append(tag("li", tag("svg", sample, viewBox="0 0 26 12", aria_hidden="true"), line.name))
    return tag("ul", *items, class_="legend")

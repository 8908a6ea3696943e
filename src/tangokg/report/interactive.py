"""Plotly figures for notebooks: the same as report/figures.py, with the values of each point under the pointer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from tangokg.errors import ConfigError, harmless_line
from tangokg.quads.clock import Clock
from tangokg.report.figures import COLOURS, MARKED

if TYPE_CHECKING:
    from tangokg.rank.calibration import Bin
    from tangokg.rank.metrics import Summary
    from tangokg.report.compare import Row

HEIGHT = 400  # pixels; the width is that of the page
FEW = 8  # dates or epochs up to which each has its label
PER_CENT = {"range": [0, 100]}


@dataclass(frozen=True)
class Curve:
    """Points in the order of x."""

    name: str
    x: Sequence[Any]
    y: Sequence[Any]
    notes: Sequence[str] = ()  # extra text of each point, after its values
    mode: str = "lines"  # or "markers", or "lines+markers"
    ends: tuple[Sequence[float], Sequence[float]] | None = None  # along x, of the interval of each point: low, high
    right: bool = False  # on the axis to the right
    dash: str = "solid"


def load_plotly() -> Any:
    """The plotly module; if it is missing, the error says how to install it."""
    try:
        import plotly.graph_objects as go
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "plotly":
            raise
        raise ConfigError(
            "an interactive figure needs plotly, which is not installed: pip install plotly nbformat, or in a clone "
            "pip install -e '.[notebook]'. With a path the figure is drawn into a .png, .svg or .pdf without it."
        ) from None
    return go


def interactive_by_time(groups: Mapping[float, Summary], clock: Clock, title: str) -> Any:
    """MRR and Hits@k of the queries at each time."""
    if clock.origin is None:
        return draw(_summaries(list(groups), groups), title, {"title": f"time ({clock.unit}s)"}, _axis("per cent"))
    kind = "category" if clock.unit == "quarter" else "date"
    dates = [clock.format(t) for t in groups]
    labels = {"tickvals": dates, "ticktext": dates} if len(dates) <= FEW else {}
    return draw(_summaries(dates, groups), title, {"title": "date", "type": kind, **labels}, _axis("per cent"))


def interactive_horizons(groups: Mapping[float, Summary], unit: str, title: str) -> Any:
    """MRR and Hits@k of the same queries by horizon."""
    curves = _summaries(list(groups), groups)
    return draw(curves, title, {"title": f"how far ahead ({safe_name(unit)}s)"}, _axis("per cent"))


def interactive_reliability(kinds: Mapping[str, Sequence[Bin]], title: str) -> Any:
    """How often events of a given probability happened; on the diagonal the probability is right."""
    curves = [Curve("as said", [0, 100], [0, 100], dash="dash")]
    for kind, bins in kinds.items():
        predicted, happened = [100 * b.said for b in bins], [100 * b.happened for b in bins]
        curves.append(Curve(kind, predicted, happened, [f"{b.answers:,} answers" for b in bins], "lines+markers"))
    return draw(curves, title, _axis("said (per cent)"), _axis("happened (per cent)"))


def interactive_training(log: Sequence[Mapping[str, float]], title: str) -> Any:
    """The loss of each epoch and, if there was a validation part, its MRR."""
    epochs = [row["epoch"] for row in log]
    curves = [Curve("loss", epochs, [row["loss"] for row in log], mode=_mode(log))]
    if all("valid_mrr" in row for row in log):
        mrr = [row["valid_mrr"] for row in log]
        curves.append(Curve("validation MRR", epochs, mrr, mode=_mode(log), right=True))
    ticks = {"tickvals": epochs} if len(epochs) <= FEW else {}
    return draw(curves, title, {"title": "epoch", **ticks}, {"title": "loss (mean over queries)"})


def interactive_comparison(rows: Sequence[Row], title: str) -> Any:
    """MRR of each model with its interval, the best on top."""
    ordered = list(reversed(rows))
    notes = ["" if row.train_seconds is None else f"trained in {row.train_seconds:,.1f} s" for row in ordered]
    names, mrr = [safe_name(row.name) for row in ordered], [row.figures.mrr for row in ordered]
    curve = Curve("MRR", mrr, names, notes, "markers", ([row.low for row in ordered], [row.high for row in ordered]))
    return draw([curve], title, {"title": "MRR (per cent), with its 95 % interval"}, {"type": "category"})


def draw(curves: Sequence[Curve], title: str, x: Mapping[str, Any], y: Mapping[str, Any]) -> Any:
    """A plotly figure of curves; curves with ``right`` use a second axis on the right."""
    go = load_plotly()
    figure = go.Figure()
    for curve, colour in zip(curves, _colours(curves), strict=True):
        notes = [f"<br>{safe_name(text)}" if text else "" for text in curve.notes or [""] * len(curve.x)]
        figure.add_scatter(
            x=list(curve.x),
            y=list(curve.y),
            name=safe_name(curve.name),
            mode=curve.mode,
            line={"color": colour, "dash": curve.dash},
            error_x=_interval(curve),
            customdata=notes,
            hovertemplate="%{x}, %{y}%{customdata}",
            yaxis="y2" if curve.right else "y",
        )
    figure.update_layout(
        title={"text": safe_name(title), "font": {"size": 14}},
        template="plotly_white",
        height=HEIGHT,
        margin={"l": 60, "r": 60, "t": 50, "b": 50},
        legend={"orientation": "h", "y": -0.2},
        showlegend=len(curves) > 1,
    )
    figure.update_xaxes(**x)
    figure.update_layout(yaxis=dict(y))
    right = [curve for curve in curves if curve.right]
    if right:
        text = f"{safe_name(right[0].name)} (per cent)"
        figure.update_layout(
            yaxis2={"title": text, "overlaying": "y", "side": "right", "showgrid": False, "tickformat": ".1f"}
        )
    return figure


def safe_name(text: str) -> str:
    """A name escaped for plotly, which reads tags in any text as markup."""
    return escape(harmless_line(str(text)), quote=False)


def _summaries(x: Sequence[Any], groups: Mapping[float, Summary]) -> list[Curve]:
    rows = [summary.to_dict() for summary in groups.values()]
    notes = [f"{summary.queries:,} queries" for summary in groups.values()]
    names = list(rows[0]) if rows else []
    return [
        Curve("MRR" if name == "mrr" else name.capitalize(), x, [row[name] for row in rows], notes, _mode(rows))
        for name in names
    ]


def _interval(curve: Curve) -> dict[str, Any] | None:
    if curve.ends is None:
        return None
    low, high = curve.ends
    return {
        "array": [end - value for end, value in zip(high, curve.x, strict=True)],
        "arrayminus": [value - end for end, value in zip(low, curve.x, strict=True)],
    }


def _colours(curves: Sequence[Curve]) -> list[str]:
    """Grey for a dashed line; the others take turns."""
    solid = [curve.name for curve in curves if curve.dash == "solid"]
    return [COLOURS[solid.index(c.name) % len(COLOURS)] if c.name in solid else "grey" for c in curves]


def _mode(points: Sequence[Any]) -> str:
    return "lines+markers" if len(points) <= MARKED else "lines"


def _axis(title: str) -> dict[str, Any]:
    return {"title": title, **PER_CENT}

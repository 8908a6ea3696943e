"""``tango evaluate --calibration``: probabilities beside what happened, as tables and a figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tangokg.cli.output import Output
from tangokg.cli.tables import make_table

if TYPE_CHECKING:
    from tangokg.forecast import Forecaster
    from tangokg.rank.calibration import Calibration


def show_calibration(
    output: Output,
    forecaster: Forecaster,
    split: str,
    recent: float,
    horizon: float | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Print the figures of each kind of probability on a part, and its reliability."""
    from tangokg.forecast.calibrating import KINDS, MOST
    from tangokg.report import plot_reliability

    found = forecaster.calibration(getattr(forecaster.dataset, split), recent, horizon or 0.0)
    name, data = forecaster.config.model, forecaster.dataset.name
    title = f"{name} on the {split} part of {data}: all (s, r) with a fact in the last {recent:g} usual gaps"
    title += f", asked {horizon:g} steps ahead" if horizon else ""
    title += f"; {MOST:,} of them, drawn evenly" if len(found["pair"]) == MOST else ""
    mark = forecaster.exposure.seen
    title += f", NOT COMPARABLE: {mark}" if mark else ""
    if split == "valid":
        output.say("The chances were calibrated on this part; on later facts they are less accurate.")
    if plot:
        plot_reliability(plot, {KINDS[kind]: one.bins() for kind, one in found.items()}, title)
        output.say(f"The figure is in {plot}.")
    if as_json:
        about: dict[str, Any] = {"model": name, "dataset": data, "split": split, "recent": recent, "horizon": horizon}
        about |= {"not_comparable": mark} if mark else {}
        output.json(about | {kind: one.to_dict() for kind, one in found.items()})
        return
    output.show(_figures(title, found))
    for kind, one in found.items():
        output.show(_reliability(KINDS[kind], one))


def _figures(title: str, found: dict[str, Calibration]) -> Any:
    rows = [
        [
            kind,
            f"{len(one):,}",
            f"{one.happened.mean() if len(one) else 0:.1%}",
            f"{one.brier:.4f}",
            f"{one.base_brier:.4f}",
            f"{one.skill:.1%}",
            f"{100 * one.error():.1f}",
        ]
        for kind, one in found.items()
    ]
    columns = ("kind", "answers", "happened", "Brier", "base rate", "skill", "error (points)")
    return make_table(title, columns, rows)


def _reliability(title: str, one: Calibration) -> Any:
    from tangokg.rank.calibration import BIN

    rows = [[f"{b.said:.1%}", f"{b.happened:.1%}", f"{b.answers:,}"] for b in one.bins()]
    return make_table(["", title], BIN, rows, left=0)

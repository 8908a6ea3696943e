"""``tango evaluate --calibration``: probabilities beside what happened, as tables and a figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tangokg.cli.output import Output

if TYPE_CHECKING:
    from tangokg.forecast import Forecaster


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
    from tangokg.forecast import plot as draw
    from tangokg.forecast.calibrating import HEADINGS, KINDS, MOST
    from tangokg.rank.calibration import BIN

    result = forecaster.calibration(forecaster.dataset.parts[split], recent, horizon or 0.0)
    name, data = forecaster.config.model, forecaster.dataset.name
    title = f"{name} on the {split} part of {data}: all (s, r) with a fact in the last {recent:g} usual gaps"
    title += f", asked {horizon:g} steps ahead" if horizon else ""
    title += f"; {MOST:,} of them, drawn evenly" if len(result["pair"]) == MOST else ""
    mark = forecaster.exposure.seen
    title += f", NOT COMPARABLE: {mark}" if mark else ""
    if split == "valid":
        output.say("The chances were calibrated on this part; on later facts they are less accurate.")
    if plot:
        draw(result, plot, title=title)
        output.say(f"The figure is in {plot}.")
    if as_json:
        about: dict[str, Any] = {"model": name, "dataset": data, "split": split, "recent": recent, "horizon": horizon}
        about |= {"not_comparable": mark} if mark else {}
        output.json(about | {kind: calibration.to_dict() for kind, calibration in result.items()})
        return
    output.table(title, HEADINGS, result.cells())
    for kind, calibration in result.items():
        output.table(["", KINDS[kind]], BIN, calibration.cells(), left=0)

"""``tango report``: one HTML file about a run, or about several side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tangokg.cli.options import AllowSeen, Device, Split, parse_device
from tangokg.cli.output import Output
from tangokg.config import parse_horizons

Runs = Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of finished runs on the same data.")]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Where the report goes, a file or a folder; by default report.html in the run, or beside the first of "
        "several.",
    ),
]
Part = Annotated[Split, typer.Option(help="The part to report on.")]
Horizon = Annotated[
    str | None,
    typer.Option(
        metavar="STEPS",
        help="How far ahead to forecast, in the data's unit: 3, 1,3,5 or 1-8; by default 1, 2, 4 and 8 usual gaps.",
    ),
]
Questions = Annotated[
    int, typer.Option(min=1, metavar="N", help="Rank at most N questions, drawn evenly where there are more.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing report.")]


def report(
    ctx: typer.Context,
    runs: Runs,
    out: Out = None,
    split: Part = Split.TEST,
    horizon: Horizon = None,
    questions: Questions = 10_000,
    overwrite: Overwrite = False,
    allow_seen: AllowSeen = False,
    device: Device = None,
) -> None:
    """Write one self-contained HTML file about a run, or about several on the same data side by side."""
    output: Output = ctx.obj
    horizons = parse_horizons(horizon) if horizon else None
    place = parse_device(device)
    from tangokg.forecast.reporting import write_report

    with output.progress("reading") as advance:
        file = write_report(
            runs,
            out,
            split=split.value,
            horizons=horizons,
            questions=questions,
            overwrite=overwrite,
            allow_seen=allow_seen,
            device=place,
            progress=advance,
        )
    output.say(f"The report is in {file}.")

"""``tango show``: what a run is."""

from __future__ import annotations

import typer

from tangokg.cli.options import Json, Run
from tangokg.cli.output import Output
from tangokg.showing import FIGURES, figures, plain


def show(ctx: typer.Context, run: Run, as_json: Json = False) -> None:
    """Say what a run is: its settings, its data, its figures, and how its training ended."""
    output: Output = ctx.obj
    from tangokg.report import describe
    from tangokg.report.runs import SUM

    description = describe(run)
    if as_json:
        output.json(description)
        return
    rows = [
        [subject if place == 0 else "", key, f"{value[:16]}…" if key.startswith(SUM) else plain(value)]
        for subject in ("run", "data", "settings", "training")
        for place, (key, value) in enumerate(description[subject].items())
    ]
    output.table(str(run), ("", "", ""), rows, left=3)
    if description["metrics"]:
        figure_rows = [[part, *figures(values), f"{n:,}"] for part, (values, n) in description["metrics"].items()]
        output.show("")
        output.table("time-aware, in per cent", ("part", *FIGURES, "queries"), figure_rows)

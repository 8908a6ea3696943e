"""``tango push``: a run for others, on Hugging Face."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tangokg.cli.options import Run
from tangokg.cli.output import Output


def push(
    ctx: typer.Context,
    run: Run,
    name: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="The repository; it is made if it is not there.")],
    public: Annotated[bool, typer.Option("--public", help="Make a new repository public; else it is private.")] = False,
    facts: Annotated[bool, typer.Option("--facts", help="Upload the facts too; else they stay here.")] = False,
    license: Annotated[str, typer.Option(metavar="NAME", help="A license for the model card, such as mit.")] = "",
    to: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write what would be uploaded here, and upload nothing.")
    ] = None,
    revision: Annotated[str, typer.Option(metavar="BRANCH", help="Upload to this branch.")] = "main",
) -> None:
    """Share a run on Hugging Face, with a model card: weights, settings, names and figures."""
    output: Output = ctx.obj
    from tangokg.forecast import load
    from tangokg.forecast.loading import check_name, hub
    from tangokg.forecast.sharing import write_shared

    check_name(name)
    hub()
    forecaster = load(run, "cpu")
    if to is not None:
        write_shared(forecaster, to, name, facts, license)
        output.say(f"What would be uploaded is in {to}.")
        return
    address = forecaster.push_to_hub(name, private=not public, facts=facts, license=license, revision=revision)
    output.show(address)
    more = "" if facts else ', facts="events.csv"'
    output.say(f"{'With' if facts else 'Without'} its facts. In Python: tk.load({address!r}{more})")

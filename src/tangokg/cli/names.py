"""``tango names``: the names that a run knows."""

from __future__ import annotations

from typing import Annotated

import typer

from tangokg.cli.options import Json, Run
from tangokg.cli.output import Output
from tangokg.errors import DataError, nearest, offer


def names(
    ctx: typer.Context,
    run: Run,
    text: Annotated[
        str | None,
        typer.Argument(metavar="[TEXT]", help="Part of a name, in any case; without it the most frequent names."),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many names of each kind.")] = 20,
    as_json: Json = False,
) -> None:
    """Look up names in a run: entities and relations that contain a text, with their facts and the last of them."""
    output: Output = ctx.obj
    from tangokg.quads import find_names
    from tangokg.train import RunFolder

    folder = RunFolder(run)
    folder.config()
    facts = folder.dataset().facts
    matches = find_names(facts, text, top)
    if as_json:
        output.json(matches)
        return
    if not matches:
        known = [*facts.vocab.entities, *facts.vocab.relations]
        raise DataError(f"no name of {run} contains {text!r}.{offer(map(repr, nearest(text or '', known)))}")
    rows = [[row["name"], row["kind"], row["last"] or "", f"{row['facts']:,}"] for row in matches]
    title = f"Names of {run}" + (f" with {text!r}" if text else ", the most frequent")
    output.table(title, ("name", "kind", "last seen", "facts"), rows, left=3)

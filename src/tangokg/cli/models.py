"""``tango models``: what there is to choose from."""

from __future__ import annotations

from typing import Annotated

import typer

from tangokg.cli.options import Json
from tangokg.cli.output import Output
from tangokg.errors import ConfigError, nearest, offer
from tangokg.showing import plain

COUNTING = ("recurrency", "copy-last", "frequency", "recurrence")
ModelName = Annotated[str | None, typer.Argument(metavar="[MODEL]", help="A model, whose settings are listed.")]


def models(ctx: typer.Context, model: ModelName = None, as_json: Json = False) -> None:
    """List the models, or the settings of one with their defaults."""
    output: Output = ctx.obj
    from tangokg.models import MODELS
    from tangokg.train.settings import list_settings

    if model is None:
        listed = [{"model": name, "kind": _kind(name), "about": recipe.about} for name, recipe in MODELS.items()]
        if as_json:
            output.json(listed)
            return
        output.table("Models", ("model", "kind", "what it is"), [list(row.values()) for row in listed], left=3)
        output.say("Settings of one: tango models tango. Which one when: docs/choosing.md")
        return
    if model not in MODELS:
        raise ConfigError(f"unknown model {model!r}.{offer(nearest(model, MODELS))} `tango models` lists them.")
    settings = list_settings(model)
    if as_json:
        output.json({"model": model, "about": MODELS[model].about, "settings": settings})
        return
    rows = [[row["setting"], plain(row["default"]), row["table"]] for row in settings]
    output.table(f"{model}: {MODELS[model].about}", ("setting", "default", "of"), rows, left=3)
    output.say(f"Change one with --set KEY=VALUE: tango train DATA --model {model} --set epochs=10")


def _kind(name: str) -> str:
    return "TANGO" if name.startswith("tango") else "counter" if name in COUNTING else "baseline"

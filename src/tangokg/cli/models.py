"""``tango models``: what there is to choose from."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Annotated, Any

import typer

from tangokg.cli.options import Json
from tangokg.cli.output import Output
from tangokg.cli.tables import make_table, plain
from tangokg.errors import ConfigError, nearest, offer

COUNTING = ("recurrency", "copy-last", "frequency", "recurrence")


def models(
    ctx: typer.Context,
    model: Annotated[str | None, typer.Argument(metavar="[MODEL]", help="A model, whose settings are listed.")] = None,
    as_json: Json = False,
) -> None:
    """List the models, or the settings of one with their defaults."""
    output: Output = ctx.obj
    from tangokg.models import MODELS

    if model is None:
        found = [{"model": name, "kind": _kind(name), "about": recipe.about} for name, recipe in MODELS.items()]
        if as_json:
            output.json(found)
            return
        output.show(
            make_table("Models", ("model", "kind", "what it is"), [list(row.values()) for row in found], left=3)
        )
        output.say("Settings of one: tango models tango. Which one when: docs/choosing.md")
        return
    if model not in MODELS:
        raise ConfigError(f"unknown model {model!r}.{offer(nearest(model, MODELS))} `tango models` lists them.")
    settings = _settings(model)
    if as_json:
        output.json({"model": model, "about": MODELS[model].about, "settings": settings})
        return
    rows = [[row["setting"], plain(row["default"]), row["table"]] for row in settings]
    output.show(make_table(f"{model}: {MODELS[model].about}", ("setting", "default", "of"), rows, left=3))
    output.say(f"Change one with --set KEY=VALUE: tango train DATA --model {model} --set epochs=10")


def _kind(name: str) -> str:
    return "TANGO" if name.startswith("tango") else "counter" if name in COUNTING else "baseline"


def _settings(model: str) -> list[dict[str, Any]]:
    from tangokg.decode import make_decoding
    from tangokg.models import MODELS
    from tangokg.train import make_config

    config = make_config(model)
    of_model = [(field.name, getattr(config.settings, field.name)) for field in fields(MODELS[model].settings)]
    if hasattr(config.settings, "decoding"):
        own = asdict(make_decoding(config.settings))
        of_model[1:2] = [(f"decoding.{name}", value) for name, value in own.items()]
    of_train = [(field.name, getattr(config.train, field.name)) for field in fields(config.train)]
    return [
        {"setting": name, "default": value, "table": table}
        for table, pairs in (("model", of_model), ("training", of_train))
        for name, value in pairs
    ]

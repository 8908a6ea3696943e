"""``tango models``, ``tango names`` and ``tango show``: what there is to choose, what a run knows, and what it is."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tangokg.cli.options import Json, Run
from tangokg.cli.output import FIGURES, Output, counted, figures, make_table
from tangokg.errors import ConfigError, DataError, nearest, offer

if TYPE_CHECKING:
    from tangokg.quads import Dataset, Quadruples
    from tangokg.train import RunConfig, RunFolder

ModelName = Annotated[
    str | None, typer.Argument(metavar="[MODEL]", help="A model, whose settings are listed.", show_default=False)
]
SearchText = Annotated[
    str | None,
    typer.Argument(metavar="[TEXT]", help="Part of a name, in any case; without it the most frequent names."),
]
Most = Annotated[int, typer.Option("--top", min=1, help="How many names of each kind.")]
SUM = "sha256 of"
COUNTERS = ("recurrency", "copy-last", "frequency", "recurrence")


def models(ctx: typer.Context, model: ModelName = None, as_json: Json = False) -> None:
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
    rows = [[row["setting"], _plain(row["default"]), row["table"]] for row in settings]
    output.show(make_table(f"{model}: {MODELS[model].about}", ("setting", "default", "of"), rows, left=3))
    output.say(f"Change one with --set KEY=VALUE: tango train DATA --model {model} --set epochs=10")


def _kind(name: str) -> str:
    return "TANGO" if name.startswith("tango") else "counter" if name in COUNTERS else "baseline"


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


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def names(ctx: typer.Context, run: Run, text: SearchText = None, top: Most = 20, as_json: Json = False) -> None:
    """Look a name up in a run: entities and relations that hold a text, with their facts and the last of them."""
    output: Output = ctx.obj
    from tangokg.train import RunFolder

    folder = RunFolder(run)
    folder.config()
    facts = folder.dataset().facts
    found = find_names(facts, text, top)
    if as_json:
        output.json(found)
        return
    if not found:
        every = [*facts.vocab.entities, *facts.vocab.relations]
        raise DataError(f"no name of {run} holds {text!r}.{offer(map(repr, nearest(text or '', every)))}")
    rows = [[row["name"], row["kind"], row["last"] or "", f"{row['facts']:,}"] for row in found]
    title = f"Names of {run}" + (f" with {text!r}" if text else ", the most frequent")
    output.show(make_table(title, ("name", "kind", "last seen", "facts"), rows, left=3))


def find_names(facts: Quadruples, text: str | None, most: int) -> list[dict[str, Any]]:
    """Entities, then relations, whose name holds a text; those with the most facts first."""
    import numpy as np

    wanted = (text or "").replace("_", " ").casefold()
    found = []
    columns = {"entity": (facts.vocab.entities, (facts.s, facts.o)), "relation": (facts.vocab.relations, (facts.r,))}
    for kind, (known, ids) in columns.items():
        count, last = np.zeros(len(known), np.int64), np.full(len(known), -np.inf)
        for column in ids:
            np.add.at(count, column, 1)
            np.maximum.at(last, column, facts.moments)
        inside = [i for i, name in enumerate(known) if wanted in name.replace("_", " ").casefold()]
        for i in sorted(inside, key=lambda i: (-count[i], known[i]))[:most]:
            when = facts.clock.format(float(last[i])) if count[i] else None
            found.append({"name": known[i], "kind": kind, "facts": int(count[i]), "last": when})
    return found


def show(ctx: typer.Context, run: Run, as_json: Json = False) -> None:
    """Say what a run is: its settings, its data, its figures, and how its training ended."""
    output: Output = ctx.obj
    found = describe(run)
    if as_json:
        output.json(found)
        return
    rows = [
        [subject if place == 0 else "", key, f"{value[:16]}…" if key.startswith(SUM) else _plain(value)]
        for subject in ("run", "data", "settings", "training")
        for place, (key, value) in enumerate(found[subject].items())
    ]
    output.show(make_table(str(run), ("", "", ""), rows, left=3))
    if found["metrics"]:
        figure_rows = [[part, *figures(values), f"{n:,}"] for part, (values, n) in found["metrics"].items()]
        output.show("")
        output.show(make_table("time-aware, in per cent", ("part", *FIGURES, "queries"), figure_rows))


def describe(run: Path) -> dict[str, Any]:
    """Subject -> name -> value; the metrics are those that the run keeps."""
    from tangokg.train import RunFolder

    folder = RunFolder(run)
    config, dataset = folder.config(), folder.dataset()
    stored = _stored(folder)
    tables = config.to_tables()
    return {
        "run": {"model": config.model, "seed": config.seed, **_ending(folder, config), **_made(stored)},
        "data": _data(dataset) | ({"goes on from": str(folder.origin)} if folder.origin else {}),
        "settings": tables.get("settings", {}),
        "training": tables["train"],
        "metrics": {part: found for part in ("valid", "test") if (found := _measured(stored, part))},
    }


def _measured(stored: dict[str, Any], part: str) -> tuple[dict[str, float], int] | None:
    """Time-aware figures and the number of queries; None where the file does not have them as they should be."""
    try:
        values, queries = stored[part]["time-aware"], stored["queries"][part]
        return {name: float(values[name]) for name in ("mrr", "hits@1", "hits@3", "hits@10")}, int(queries)
    except (LookupError, TypeError, ValueError):
        return None


def _stored(folder: RunFolder) -> dict[str, Any]:
    """``metrics.json``; nothing where there is none that can be read."""
    try:
        found = json.loads((folder.path / "metrics.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _ending(folder: RunFolder, config: RunConfig) -> dict[str, Any]:
    """How training ended, and after how many epochs."""
    from tangokg.report import read_log
    from tangokg.train.stopping import why_ended

    if not folder.usable:
        done = len(read_log(folder.log)) if folder.log.exists() else 0
        return {"ended": f"not finished: go on with `tango train --out {folder.path} --resume`", "epochs": done}
    progress = folder.progress()
    why = why_ended(progress, config.train) or ("finished" if progress.epoch else "nothing to train")
    best = {"best epoch": progress.best_epoch} if progress.best_epoch else {}
    return {"ended": why, "epochs": progress.epoch, **best}


def _made(stored: dict[str, Any]) -> dict[str, Any]:
    """Where and how long it was trained."""
    told = {"seconds": stored.get("train_seconds"), "device": stored.get("device"), "commit": stored.get("commit")}
    versions = stored.get("versions")
    told["version"] = versions.get("tangokg") if isinstance(versions, dict) else None
    mark = {"not comparable": stored.get("not_comparable")}
    return {key: value for key, value in (told | mark).items() if value}


def _data(dataset: Dataset) -> dict[str, Any]:
    facts = dataset.facts
    told: dict[str, Any] = {
        "name": dataset.name,
        "unit": facts.clock.unit,
        "entities": f"{facts.vocab.num_entities:,}",
        "relations": f"{facts.vocab.num_relations:,}",
    }
    for name, part in dataset.parts.items():
        first, last = (facts.clock.format(float(end(part.t))) for end in (min, max)) if len(part) else ("", "")
        told[name] = f"{counted(len(part), 'fact')}, {first} to {last}" if len(part) else "no facts"
    return told | {f"{SUM} {name}": found for name, found in dataset.files.items()}

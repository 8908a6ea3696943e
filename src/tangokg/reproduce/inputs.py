"""The tables that need no run: the best settings, and what the data sets hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tangokg.quads import KNOWN
from tangokg.reproduce.cells import FORMS
from tangokg.reproduce.paper import published
from tangokg.reproduce.presets import DECODERS, SETS, THINNED, THINNED_COUNTS, best_decoder, experiments
from tangokg.train import make_config

NONE = "–"
TRAINED = ("learning_rate", "batch_windows")  # settings of training that the paper does not tell
Counts = Mapping[str, Mapping[str, int]]  # data set -> what -> how many
Rows = tuple[tuple[str, ...], ...]


def best_settings() -> tuple[tuple[str, ...], Rows, str]:
    """The paper's best settings, and those of our presets with the same decoder: headings, rows, a note."""
    paper = published()["settings"]
    forms = ("paper form", "ours")
    own = {(form, data): _settings_of(f"{FORMS[form]}-{best_decoder(data)}/{data}") for form in forms for data in SETS}
    rows: list[tuple[str, ...]] = []
    for key in (*paper.rows, "step_time", "identity", "normalise", "length", *TRAINED):
        if key in paper.rows:
            printed = (paper.get(key, data, "value") for data in SETS)
            choices = ", ".join(f"{choice}" for choice in paper.space[key])
            rows.append((key, "paper", *(NONE if p is None else f"{p.value}" for p in printed), choices))
        if key != "scale":
            rows += [(key, form, *(_plain(own[form, data][key]) for data in SETS), "") for form in forms]
    names = ", ".join(f"{DECODERS[best_decoder(data)]} on {data}" for data in SETS)
    note = (
        f"Ours are the presets with the decoder of the paper's best result: {names}. `scale` is the paper's solver "
        f"time of the whole range of a set, `step_time` ours of one step. ICEWS14s takes the settings of ICEWS14. How "
        f"ours were found stands in docs/tuning.md and docs/decisions.md."
    )
    return ("setting", "from", *SETS, "searched in the paper"), tuple(rows), note


def _settings_of(name: str) -> dict[str, Any]:
    experiment = experiments()[name]
    tables = {"settings": dict(experiment.settings), "train": dict(experiment.train)}
    found = make_config(experiment.model, tables, where=name).to_tables()
    return {**found["settings"], **{key: found["train"][key] for key in TRAINED}}


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def registry_counts() -> dict[str, dict[str, int]]:
    """What the known sets must hold; reading one that holds something else is an error."""
    found = {}
    for name in SETS:
        if known := KNOWN.get(name):
            sizes = {"entities": known.entities, "relations": known.relations, "times": known.timestamps}
            found[name] = dict(known.rows) | sizes
    return found | {THINNED: dict(THINNED_COUNTS)}


def set_statistics(counts: Counts) -> tuple[tuple[str, ...], Rows, str]:
    """The paper's counts, and ours from the data or the registry: headings, rows, a note."""
    paper, known = published()["statistics"], registry_counts()
    rows: list[tuple[str, ...]] = []
    for data in dict.fromkeys([*paper.rows, *known]):
        if data in paper.rows:
            printed = (paper.get(data, column, "count") for column in paper.columns)
            rows.append((data, "paper", *(NONE if p is None else f"{p.value:,}" for p in printed)))
        if own := {**known, **counts}.get(data):
            whose = "counted" if data in counts else "registry"
            rows.append((data, whose, *(f"{own[column]:,}" if own[column] else NONE for column in paper.columns)))
        else:
            rows.append((data, NONE, *([NONE] * len(paper.columns))))
    note = (
        f"{THINNED} is the paper's ICEWS05-15_continuous, whose draw is unpublished: here the times are drawn with "
        f"seed {experiments()[f'paper-tucker/{THINNED}'].thin}, the first that gives 1,589 of them "
        f"(`tango data import ICEWS05-15 FOLDER --thin 26` writes it). The test part of ICEWS14 is not at hand."
    )
    return ("data set", "from", *paper.columns), tuple(rows), note

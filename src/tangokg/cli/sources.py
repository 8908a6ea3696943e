"""Data as the command line names it: a table, a folder, a known set or the built-in world."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from tangokg.cli.options import Reading
from tangokg.cli.output import Output, counted
from tangokg.errors import DataError, UnknownName, nearest, offer
from tangokg.quads import KNOWN, data_folders, find, inspect, read_table, split, split_at
from tangokg.quads.values import Dataset
from tangokg.quads.world import make_world

WORLD = "world"


def read_source(data: str, reading: Reading) -> Dataset:
    """Read ``data`` and cut it as asked; by default a table 80 / 10 / 10, everything else in its own parts."""
    if data == WORLD and not os.path.exists(data):
        dataset = make_world().dataset
    elif os.path.isfile(data):
        dataset = _read_table(data, reading)
    else:
        _check_path(data)
        if nearest(data, [WORLD]) and not any(os.path.exists(place / data) for place in (Path(), *data_folders())):
            raise UnknownName("data set", data, [WORLD], hint="That is the built-in one; `tango data list` has others.")
        dataset = find(data, overlap=reading.overlap, **reading.table)
    if reading.valid_from is not None and reading.test_from is not None:
        parts = split_at(dataset.facts, reading.valid_from, reading.test_from, name=dataset.name)
        return replace(parts, notes=dataset.notes, files=dataset.files)
    if reading.by_share or os.path.isfile(data):
        train = 0.8 if reading.train_share is None else reading.train_share
        valid = 0.1 if reading.valid_share is None else reading.valid_share
        parts = split(dataset.facts, train, valid, name=dataset.name)
        return replace(parts, notes=dataset.notes, files=dataset.files)
    return dataset


def _read_table(data: str, reading: Reading) -> Dataset:
    """All facts of a table as one part."""
    if reading.overlap is not None:
        raise DataError(f"{data}: --overlap is for the parts of a benchmark folder, and this is a table.")
    facts = read_table(data, **reading.table)
    none = facts.select(slice(0))
    return Dataset(facts, none, none, Path(data).stem, facts.notes, files=facts.files)


def _check_path(data: str) -> None:
    """What is written as a path, and is none, is no set either."""
    written_so = Path(data).suffix or os.sep in data or "/" in data
    if written_so and not any(os.path.exists(place / data) for place in (Path(), *data_folders())):
        folder = Path(data).parent
        alike = nearest(Path(data).name, os.listdir(folder)) if folder.is_dir() else []
        raise DataError(
            f"{data}: no such file or folder.{offer(repr(str(folder / name)) for name in alike)} "
            f"Known sets have names: {', '.join(KNOWN)}."
        )


def counted_in(found: dict[str, Any]) -> str:
    """``days (UTC)``: the unit of time, and the zone of dates."""
    return f"{found['unit']}s" + (f" ({found['timezone']})" if found["timezone"] else "")


def tell(output: Output, dataset: Dataset) -> None:
    """What was read, in a few lines."""
    found = inspect(dataset)
    facts = sum(part["facts"] for part in found["parts"].values())
    output.say(
        f"{dataset.name}: {counted(facts, 'fact')}, {counted(found['entities'], 'entity', 'entities')}, "
        f"{counted(found['relations'], 'relation')}, {counted(found['timestamps'], 'time')}, "
        f"counted in {counted_in(found)}"
    )
    for name, part in found["parts"].items():
        output.say(f"  {name:5}  {_part(part)}")
    for note in found["notes"]:
        output.say(f"  note: {note}")
    if not found["parts"]["valid"]["facts"]:
        output.say("  note: without a validation part the weights of the last epoch are kept")


def _part(part: dict[str, Any]) -> str:
    if not part["facts"]:
        return "no facts"
    unseen = f", {part['share_with_unseen_entity']:.1%} with an entity that training never saw"
    return (
        f"{counted(part['facts'], 'fact')} at {counted(part['timestamps'], 'time')}, {part['first']} to {part['last']}"
        f"{unseen if part['facts_with_unseen_entity'] else ''}"
    )

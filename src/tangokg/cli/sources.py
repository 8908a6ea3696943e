"""Data as the command line names it: a table, a folder, a known set or the built-in world."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tangokg.cli.options import Reading
from tangokg.cli.output import Output
from tangokg.quads import find, inspect, read_table, split, split_at
from tangokg.quads.values import Dataset
from tangokg.quads.world import make_world

WORLD = "world"


def read_source(data: str, reading: Reading) -> Dataset:
    """Read ``data`` and cut it as asked; by default a table 80 / 10 / 10, everything else in its own parts."""
    if data == WORLD and not os.path.exists(data):
        dataset = make_world().dataset
    elif os.path.isfile(data):
        facts = read_table(data, columns=reading.columns, unit=reading.unit)
        dataset = Dataset(facts, facts.select(slice(0)), facts.select(slice(0)), Path(data).stem)
    else:
        dataset = find(data, columns=reading.columns, unit=reading.unit)
    if reading.valid_from is not None and reading.test_from is not None:
        return split_at(dataset.facts, reading.valid_from, reading.test_from, name=dataset.name)
    if reading.by_share or os.path.isfile(data):
        train = 0.8 if reading.train_share is None else reading.train_share
        valid = 0.1 if reading.valid_share is None else reading.valid_share
        return split(dataset.facts, train, valid, name=dataset.name)
    return dataset


def tell(output: Output, dataset: Dataset) -> None:
    """What was read, in a few lines."""
    found = inspect(dataset)
    facts = sum(part["facts"] for part in found["parts"].values())
    output.say(
        f"{dataset.name}: {facts:,} facts, {found['entities']:,} entities, {found['relations']:,} relations, "
        f"{found['timestamps']:,} times, counted in {found['unit']}s"
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
        f"{part['facts']:,} facts at {part['timestamps']:,} times, {part['first']} to {part['last']}"
        f"{unseen if part['facts_with_unseen_entity'] else ''}"
    )

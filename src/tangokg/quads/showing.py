"""Facts and data sets as columns and as HTML, for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tangokg.showing import html_table

if TYPE_CHECKING:
    from tangokg.quads.values import Dataset, Quadruples

ROWS = 10  # of a table in a notebook


def fact_columns(facts: Quadruples) -> dict[str, Any]:
    """Names and times, as :func:`tangokg.read_events` takes them."""
    entities, relations = np.array(facts.vocab.entities, object), np.array(facts.vocab.relations, object)
    moments, place = np.unique(facts.moments, return_inverse=True)
    times = np.array([facts.clock.format(float(moment)) for moment in moments], object)
    return {
        "subject": entities[facts.s],
        "relation": relations[facts.r],
        "object": entities[facts.o],
        "time": times[place.ravel()],
    }


def facts_html(facts: Quadruples) -> str:
    """A table of the first facts."""
    columns = fact_columns(facts.select(slice(ROWS)))
    more = f", the first {ROWS}" if len(facts) > ROWS else ""
    return html_table(f"{facts!r}{more}", list(columns), zip(*columns.values(), strict=True), left=4)


def dataset_columns(dataset: Dataset) -> dict[str, Any]:
    """All facts, with the part of each."""
    parts = {name: fact_columns(part) for name, part in dataset.parts.items()}
    columns = {
        column: np.concatenate([part_columns[column] for part_columns in parts.values()])
        for column in next(iter(parts.values()))
    }
    columns["part"] = np.concatenate([np.full(len(dataset.parts[name]), name, object) for name in parts])
    return columns


def dataset_html(dataset: Dataset) -> str:
    """A row for each part."""
    rows = []
    for name, part in dataset.parts.items():
        ends = [part.clock.format(float(end(part.t))) for end in (np.min, np.max)] if len(part) else ["", ""]
        rows.append([name, *ends, f"{len(part):,}", f"{len(np.unique(part.t)):,}"])
    vocab = dataset.vocab
    title = f"{dataset.name}: {vocab.num_entities:,} entities, {vocab.num_relations:,} relations"
    return html_table(title, ("part", "first", "last", "facts", "times"), rows, left=3)

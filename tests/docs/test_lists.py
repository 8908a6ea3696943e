"""Lists on pages hold what the code and the metadata hold."""

from __future__ import annotations

import re

from packaging.requirements import Requirement

from clean_environments import PROJECT
from docs.test_docs import section, spans, table_rows, text_of
from tangokg.models import MODELS
from tangokg.quads.importers import FORMATS

EXTRAS = PROJECT["optional-dependencies"]


def test_every_extra_stands_on_the_page_of_installing() -> None:
    rows = table_rows(section(text_of("docs/installing.md"), "Extras"))
    assert {name for row in rows for name in spans(row[0])} == set(EXTRAS)


def test_every_bound_is_accounted_for() -> None:
    """Each dependency of the core has a row, and each bound from above says what holds it."""
    rows = table_rows(section(text_of("docs/decisions.md"), "Bounds of dependencies"))
    held = {name: row for row in rows for name in spans(row[0])}
    for line in PROJECT["dependencies"]:
        (lower,) = (one.version for one in Requirement(line).specifier if one.operator == ">=")
        assert lower in held[Requirement(line).name][1], line
    everything = [*PROJECT["dependencies"], *(line for lines in EXTRAS.values() for line in lines)]
    for line in everything:
        if re.search(r"[<!~]|==", line):
            assert "above:" in held[Requirement(line).name][3], line


def test_the_comparison_counts_our_models_and_formats() -> None:
    ours = {row[0]: row[1] for row in table_rows(text_of("docs/comparison.md"))}
    assert ours["models"].startswith(f"{len(MODELS)},")
    assert all(name in ours["readers"].lower() for name in FORMATS)

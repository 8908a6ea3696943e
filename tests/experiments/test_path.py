"""How many functions a fact passes on its way to the loss: few enough to be read, and all of them on the page."""

from __future__ import annotations

import re
from pathlib import Path

from experiments.path import functions_to_loss, main

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"


def test_a_training_step_passes_few_functions_and_the_page_lists_them() -> None:
    stages = functions_to_loss()
    step = [*stages["make the snapshots"], *stages["make the step"]]
    assert len(step) <= 40
    section = PAGE.read_text(encoding="utf-8").partition("## A fact")[2].partition("## ")[0]
    rows = re.findall(r"^\| [^|]+ \| (`[^|]+`) \| ", section, re.MULTILINE)
    listed = [name for row in rows for name in row.strip("`").split("` `")]
    assert sorted(listed) == sorted(name.partition(": ")[2] for name in step)


def test_the_command_counts_what_it_lists() -> None:
    said: list[str] = []
    main(said.append)
    listed = [line for line in said if re.match(r" *\d+  ", line)]
    assert any(line.endswith("models/tango.py: Tango.encode") for line in listed)
    assert said[-1].startswith(f"{len(listed)} functions: ")

"""What README shows of ``tango demo`` is what two cores print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NUMBER = re.compile(r"\d+\.\d+")
WIDTH = 1.0  # points, or a loss of 1: kinds of processors round otherwise


def shown() -> list[str]:
    """The lines of the block in README, without the command."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = text.partition("<!-- demo -->")[2].partition("<!-- /demo -->")[0]
    return [line.rstrip() for line in block.splitlines() if line and not line.startswith(("```", "$ "))]


def plain(line: str) -> str:
    """A line without what differs from machine to machine: digits, the length of bars, seconds, "best so far"."""
    line = re.sub(r"  \d+ s(  best so far)?$", "", line)
    return " ".join(NUMBER.sub("#", re.sub(r"[█▉▊▋▌▍▎▏─]+", "", line)).split())


@pytest.mark.slow
def test_the_demo_of_the_readme_is_what_two_cores_print() -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "PYTHONIOENCODING": "utf-8"}
    environment.pop("COLUMNS", None)
    done = subprocess.run(
        [sys.executable, "-m", "tangokg.cli", "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        cwd=ROOT,
        env=environment,
        check=True,
    )
    slow = re.compile(r"  after \d+ s$")  # lines within an epoch, on a busy machine
    printed = [line.rstrip() for line in done.stdout.splitlines() if line.strip() and not slow.search(line)]
    block = shown()
    cut = block.index("…")
    unlikely = re.compile(r"^[2-5]   ")  # candidates beside the first: their order is noise
    for part, lines in ((block[:cut], printed), (block[cut + 1 :], printed[-len(block[cut + 1 :]) :])):
        for wanted, found in zip(part, lines, strict=False):
            if not unlikely.match(wanted) and not wanted.startswith("epoch"):
                assert plain(wanted) == plain(found), "make the block again: tango demo on two cores"
            if not unlikely.match(wanted):
                numbers = [[float(n) for n in NUMBER.findall(line)] for line in (wanted, found)]
                assert all(abs(a - b) <= WIDTH for a, b in zip(*numbers, strict=True)), (wanted, found)


def test_the_demo_of_the_readme_is_whole() -> None:
    block = shown()
    assert block.count("…") == 1
    epochs = [int(found[1]) for line in block if (found := re.match(r"epoch +(\d+)/", line))]
    assert all(a < b for a, b in pairwise(epochs))
    assert sum(line.startswith("1   ") for line in block) == 2

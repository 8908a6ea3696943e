"""A small table of calls and visits, a run trained on it, and the JSON that a command prints."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from tangokg.cli import main

NAMES = ("Ann [red]", "Bob", "Čarles", "Dan O'Neil", "Eve", "Fay")
SMALL = ["--set", "dim=4", "--set", "history=2", "--set", "layers=1", "--set", "epochs=2", "--device", "cpu"]


def write_events(path: Path, days: int = 20) -> Path:
    """Each person calls the next one every other day; Gus comes in the last days alone."""
    rows = ["subject,relation,object,date"]
    for day in range(days):
        names = (*NAMES, "Gus") if day >= days - 2 else NAMES
        for i in range(day % 2, len(names), 2):
            rows.append(
                f"{names[i]},{'calls' if i % 3 else 'visits'},{names[i - 1]},{date(2024, 1, 1) + timedelta(day)}"
            )
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small TANGO, trained once."""
    folder = tmp_path_factory.mktemp("run")
    out = folder / "made" / "run"
    events = write_events(folder / "events.csv")
    assert main(["-q", "train", str(events), "--model", "tango-distmult", "--out", str(out), *SMALL]) == 0
    return out


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """The JSON that a command prints, alone, on standard output."""
    capsys.readouterr()
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)

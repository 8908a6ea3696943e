"""The facts that the reading is measured with: drawn alike each time, and the same in every form."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from experiments.bench import load, run_benchmark
from tangokg.quads import read_events
from tangokg.snapshots.timeline import build_timeline

FACTS = 12_000


def test_facts_are_drawn_alike_and_some_hold_on() -> None:
    s, r, o, t = load.draw_facts(FACTS, seed=3)
    assert all((a == b).all() for a, b in zip((s, r, o, t), load.draw_facts(FACTS, seed=3), strict=True))
    assert (s != load.draw_facts(FACTS, seed=4)[0]).any()
    assert max(s.max(), o.max()) < load.NUM_ENTITIES
    assert r.max() < load.NUM_RELATIONS
    days = [set(zip(*(column[t == day].tolist() for column in (s, r, o)), strict=True)) for day in range(t[-1] + 1)]
    held = sum(len(a & b) for a, b in pairwise(days)) / sum(map(len, days[1:]))
    assert held > 0.9 * load.HELD_THE_DAY_BEFORE  # chance adds to it in a set as small as this


def test_every_form_holds_the_facts(tmp_path: Path) -> None:
    files = load.write_files(tmp_path, load.draw_facts(FACTS, seed=0), named_facts=FACTS // 2)
    counts = []
    for path, count in files.values():
        facts = read_events(path)
        counts.append((len(facts), len(np.unique(facts.t)), len(build_timeline(facts).s)))
        assert len(facts) == count
    assert counts[0] == counts[1]
    assert counts[2] == counts[3]


def test_a_result_has_a_row_for_each_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "alone", lambda function, **options: (function(**options), 7))  # a process takes seconds
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    result = run_benchmark("load", torch.device("cuda"), facts=FACTS, named_facts=100)
    assert result["kind"] == "cpu"
    assert [row["facts"] for row in result["rows"]] == [FACTS, FACTS, 100, 100]
    assert result["figures"]["peak_bytes"] == 7
    assert not list(tmp_path.iterdir())

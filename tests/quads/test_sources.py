"""A source means the same wherever it is opened: table, folder, known set, built-in world."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tangokg as tk
from cli_runs import write_events
from tangokg.errors import DataError
from tangokg.quads import find, find_names, write_folder
from tangokg.quads.world import make_world


def test_the_world_is_opened_by_its_name() -> None:
    dataset = make_world().dataset
    assert find("world").same_facts(dataset)
    assert tk.fit("world", "frequency", verbose=False).dataset.same_facts(dataset)
    assert len(tk.read_events("world")) == len(dataset.facts)


def test_a_folder_of_that_name_comes_before_the_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_folder(find(write_events(tmp_path / "events.csv")), Path("world"))
    assert len(find("world").facts) == 61


def test_parts_are_cut_by_shares_or_by_dates(tmp_path: Path) -> None:
    events = write_events(tmp_path / "events.csv")
    whole = tk.read_events(events)
    assert find(events).same_facts(whole.split())
    assert find(events, train_share=0.5, valid_share=0.2).same_facts(whole.split(0.5, 0.2))
    dated = find(events, valid_from="2024-01-11", test_from="2024-01-15")
    assert [len(part) for part in dated.parts.values()] == [30, 12, 19]
    write_folder(dated, tmp_path / "folder")
    assert np.array_equal(find(tmp_path / "folder").test.t, dated.test.t), "a folder keeps its parts"
    assert find(tmp_path / "folder", train_share=0.5, valid_share=0.2).train.t.max() < dated.valid.t.max()
    with pytest.raises(DataError, match="go together"):
        find(events, valid_from="2024-01-11")
    with pytest.raises(DataError, match="not both"):
        find(events, valid_from="2024-01-11", test_from="2024-01-15", train_share=0.5)


def test_names_are_found_by_a_part_of_them(tmp_path: Path) -> None:
    facts = tk.read_events(write_events(tmp_path / "events.csv"))
    (found,) = find_names(facts, "O'NEIL")
    assert (found["name"], found["kind"]) == ("Dan O'Neil", "entity")
    assert [row["kind"] for row in find_names(facts, most=1)] == ["entity", "relation"]

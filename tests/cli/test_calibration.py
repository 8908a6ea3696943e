"""Chances on the command line: yes and no, events, and what was said beside what happened."""

from __future__ import annotations

from pathlib import Path

import pytest

import tangokg as tk
from cli_runs import printed, run
from tangokg.cli import main

__all__ = ["run"]  # a fixture


def test_calibration_is_measured_and_drawn(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "evaluate", str(run), "--calibration")
    assert found["recent"] == 30
    for kind in ("pair", "fact", "share"):
        assert 0 <= found[kind]["brier"] <= 1
        assert sum(one["answers"] for one in found[kind]["bins"]) <= found[kind]["answers"]
    plot = tmp_path / "reliability.svg"
    assert main(["evaluate", str(run), "--calibration", "--recent", "5", "--horizon", "2", "--plot", str(plot)]) == 0
    shown = capsys.readouterr().out
    assert "said" in shown
    assert "\\n" not in shown
    assert b"<svg" in plot.read_bytes()
    python, forecaster = tmp_path / "python.svg", tk.load(run)
    title = f"{forecaster.config.model} on the test part of {forecaster.dataset.name}: "
    title += "all (s, r) with a fact in the last 5 usual gaps, asked 2 steps ahead"
    tk.plot(forecaster.calibration(recent=5, horizon=2), python, title=title)
    assert python.read_bytes() == plot.read_bytes(), "the same figure from Python"


@pytest.mark.parametrize(
    "more", [["--by", "time"], ["--inductive"], ["--filter", "raw"], ["--horizon", "1-3"], ["--protocol", "tgb"]]
)
def test_calibration_does_not_go_with_ranks(more: list[str], run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(run), "--calibration", *more]) == 2
    assert "asks about all recently active pairs" in capsys.readouterr().err


def test_a_fact_is_answered_with_its_chance(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["forecast", str(run), "Bob", "calls", "Ann [red]"]
    step = printed(capsys, *words, "--at", "2024-01-21")
    span = printed(capsys, *words, "--by", "2024-02-20")
    assert (step["asked"], step["by"], span["by"]) == ("fact", False, True)
    assert 0 < step["answers"][0]["chance"] <= step["happens"] <= 1
    assert span["answers"][0]["chance"] > step["answers"][0]["chance"]
    assert main([*words, "--by", "2024-02-20"]) == 0
    shown = capsys.readouterr().out
    assert "(Bob, calls, ?) has any fact by 2024-02-20" in shown
    chance = span["answers"][0]["chance"]
    assert shown.splitlines()[0] == (
        f"chance that Bob calls Ann [red] happens at least once by 2024-02-20: {chance:.1%}"
    )
    assert main([*words, "--at", "2024-01-21"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first == f"chance that Bob calls Ann [red] happens at 2024-01-21: {step['answers'][0]['chance']:.1%}"
    assert str(tk.load(run).forecast("Bob", "calls", "Ann [red]", at="2024-01-21")).splitlines()[0] == first


def test_a_question_and_the_chance_of_any_fact_stand_in_lines_of_their_own(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["forecast", str(run), "Bob", "calls", "--at", "2024-01-21"]) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first == "(Bob, calls, ?) at 2024-01-21"
    assert second.startswith("(Bob, calls, ?) has any fact at 2024-01-21: ")


def test_events_of_one_and_of_all(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = printed(capsys, "forecast", str(run), "Bob", "--top", "4")
    assert all("Bob" in (answer["subject"], answer["object"]) for answer in own["answers"])
    everything = printed(capsys, "forecast", str(run), "--by", "2024-01-27", "--top", "5")
    chances = [answer["chance"] for answer in everything["answers"]]
    assert len(chances) == 5
    assert chances == sorted(chances, reverse=True)
    assert main(["forecast", str(run), "Bob", "--top", "2"]) == 0
    assert "event" in capsys.readouterr().out

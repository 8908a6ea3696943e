"""``tango report``: where it writes, and what it says when it cannot."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cli_runs import printed, run, write_events
from report_pages import tables
from tangokg.cli import main

__all__ = ["run"]  # a fixture


def test_a_run_gets_its_report_with_the_figures_of_evaluate(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = run / "report.html"
    assert main(["report", str(run), "--horizon", "1-2"]) == 0
    assert f"The report is in {file}." in capsys.readouterr().err
    found = tables(file.read_text(encoding="utf-8"))
    (told,) = printed(capsys, "evaluate", str(run), "--horizon", "2")["results"]
    wanted = [f"{value:.2f}" for value in told["time-aware"].values()]
    assert ["2", "tango-distmult", *wanted] in found["By horizon, time-aware, in per cent"]
    assert main(["report", str(run)]) == 2
    assert f"{file} exists; replace it (--overwrite" in capsys.readouterr().err
    assert main(["-q", "report", str(run), "--overwrite", "--split", "valid", "--questions", "4"]) == 0
    assert "4 of " in file.read_text(encoding="utf-8")
    file.unlink()


def test_several_runs_are_compared_beside_the_first(run: Path, tmp_path: Path) -> None:
    events, counted = run.parents[1] / "events.csv", tmp_path / "counted"
    assert main(["-q", "train", str(events), "--model", "frequency", "--out", str(counted)]) == 0
    assert main(["-q", "report", str(counted), str(run), "--horizon", "1"]) == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "tango-distmult less frequency: MRR" in page or "frequency less tango-distmult: MRR" in page
    assert str(tmp_path) not in page
    assert main(["-q", "report", str(run), "--out", str(tmp_path / "mine.html"), "--horizon", "1"]) == 0
    assert (tmp_path / "mine.html").exists()


def test_mistakes_are_told(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shorter, other = write_events(tmp_path / "shorter.csv", days=15), tmp_path / "other"
    assert main(["-q", "train", str(shorter), "--model", "frequency", "--out", str(other)]) == 0
    shutil.copytree(run, tmp_path / "half")
    (tmp_path / "half" / "weights.safetensors").unlink()
    for words, message in (
        ([str(run), str(other)], "was made with other data than these"),
        (["nowhere"], "nowhere: no run is here"),
        ([str(tmp_path / "half")], "the run is not finished"),
        ([str(run), "--horizon", "0"], "expected numbers of time steps above 0"),
        ([str(run), "--out", str(tmp_path / "a.pdf")], "a report is an HTML file"),
        ([str(run), "--device", "abacus"], "device 'abacus' is unknown"),
    ):
        assert main(["report", *words]) == 2
        assert message in capsys.readouterr().err
    assert list(tmp_path.rglob("*.html")) == []

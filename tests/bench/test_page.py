"""The page is what the results render to, nothing is written by hand, and every plot is drawn."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from tangokg.bench import BENCHMARKS
from tangokg.bench.form import Times, make_result, write
from tangokg.bench.page import SECTIONS, read_results, render
from tangokg.bench.step import PARTS
from tangokg.bench.targets import TARGETS
from tangokg.cli import main

ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")


def result(name: str, asked: dict[str, Any], figures: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    return make_result(name, asked, figures=figures, rows=rows, device=CPU) | {"threads": 2}


def tiny_results() -> list[dict[str, Any]]:
    """One of each, with figures that meet one target and miss another."""
    seconds = Times(0.2, 0.1, 0.3, 3)
    size = {"dim": 200, "layers": 2, "history": 4, "facts": 300, "entities": 1000, "nodes": 3}
    icews = {"data": "ICEWS18", "model": "tango-tucker", "windows": 1, "split": "test"}
    training = {"batch_windows": 2, "precision": "32-true"}
    parts = [{"part": part} | seconds.to_dict() | {"of_floor": 0.4} for part in (*PARTS, "floor")]
    growth = [
        {"axis": "entities", "value": n}
        | seconds.to_dict("forward_seconds")
        | seconds.to_dict("backward_seconds")
        | {"step_seconds": None}
        for n in (10_000, 1_000_000)
    ]
    gradients = [
        {"steps": steps, "gradient": name}
        | seconds.to_dict()
        | {"peak_bytes": 1_000_000 * steps, "error": 1e-6, "error_in_float64": 1e-9}
        for steps in (1, 64)
        for name in ("direct", "adjoint", "irdm")
    ]
    both = {"pass": "forward"} | seconds.to_dict("fast_seconds") | seconds.to_dict("dense_seconds") | {"ratio": 7.0}
    whole = {"epoch_seconds": 251.0, "ratio": 1.2, "step_seconds": 0.4}
    observed = {"observe_seconds": 0.01, "first_seconds": 0.3, "further_seconds": 0.04}
    about = {"data": "ICEWS18", "facts": 468_558, "model": "tango", "new": 10}
    return [
        result("observe", about, observed, [{"what": "new facts taken in"} | seconds.to_dict()]),
        result("step", icews | size | training, whole, parts),
        result("twin", icews | size, {"ratio": 7.0}, [both]),
        result("growth", icews | size, {"entities_forward_ratio": 1.1, "entities_backward_ratio": 1.4}, growth),
        result("gradients", size, {}, gradients),
        result("evaluate", icews, {}, [{"what": "everything", "queries": 7} | seconds.to_dict()]),
        result(
            "load", {"facts": 15_000_000}, {"seconds": 20.0, "peak_bytes": 5e9}, [{"form": "text"} | seconds.to_dict()]
        ),
    ]


def test_every_benchmark_has_a_section() -> None:
    assert set(SECTIONS) == set(BENCHMARKS)
    assert {target.benchmark for target in TARGETS} <= set(BENCHMARKS)


def test_the_page_and_its_plots_are_made_from_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for made in tiny_results():
        write(made, tmp_path / "results" / f"{made['benchmark']}.json")
    page = tmp_path / "speed.md"
    assert main(["bench", "--page", str(tmp_path / "results"), "--out", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    plots = re.findall(r"\]\((figures/[^)]+)\)", text)
    assert plots == ["figures/step-cpu.png", "figures/growth-cpu.png", "figures/gradients-cpu.png"]
    assert all((tmp_path / plot).stat().st_size > 5000 for plot in plots)
    assert text == render(read_results(tmp_path / "results"))[0]
    assert max(len(line) for line in text.splitlines() if not line.startswith(("|", "**", "!"))) < 120


def test_targets_are_met_or_missed_by_every_figure() -> None:
    rows = {row[0]: row[1:] for target in TARGETS if (row := target.row(tiny_results())) and target.kind == "cpu"}
    met = {text: row[-1] for text, row in rows.items()}
    assert met == {
        "a training step on ICEWS18 beside its floor": "met",
        "an epoch of ICEWS18, tango-tucker (200, 2 layers)": "**missed**",
        "the dense twin beside the encoder, ICEWS18": "met",
        "the encoder with 10⁶ entities beside 10⁴, forward and backward": "**missed**",
        "15 million facts with integer ids read into snapshots": "met",
        "peak memory of that": "met",
        "ten new facts, ICEWS18": "met",
        "the first forecast after them, ICEWS18": "**missed**",
        "a further forecast, ICEWS18": "met",
        "ten new facts, retrosheet": "",
        "the first forecast after them, retrosheet": "",
        "a further forecast, retrosheet": "",
    }
    on_gpu = [target.row(tiny_results()) for target in TARGETS if target.kind == "cuda"]
    assert {row[2] for row in on_gpu} == {"not measured"}


def test_the_page_of_the_docs_is_that_of_the_results() -> None:
    folder = ROOT / "benchmarks" / "results"
    text, plots = render(read_results(folder) if folder.is_dir() else [])
    assert (ROOT / "docs" / "speed.md").read_text(encoding="utf-8") == text, "make it with tango bench --page"
    assert [name for name in plots if not (ROOT / "docs" / "figures" / name).is_file()] == []

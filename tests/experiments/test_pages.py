"""Pages hold what the results render to: each generated block is made again and compared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from experiments import pages
from experiments.__main__ import main
from experiments.bench.page import PLOTS, picture
from experiments.bench.page import read_results as read_speed
from experiments.pages import BLOCK, blocks, refresh
from experiments.plots import PLOTS as RESULT_PLOTS
from experiments.plots import write_plots
from experiments.store import read_results
from experiments_small import full_results

ROOT = Path(__file__).parents[2]
KNOWN = blocks(read_results())


@pytest.mark.parametrize("page", pages.pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_what_the_results_render_to(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert refresh(text, KNOWN) == text, "bring it up to date with make reproduce"


def test_every_table_stands_on_a_page_and_every_figure_is_there() -> None:
    texts = [page.read_text(encoding="utf-8") for page in pages.pages()]
    assert {name for text in texts for _, name, _ in BLOCK.findall(text)} == set(KNOWN)
    figures = {f"results-{name}.svg" for name in RESULT_PLOTS}
    figures |= {picture(r["benchmark"], r) for r in read_speed() if r["benchmark"] in PLOTS}
    shown = {Path(link).name for text in texts for link in re.findall(r"!\[[^]]*\]\(([^)]*)\)", text)}
    assert figures <= shown
    assert all((ROOT / "docs" / "figures" / name).is_file() for name in figures)


def test_blocks_are_replaced_and_the_rest_of_a_page_stays() -> None:
    page = (
        "before\n<!-- generated: a -->\nold\n<!-- end -->\nbetween\n| x | <!-- generated: b --><!-- end --> |\nafter\n"
    )
    new = refresh(page, {"a": lambda: "| new |", "b": lambda: "more"})
    assert new == page.replace("old", "| new |").replace("b -->", "b -->more")
    assert refresh(new, {"a": lambda: "| new |", "b": lambda: "more"}) == new


@pytest.mark.slow
def test_the_command_prints_a_table_and_says_which_pages_are_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tables", "horizon"]) == 0
    assert "| TANGO-TuckER | paper | 42.86 |" in capsys.readouterr().out
    assert main(["tables", "horizn"]) == 2
    assert "unknown table 'horizn'. Did you mean horizon" in capsys.readouterr().err
    page = tmp_path / "README.md"
    page.write_text("<!-- generated: gains -->\n<!-- end -->\n", encoding="utf-8")
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    assert main(["tables", "--check"]) == 1
    assert "README.md is out of date" in capsys.readouterr().out
    assert main(["tables"]) == 0
    assert "| paper form |" in page.read_text(encoding="utf-8")
    assert main(["tables", "--check"]) == 0


def test_the_same_results_give_the_same_figures(tmp_path: Path) -> None:
    once, twice = ([p.read_bytes() for p in write_plots(tmp_path / n, full_results())] for n in ("a", "b"))
    assert once == twice

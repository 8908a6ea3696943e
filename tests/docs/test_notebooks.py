"""The notebooks are executed: one here cell by cell, and all as Jupyter does it; the kept files hold no outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

nbformat = pytest.importorskip("nbformat")

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
QUICK = "own-table"

each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=nbformat.NO_CONVERT)


def code(notebook: Any) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def test_all_notebooks_are_there_and_on_the_page() -> None:
    page = (FOLDER.parent / "notebooks.md").read_text(encoding="utf-8")
    assert len(NOTEBOOKS) >= 3
    assert all(f"](notebooks/{path.name})" in page for path in NOTEBOOKS)


@each
def test_a_notebook_is_valid_and_kept_without_what_a_run_leaves(path: Path) -> None:
    notebook = read(path)
    nbformat.validate(notebook)
    assert notebook.cells[0].source.startswith("# ")
    for cell in notebook.cells:
        assert not cell.metadata, "neither times nor what an editor left"
        assert cell.get("outputs", []) == [], "strip the outputs: jupyter nbconvert --clear-output --inplace"
        assert cell.get("execution_count") is None
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert notebook.metadata.kernelspec.name == "python3"
    assert set(notebook.metadata.language_info) == {"name"}


@each
def test_lines_of_a_notebook_fit_on_a_page(path: Path) -> None:
    assert all(len(line) <= 120 for cell in read(path).cells for line in cell.source.splitlines())


def test_the_quick_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("plotly")
    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    namespace: dict[str, Any] = {"__name__": "notebook"}
    try:
        for number, cell in enumerate(code(read(FOLDER / f"{QUICK}.ipynb"))):
            exec(compile(cell, f"cell {number}", "exec", dont_inherit=True), namespace)
    finally:
        torch.set_num_threads(threads)
    assert list(tmp_path.iterdir()) == [], "a notebook leaves nothing beside itself"


@pytest.mark.slow
@each
def test_a_notebook_runs_as_jupyter_runs_it(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient")
    monkeypatch.setenv("PLOTLY_RENDERER", "plotly_mimetype")
    notebook = read(path)
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    nbformat.validate(notebook)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not any(output.output_type == "error" for output in outputs)
    shown = [output.data for output in outputs if "data" in output]
    assert sum("<table" in data.get("text/html", "") for data in shown) >= 5
    assert sum("application/vnd.plotly.v1+json" in data for data in shown) >= 1

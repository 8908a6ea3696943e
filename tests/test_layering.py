"""A folder imports only from the folders above it: every import statement counts, wherever it stands."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import experiments
import tangokg

HOUSE = Path(tangokg.__file__).parent
ORDER = [
    "quads",
    "snapshots",
    "history",
    "fields",
    "solve",
    "decode",
    "models",
    "rank",
    "train",
    "report",
    "forecast",
    "exchange",
    "tune",
    "serve",
]
SHARED = {"config", "errors", "masks", "shards", "showing"}
MATHEMATICS = {  # libraries that a model may use
    "__future__",
    "abc",
    "collections",
    "contextlib",
    "dataclasses",
    "datetime",
    "functools",
    "gc",
    "itertools",
    "math",
    "numpy",
    "torch",
    "typing",
    "weakref",
}


@cache
def nodes(path: Path) -> list[ast.AST]:
    """All of a file's syntax tree."""
    return [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]


def imported(path: Path) -> Iterator[str]:
    """The first name below ``tangokg`` of each import in a file; ``tangokg`` itself where nothing follows."""
    package = ["tangokg", *path.relative_to(HOUSE).parent.parts]
    for node in nodes(path):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = [*base, *([node.module] if node.module else [])]
            names = [".".join([*module, alias.name]) for alias in node.names]
        for name in names:
            if name.split(".")[0] == "tangokg":
                yield [*name.split("."), "tangokg"][1]


def home(path: Path) -> str:
    return path.relative_to(HOUSE).parts[0].removesuffix(".py")


FILES = sorted(HOUSE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HOUSE)))
def test_imports_come_from_above(path: Path) -> None:
    folder = home(path)
    found = set(imported(path)) - {folder}
    if folder in ORDER:
        assert found <= SHARED | set(ORDER[: ORDER.index(folder)])
    elif folder in SHARED:
        assert found <= {"errors"}
    elif folder == "__init__":
        assert found <= SHARED | set(ORDER)
    elif folder == "cli":
        assert found <= SHARED | set(ORDER) | {"__version__"}
    else:
        assert folder == "__main__", f"{folder} has no place in the order of folders"


@pytest.mark.parametrize("path", [path for path in FILES if home(path) not in ("cli", "__main__")], ids=str)
def test_nothing_imports_the_command_line(path: Path) -> None:
    assert "cli" not in set(imported(path))


def test_the_walk_sees_every_kind_of_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "decode" / "x.py"
    file.parent.mkdir()
    file.write_text(
        "import tangokg.rank.filters\n"
        "from tangokg import cli\n"
        "from ..train import loop\n"
        "from . import states\n"
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from tangokg.models.tango import Tango\n"
        "def f():\n    from tangokg.serve import page\n"
    )
    monkeypatch.setitem(globals(), "HOUSE", tmp_path)
    assert sorted(imported(file)) == ["cli", "decode", "models", "rank", "serve", "train"]


@pytest.mark.parametrize("path", [path for path in FILES if home(path) == "models"], ids=lambda path: path.stem)
def test_a_model_neither_loads_nor_batches_nor_optimises_nor_reports(path: Path) -> None:
    """All of that is there once, for every model: what a model names can do none of it."""
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
        names = {getattr(node, "id", ""), getattr(node, "attr", ""), getattr(node, "name", "")}
        assert not names & {"open", "print", "optim", "DataLoader", "Dataset", "randperm"}
    assert found <= {"tangokg", *MATHEMATICS}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HOUSE)))
def test_the_library_knows_nothing_of_experiments(path: Path) -> None:
    for node in nodes(path):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert "experiments" not in {module.partition(".")[0] for module in modules}


def test_files_stay_short() -> None:
    files = [*FILES, *sorted(Path(experiments.__file__).parent.rglob("*.py"))]
    assert [str(path) for path in files if len(path.read_text(encoding="utf-8").splitlines()) > 310] == []

"""What an installation needs: the core runs on its own dependencies, and importing it is cheap."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import tangokg

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = sorted(
    re.split(r"[^A-Za-z0-9_]", requirement, maxsplit=1)[0]
    for requirements in PROJECT["optional-dependencies"].values()
    for requirement in requirements
)

BLOCKED = """
from importlib.machinery import PathFinder

found = PathFinder.find_spec

def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in {blocked!r} else found(name, path, target)

PathFinder.find_spec = find_spec  # as where they are not installed: nothing is found
"""

EVERYTHING = """
import pkgutil
from importlib import import_module

import tangokg
names = [m.name for m in pkgutil.walk_packages(tangokg.__path__, "tangokg.")]
names = [name for name in names if not name.endswith(("__main__", "fast.kernels"))]  # a script; what Triton builds
names = [name for name in names if not name.startswith("tangokg.serve.")]  # the extra of this name
for name in names:
    import_module(name)
for name in tangokg.__all__:
    getattr(tangokg, name)
print(len(names))
"""

WHOLE_RUN = """
from tangokg.cli import main
events, out = {events!r}, {out!r}
small = ["--set", "dim=4", "--set", "history=2", "--set", "epochs=1", "--device", "cpu"]
assert main(["-q", "train", events, "--out", out, *small]) == 0
assert main(["-q", "evaluate", out, "--by", "time", "--plot", out + "/by-time.png"]) == 0
assert main(["-q", "forecast", out, "Ann", "calls"]) == 0
"""


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_core_runs_without_the_packages_of_the_extras(tmp_path: Path) -> None:
    assert {"fastapi", "uvicorn", "plotly", "optuna", "pandas", "polars", "duckdb", "hypothesis", "pytest"} < {*EXTRAS}
    blocked = BLOCKED.format(blocked=EXTRAS)
    days = "".join(f"Ann,calls,Bob,2024-01-{day:02}\nBob,calls,Eve,2024-01-{day:02}\n" for day in range(1, 13))
    (tmp_path / "events.csv").write_text("subject,relation,object,date\n" + days)
    paths = {"events": str(tmp_path / "events.csv"), "out": str(tmp_path / "run")}
    shown = python(blocked + EVERYTHING + WHOLE_RUN.format(**paths))
    assert int(shown.splitlines()[0]) > 50
    assert "Bob" in shown


def test_the_block_blocks() -> None:
    code = "try:\n    import hypothesis\nexcept ImportError as error:\n    print(error)"
    assert python(BLOCKED.format(blocked=EXTRAS) + code) == "No module named 'hypothesis'\n"


def test_importing_the_package_does_not_wait_for_torch() -> None:
    heavy = ("torch", "pyarrow", "matplotlib", "lightning")
    assert python(f"import sys, tangokg; print([name for name in {heavy} if name in sys.modules])") == "[]\n"


def test_there_is_one_version() -> None:
    assert PROJECT["version"] == tangokg.__version__ == version("tangokg")


def test_a_snippet_saved_in_the_clone_is_not_linted(tmp_path: Path) -> None:
    """What README shows may be saved beside the sources: style and types are those of the project alone."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    snippet = re.search(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    assert snippet
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "try.py").write_text(snippet[1] + "x=1 ;print( x )\n", encoding="utf-8")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "own.py").write_text("x=1 ;print( x )\n", encoding="utf-8")
    for command in (["check", "--no-cache"], ["format", "--check", "--no-cache"]):
        ruff = [sys.executable, "-m", "ruff", *command, "."]
        done = subprocess.run(ruff, cwd=tmp_path, capture_output=True, text=True, check=False)
        told = done.stdout + done.stderr
        assert "own.py" in told, "what belongs to the project is looked at"
        assert "try.py" not in told
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    assert settings["mypy"]["files"] == ["src", "tests", "experiments"]
    assert settings["pytest"]["ini_options"]["testpaths"] == ["tests"]


def test_make_install_ends_with_what_to_do_next() -> None:
    """And each command that it names is there."""
    done = subprocess.run(
        ["make", "-n", "install", "PYTHON=python3"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip("make is not here")
    last = [line for line in done.stdout.splitlines() if line.startswith("echo")]
    assert "Next:" in last[0]
    for name in ("doctor", "data inspect", "train"):
        assert any(f"tango {name}" in line for line in last)
    assert (ROOT / "examples" / "trips.py").is_file()


def test_slow_tests_are_left_to_make_test_all() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    unit, whole = (re.search(rf"^{name}:.*\n\t(.*pytest.*)$", makefile, re.MULTILINE) for name in ("unit", "test-all"))
    assert unit
    assert whole
    assert "-m 'not slow'" in unit[1]
    assert "slow" not in whole[1]

"""What an installation needs: the core runs on its own dependencies, and importing it is cheap."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

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
names = [name for name in names if not name.endswith(("__main__", "fields.kernels"))]  # a script; what Triton builds
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

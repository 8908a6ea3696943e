"""Each extra works alone: the packages of the others, and all that only they need, are not there."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BLOCK = """
import sys
from importlib.machinery import PathFinder
found, allowed, known = PathFinder.find_spec, set({allowed!r}), set({known!r})
def find_spec(name, path=None, target=None):
    top = name.partition(".")[0]
    return None if top in known - allowed else found(name, path, target)
PathFinder.find_spec = find_spec
"""
FIT = """
import tangokg as tk
with open("events.csv", "w") as file:
    file.write("subject,relation,object,date\\n")
    for day in range(1, 29):
        file.write(f"Anna,visits,{{('Oslo', 'Rome')[day % 2]}},2024-02-{{day:02}}\\n")
options = {{"dim": 4, "epochs": 1, "device": "cpu", "verbose": False}}
tk.fit("events.csv", "tango-distmult", out="run", loggers={loggers!r}, **options)
"""
WORKS = {
    "tensorboard": FIT.format(loggers="tensorboard"),
    "mlflow": FIT.format(loggers="mlflow"),
    "wandb": FIT.format(loggers="wandb"),
    "hub": FIT.format(loggers="csv")
    + "from tangokg.cli import main\nassert main(['push', 'run', 'anna/visits', '--to', 'shared']) == 0",
    "notebook": FIT.format(loggers="csv")
    + "metrics = tk.load('run').evaluate()\n"
    + "assert tk.plot(metrics)._repr_mimebundle_() is not None\nassert len(metrics.to_pandas())",
    "docs": "from sphinx.cmd.build import main\n"
    f"words = ['-q', '-W', '-D', 'nb_execution_mode=off', '-c', {str(ROOT / 'docs')!r}, {str(ROOT)!r}, 'site']\n"
    "assert main(words) == 0",
    "mcp": "from tangokg.serve.mcp import make_server\nmake_server('http://127.0.0.1:9')",
}


def closure(requirements: list[str]) -> set[str]:
    """The distributions that requirements bring here, those of theirs included."""
    wanted, seen = list(map(Requirement, requirements)), set[tuple[str, str]]()
    while wanted:
        one = wanted.pop()
        for extra in ("", *one.extras):
            if (key := (canonicalize_name(one.name), extra)) in seen:
                continue
            seen.add(key)
            needs = map(Requirement, metadata.requires(one.name) or [])
            wanted += [need for need in needs if need.marker is None or need.marker.evaluate({"extra": extra})]
    return {name for name, _ in seen}


@pytest.mark.slow
@pytest.mark.parametrize("extra", WORKS)
def test_an_extra_works_alone(extra: str, tmp_path: Path) -> None:
    needed = closure([*PROJECT["dependencies"], *PROJECT["optional-dependencies"][extra]]) | {"tangokg"}
    modules = metadata.packages_distributions()
    allowed = [module for module, names in modules.items() if needed & set(map(canonicalize_name, names))]
    code = BLOCK.format(allowed=allowed, known=list(modules)) + WORKS[extra]
    environment = {
        "PYTHONPATH": str(ROOT / "src"),
        "OMP_NUM_THREADS": "1",
        "WANDB_MODE": "offline",
        "HOME": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    others = {"tensorboard", "mlflow", "wandb", "optuna", "huggingface_hub", "mcp", "plotly"} - {*allowed}
    assert len(others) == 6, "the others are not there"

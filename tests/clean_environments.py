"""A wheel of this tree, and environments in which nothing else is installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FOREIGN = ("PYTHON", "TANGOKG_", "VIRTUAL_ENV", "HF_", "WANDB_", "MLFLOW_")  # variables that are no part of it


def run(*command: str | Path, cwd: Path, **more: str) -> str:
    """What a command prints; where it fails, the test does, with what it said."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**kept, "OMP_NUM_THREADS": "1", "COLUMNS": "120", **more},
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def build(folder: Path, target: str = "wheel", source: Path = ROOT) -> Path:
    """The wheel or the sdist of a source tree, built with what is installed here, without the network."""
    run(sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", folder, cwd=source)
    (built,) = folder.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return built


class Environment:
    """An environment of its own; ``below`` is one whose packages it sees, as if they were installed in it."""

    def __init__(self, folder: Path, below: Environment | None = None) -> None:
        venv.create(folder, with_pip=True)
        scripts = folder / ("Scripts" if os.name == "nt" else "bin")
        self.python, self.tango = scripts / "python", scripts / "tango"
        self.packages = Path(
            run(self.python, "-c", "import site; print(site.getsitepackages()[-1])", cwd=folder).strip()
        )
        if below:
            (self.packages / "below.pth").write_text(f"{below.packages}\n", encoding="utf-8")

    def install(self, requirement: str) -> None:
        run(self.python, "-m", "pip", "install", "-q", requirement, cwd=self.packages)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel without extras; skipped where packages cannot be had (a failure in CI)."""
    environment = Environment(tmp_path_factory.mktemp("core") / "venv")
    reach = [str(environment.python), "-m", "pip", "download", "-q", "--no-deps", "filelock"]
    if subprocess.run(reach, cwd=environment.packages.parent, capture_output=True, check=False).returncode:
        if os.environ.get("CI") == "true":
            pytest.fail("pip cannot download packages, and CI is true: clean environments must be tested.")
        pytest.skip("pip cannot download packages: clean environments are not tested.")
    environment.install(str(wheel))
    return environment

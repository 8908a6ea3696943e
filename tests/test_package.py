"""What is in the wheel and in the sdist, that both are well formed, and that the wheel works where nothing else is."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

import tangokg
from clean_environments import PROJECT, ROOT, Environment, build, run

DATA_FILES = (
    "quads/registry.toml",
    "quads/importers/words.toml",
    "report/report.css",
    "serve/page/index.html",
    "py.typed",
)
USE = """
import sys
import tangokg as tk
assert tk.__file__.startswith(sys.prefix), tk.__file__
forecaster = tk.load("run")
print(forecaster.forecast("Anna", "visits"), tk.read_events("world"))
"""


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("sdist"), "sdist")


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def tracked() -> set[str]:
    """What git knows of this tree."""
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode or "pyproject.toml" not in done.stdout.splitlines():
        pytest.skip("this is no clone: what belongs to the project is not known")
    return {name for name in done.stdout.splitlines() if (ROOT / name).exists()}


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    held = contents(wheel)
    notes = f"tangokg-{tangokg.__version__}.dist-info"
    assert {name.partition("/")[0] for name in held} == {"tangokg", notes}
    package = {name for name in held if name.startswith("tangokg/")}
    missing = {name.removeprefix("src/") for name in tracked() if name.startswith("src/")} - package
    assert not missing
    assert not any("__pycache__" in name for name in package)
    assert {f"tangokg/{name}" for name in DATA_FILES} <= package


def test_the_sdist_holds_all_that_is_tracked_and_builds_the_same_wheel(
    sdist: Path, wheel: Path, tmp_path: Path
) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (root,) = tmp_path.iterdir()
    held = {str(path.relative_to(root).as_posix()) for path in root.rglob("*") if path.is_file()}
    again = build(tmp_path / "again", source=root)
    assert contents(again) == contents(wheel)
    assert {name for name in tracked() - held if not name.startswith(".ci/")} == set()


def test_metadata_is_complete(wheel: Path) -> None:
    held = contents(wheel)
    (name,) = (name for name in held if name.endswith("METADATA"))
    said = message_from_bytes(held[name])
    assert said["Version"] == tangokg.__version__
    assert said["Description-Content-Type"] == "text/markdown"
    assert str(said.get_payload()).startswith("# tangokg")
    assert said["License-Expression"] == "MIT"
    assert any(path.endswith("licenses/LICENSE") for path in held)
    assert set(said.get_all("Provides-Extra") or []) == set(PROJECT["optional-dependencies"])
    for field in ("Summary", "Author", "Keywords", "Classifier", "Requires-Python", "Requires-Dist"):
        assert said[field], field
    assert b"tango = tangokg.cli:main" in held[name.replace("METADATA", "entry_points.txt")]


def test_a_package_index_would_take_both(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist, cwd=tmp_path)


@pytest.mark.slow
def test_the_oldest_builder_that_is_allowed_writes_the_same_fields(
    core: Environment, wheel: Path, tmp_path: Path
) -> None:
    """``core`` says whether packages can be had."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        (bound,) = tomllib.load(file)["build-system"]["requires"]
    assert bound in PROJECT["optional-dependencies"]["dev"]
    oldest = Environment(tmp_path / "venv")
    oldest.install(bound.replace(">=", "=="))
    run(oldest.python, "-m", "hatchling", "build", "--target", "wheel", "--directory", tmp_path / "built", cwd=ROOT)
    (built,) = (tmp_path / "built").glob("*.whl")
    fields = []
    for one in (built, wheel):
        (said,) = (content for name, content in contents(one).items() if name.endswith("METADATA"))
        fields.append([field for field in message_from_bytes(said).items() if field[0] != "Metadata-Version"])
    assert fields[0] == fields[1]


@pytest.mark.slow
def test_the_wheel_alone_trains_forecasts_and_reports(core: Environment, tmp_path: Path) -> None:
    assert "forecast" in run(core.tango, "--help", cwd=tmp_path)
    days = "".join(f"Anna,visits,{('Oslo', 'Rome')[day % 2]},2024-02-{day:02}\n" for day in range(1, 29))
    (tmp_path / "events.csv").write_text("subject,relation,object,date\n" + days, encoding="utf-8")
    small = ("--set", "dim=4", "--epochs", "1", "--device", "cpu")
    run(core.tango, "train", "events.csv", "--out", "run", *small, cwd=tmp_path)
    assert "Oslo" in run(core.tango, "forecast", "run", "Anna", "visits", cwd=tmp_path)
    run(core.tango, "report", "run", cwd=tmp_path)
    assert "<style>" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    run(core.tango, "data", "list", cwd=tmp_path)
    assert "Oslo" in run(core.python, "-c", USE, cwd=tmp_path)
    run(core.python, "-m", "pip", "check", cwd=tmp_path)


@pytest.mark.slow
def test_pipx_runs_the_command_of_the_wheel(core: Environment, wheel: Path, tmp_path: Path) -> None:
    pytest.importorskip("pipx", reason="pipx is not installed: `pipx run` is not tested")
    homes = {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "bin")}
    shown = run(sys.executable, "-m", "pipx", "run", "--spec", wheel, "tango", "--help", cwd=tmp_path, **homes)
    assert "forecast" in shown

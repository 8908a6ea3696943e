"""The workflows of GitHub cannot run here: that they are well formed, and call what is there, is tested."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from clean_environments import PROJECT, ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))

each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps(workflow: Any) -> list[Any]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@each_workflow
def test_a_workflow_has_what_github_requires(path: Path) -> None:
    workflow = read(path)
    assert set(workflow) == {"name", True, "permissions", "jobs"}, "YAML reads `on` as true"
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job["runs-on"] == "ubuntu-latest"
        assert set(job.get("needs", "").split()) <= set(workflow["jobs"])
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            if "uses" in step:
                assert re.fullmatch(r"[\w-]+/[\w-]+@[\w/.]+", step["uses"])
            for name in re.findall(r"\$\{\{ matrix\.(\w+) \}\}", str(step)):
                assert name in job["strategy"]["matrix"]


@each_workflow
def test_commands_are_targets_of_the_makefile(path: Path) -> None:
    commands = [shlex.split(step["run"]) for step in steps(read(path)) if "run" in step]
    assert commands
    for command in commands:
        assert command[0] == "make"
        assert command[1] in TARGETS
        assert command[2:] == ["PYTHON=python"]


def test_every_python_that_the_metadata_names_is_tested() -> None:
    named = [one.rpartition(" ")[2] for one in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", one)]
    assert PROJECT["requires-python"] == f">={named[0]}"
    jobs = read(ROOT / ".github" / "workflows" / "test.yml")["jobs"]
    for job in ("supported", "newest"):
        assert jobs[job]["strategy"]["matrix"]["python"] == named


def test_publishing_knows_no_secret() -> None:
    """Trusted publishing: one job may ask for a token of identity, and none reads a secret."""
    path = ROOT / ".github" / "workflows" / "publish.yml"
    jobs = read(path)["jobs"]
    assert [name for name, job in jobs.items() if "id-token" in job.get("permissions", {})] == ["publish"]
    assert jobs["publish"]["needs"] == "build", "what was tested and checked is what goes out"
    assert "secrets." not in path.read_text(encoding="utf-8")
    assert "password" not in str(jobs)

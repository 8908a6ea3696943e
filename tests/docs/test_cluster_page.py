"""The parts of ``docs/cluster.md`` that need a cluster: their commands are understood, and the script for Ray runs."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.main import get_command

from tangokg.cli.app import app

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS: Any = get_command(app).commands  # type: ignore[attr-defined]


def understood(words: list[str]) -> dict[str, Any]:
    """The parameters of a command; an unknown one is an error."""
    parsed: dict[str, Any] = COMMANDS[words[1]].make_context(words[1], words[2:]).params
    return parsed


def test_commands_of_the_page_and_of_the_scripts_are_understood() -> None:
    lines = [line for block in BLOCKS for line in block.splitlines() if line.startswith("tango ")]
    assert len(lines) >= 2
    for line in lines:
        assert understood(shlex.split(line, comments=True))["storage"]
    for script in (ROOT / "deploy" / "slurm").iterdir():
        text = script.read_text(encoding="utf-8")
        (line,) = re.findall(r"^exec srun.* (tango .*)$", text, re.MULTILINE)
        understood([word.replace("$SLURM_ARRAY_TASK_ID/$parts", "1/2") for word in shlex.split(line) if word != "$@"])


def test_submissions_of_the_page_name_scripts_and_give_what_they_take() -> None:
    lines = [shlex.split(line) for block in BLOCKS for line in block.splitlines() if line.startswith("sbatch")]
    assert len(lines) == 3
    for _, *words in lines:
        place = next(i for i, word in enumerate(words) if word.endswith(".sbatch"))
        text = (ROOT / words[place]).read_text(encoding="utf-8")
        takes = int(re.findall(r"^shift (\d)$", text, re.MULTILINE)[0])
        assert not any(word.startswith("--") for word in words[place + 1 : place + 1 + takes])
        assert all(word.startswith("--") for word in words[place + 1 + takes : place + 2 + takes])


def test_the_script_for_ray_runs_commands_that_are_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what Ray documents of ``init``, ``remote`` and ``get`` in its place."""
    (script,) = (block for block in BLOCKS if "import ray" in block)
    ran: list[list[str]] = []
    options: list[dict[str, Any]] = []

    def remote(**given: Any) -> Any:
        options.append(given)
        return lambda function: SimpleNamespace(remote=function)

    monkeypatch.setattr(subprocess, "run", lambda words, check: ran.append(words))
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=lambda: None, remote=remote, get=list))
    exec(compile(ast.parse(script), "cluster.md", "exec", dont_inherit=True), {})
    documented = {"num_cpus", "num_gpus", "max_retries", "retry_exceptions"}
    assert set(options[0]) <= documented
    asked = [understood(words) for words in ran]
    assert len({tuple(words) for words in ran if words[1] == "tune"}) == 1
    parts = [given["shard"] for given in asked if "shard" in given]
    assert parts == [f"{part}/{len(parts)}" for part in range(1, len(parts) + 1)]

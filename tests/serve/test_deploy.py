"""The examples under ``deploy/`` start the service with options that exist."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from tangokg.cli.app import app

DEPLOY = Path(__file__).parents[2] / "deploy"


def command_of(text: str) -> list[str]:
    """The words after ``tango`` in a file of ``deploy/``."""
    listed = re.search(r"^CMD (\[.*\])$", text, re.MULTILINE)
    if listed:
        words: list[str] = json.loads(listed[1])
        return words[1:]
    line = re.search(r"(?:^ExecStart=\S*/|`)(tango serve [^`\n]*)", text, re.MULTILINE)
    assert line
    return shlex.split(line[1])[1:]


@pytest.mark.parametrize("name", ["Caddyfile", "nginx.conf", "tangokg.service", "Dockerfile"])
def test_the_command_of_an_example_is_understood(name: str) -> None:
    serve, *words = command_of((DEPLOY / name).read_text(encoding="utf-8"))
    assert serve == "serve"
    command = get_command(app).commands["serve"]  # type: ignore[attr-defined]
    context = command.make_context("serve", words)
    assert context.params["token_file"] is not None


def test_the_image_copies_what_the_build_needs() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    copied = {word for line in re.findall(r"^COPY (.*)$", text, re.MULTILINE) for word in line.split()[:-1]}
    assert copied == {"pyproject.toml", "README.md", "LICENSE", "src"}
    assert all((DEPLOY.parent / name).exists() for name in copied)
    assert re.search(r"^USER (?!root)", text, re.MULTILINE)

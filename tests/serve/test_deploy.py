"""The examples under ``deploy/`` start the service with options that exist; the steps of the image work."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest
from typer.main import get_command

from tangokg.cli.app import app

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
TOKEN = "0123456789abcdef"
KEPT = re.compile("PIP_|.*proxy$|SSL_|PATH$|LANG$", re.IGNORECASE)  # of the environment: what leads to packages


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


def steps_of(text: str) -> Iterator[tuple[str, str]]:
    """The instructions of a Dockerfile with what follows them."""
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        if name.isupper():
            yield name, rest


def build(place: Path) -> dict[str, str]:
    """What the Dockerfile copies and runs, in a folder and a fresh virtual environment; the environment to start in."""
    environment = {key: value for key, value in os.environ.items() if KEPT.match(key)} | {"HOME": str(place)}
    subprocess.run([sys.executable, "-m", "venv", str(place / "venv")], check=True, env=environment)
    environment["PATH"] = f"{place / 'venv' / 'bin'}{os.pathsep}{environment['PATH']}"
    for name, rest in steps_of((DEPLOY / "Dockerfile").read_text(encoding="utf-8")):
        if name == "COPY":
            *sources, target = rest.split()
            for source in sources:
                inside = place / target.strip("/")
                inside = inside / source if target.endswith("/") else inside
                inside.parent.mkdir(parents=True, exist_ok=True)
                ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
                copy: Any = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
                copy(ROOT / source, inside, **({"ignore": ignored} if (ROOT / source).is_dir() else {}))
        elif name == "RUN" and "pip install" in rest:
            words = [word.replace("/src", str(place / "src")) for word in shlex.split(rest)]
            subprocess.run(words, check=True, env=environment, cwd=place, stdout=subprocess.DEVNULL)
    return environment


@contextmanager
def started(place: Path, environment: dict[str, str]) -> Iterator[str]:
    """The address of what the image starts; another port, as that of the image may be taken here."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [word.replace("/data", str(place / "data")) for word in command_of((DEPLOY / "Dockerfile").read_text())]
    process = subprocess.Popen(["tango", *words, "--port", str(port)], env=environment, cwd=place)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def read(address: str, token: str = "") -> Any:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with urlopen(Request(address, headers=headers), timeout=10) as answer:
        return json.load(answer)


@pytest.mark.slow
def test_the_steps_of_the_image_install_and_start_the_service(made: Path, tmp_path: Path) -> None:
    """In a clean environment: only what is copied, only what is installed, only the example's options."""
    environment = build(tmp_path)
    shutil.copytree(made, tmp_path / "data" / "run")
    (tmp_path / "data" / "tokens").write_text(f"read {TOKEN}\n", encoding="utf-8")
    with started(tmp_path, environment) as address:
        end = time.monotonic() + 120
        while True:
            try:
                model = read(f"{address}/api/v1/model", TOKEN)
                break
            except (URLError, OSError):
                assert time.monotonic() < end
                time.sleep(0.5)
        assert model["data"]["facts"] > 0
        with pytest.raises(HTTPError, match="401"):
            read(f"{address}/api/v1/model")
        with urlopen(f"{address}/", timeout=10) as page:
            assert b"<main" in page.read()

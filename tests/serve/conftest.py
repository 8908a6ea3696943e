"""A small run of the built-in world, trained once, and clients of services on copies of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from serve_runs import make_service
from tangokg.forecast import fit
from tangokg.quads.world import make_world
from tangokg.serve.app import create_app

Client = Callable[..., TestClient]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run; not to be changed."""
    path = tmp_path_factory.mktemp("serve") / "run"
    world = make_world(0, num_actors=60, num_newcomers=4, num_days=90)
    small: dict[str, Any] = {"dim": 16, "width": 16, "epochs": 1, "device": "cpu"}
    fit(world.dataset, verbose=False, out=path, **small)
    return path


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    """A copy of the run, for one test."""
    shutil.copytree(made, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def open_client() -> Iterator[Client]:
    """Starts a service on a run folder; ``close()`` of the client, or the end of the test, stops it."""
    with ExitStack() as stack:

        def start(run: Path, client: tuple[str, int] = ("127.0.0.1", 50000), **settings: Any) -> TestClient:
            app = create_app(make_service(run, **settings))
            opened = TestClient(app, "http://localhost", raise_server_exceptions=False, client=client)
            return stack.enter_context(opened)

        yield start


@pytest.fixture
def client(run: Path, open_client: Client) -> TestClient:
    return open_client(run)


@pytest.fixture(scope="module")
def reader(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A service for tests that change nothing."""
    run = tmp_path_factory.mktemp("reader") / "run"
    shutil.copytree(made, run)
    with TestClient(create_app(make_service(run)), "http://localhost", raise_server_exceptions=False) as opened:
        yield opened

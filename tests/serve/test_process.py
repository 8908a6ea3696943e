"""Processes that answer beside the service: the same answers, from the same posts, also when one of them dies."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from serve_runs import forecasts, make_service
from tangokg.serve import card, schemas
from tangokg.serve.app import create_app
from tangokg.serve.compacting import FILE
from tangokg.serve.process import AnsweringProcess
from tangokg.serve.running import _bound
from tangokg.serve.settings import ServeSettings

PATIENCE = 120.0  # seconds: a busy machine is slow
Client = Callable[..., TestClient]

HELD = """
import sys, time
from pathlib import Path
from tangokg.serve.process import AnsweringProcess
if __name__ == "__main__":
    process = AnsweringProcess(Path(sys.argv[1]), Path(sys.argv[1]) / "none.sqlite", 1000.0)
    process.start(lambda question, turn: None, lambda number: None)
    print(process._process.pid, flush=True)
    time.sleep(1000)
"""


@pytest.fixture
def process(run: Path) -> AnsweringProcess:
    """That of a service on the run."""
    return AnsweringProcess(run, run / FILE, ServeSettings().span)


@pytest.fixture
def client(run: Path, process: AnsweringProcess) -> Iterator[TestClient]:
    with ExitStack() as stack:
        service = make_service(run, processes=[process])
        yield stack.enter_context(TestClient(create_app(service), "http://localhost", raise_server_exceptions=False))


def wait_for(happened: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.05)


def wait_until_it_answers(client: TestClient, process: AnsweringProcess) -> None:
    wait_for(lambda: forecasts(client) and process._ready)


def test_its_answers_are_those_of_a_service_by_itself(
    made: Path, client: TestClient, process: AnsweringProcess, open_client: Client, tmp_path: Path
) -> None:
    """After posts too, with names that are new, and where a question fails."""
    alone = open_client(made, journal=tmp_path / "alone.sqlite")
    wait_until_it_answers(client, process)
    example = client.get("/api/v1/model").json()["example"]
    fact = {key: example[key] for key in ("subject", "relation")} | {"object": "Newcomer", "at": example["at"]}
    supposed = {"subject": "Newcomer", "relation": example["relation"], "suppose": [fact]}
    for path, body in (
        ("forecast", supposed),
        ("facts", {"facts": [fact]}),
        ("forecast", {"subject": "Newcomer", "object": example["subject"]}),
        ("forecast", {"subject": example["subject"], "relation": example["relation"], "at": "1900-01-01"}),
        ("forecast", {"relation": example["relation"]}),
        ("forecast", {"subject": "Nobody", "relation": example["relation"]}),
    ):
        first, second = (one.post(f"/api/v1/{path}", json=body) for one in (client, alone))
        assert (first.status_code, first.json()) == (second.status_code, second.json())
        assert forecasts(client) == forecasts(alone)
    assert process._ready


def test_the_service_answers_by_itself_until_another_process_does(
    client: TestClient, process: AnsweringProcess
) -> None:
    wait_until_it_answers(client, process)
    before, first = forecasts(client), process._process.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    assert forecasts(client) == before
    wait_for(lambda: process._process.pid != first)
    wait_until_it_answers(client, process)
    assert forecasts(client) == before


def test_questions_under_way_are_answered_when_it_dies(run: Path, process: AnsweringProcess) -> None:
    service = make_service(run, processes=[process])
    service.start()
    wait_for(lambda: process._ready)
    example = {key: value for key, value in card.example(service.state).items() if key in ("subject", "relation")}
    questions = [schemas.Question(**example)] * 200
    expected = service.ask(questions[:1])[0].result(PATIENCE)
    futures = service.ask(questions)
    process._process.kill()
    assert [future.result(PATIENCE) for future in futures] == [expected] * len(questions)
    service.stop()


def test_a_process_that_cannot_start_is_given_up(client: TestClient, process: AnsweringProcess) -> None:
    wait_until_it_answers(client, process)
    before = forecasts(client)
    while process._thread.is_alive():
        process._process.kill()
        assert forecasts(client) == before
    assert forecasts(client) == before


def test_it_ends_with_the_service_however_that_ends(made: Path, tmp_path: Path) -> None:
    (tmp_path / "held.py").write_text(HELD)
    words = [sys.executable, str(tmp_path / "held.py"), str(made)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        pid = int(service.stdout.readline())
        service.kill()
    wait_for(lambda: not runs(pid))


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_answers_are_sent_at_once() -> None:
    """Without waiting for the client to acknowledge their first bytes, which takes 40 ms."""

    async def connect() -> Any:
        found = asyncio.get_running_loop().create_future()
        with _bound(ServeSettings(port=0)) as listener:
            server = await asyncio.start_server(lambda _, writer: found.set_result(writer), sock=listener)
            _, own = await asyncio.open_connection(*listener.getsockname()[:2])
            writer = await found
            option = writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            own.close()
            writer.close()
            server.close()
            return option

    assert asyncio.run(connect())

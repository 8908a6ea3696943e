"""Processes that answer for the service: the same answers, from the same posts, also when one of them dies."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from serve_runs import forecasts, make_service
from tangokg.serve import card, schemas
from tangokg.serve.app import create_app
from tangokg.serve.compacting import FILE
from tangokg.serve.journal import Journal
from tangokg.serve.process import AnsweringProcess
from tangokg.serve.running import _bound
from tangokg.serve.service import Service
from tangokg.serve.settings import ServeSettings

PATIENCE = 120.0  # seconds: a busy machine is slow
Client = Callable[..., TestClient]

HELD = """
import sys, time
from pathlib import Path
from tangokg.serve.process import AnsweringProcess
if __name__ == "__main__":
    process = AnsweringProcess(Path(sys.argv[1]), Path(sys.argv[2]), 1000.0)
    process.start(None, None)
    while not process.ready:
        time.sleep(0.05)
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
    wait_for(lambda: forecasts(client) and process.ready)


def kill(process: AnsweringProcess) -> None:
    assert process._process is not None
    process._process.kill()


def questions_of(service: Service, number: int) -> list[schemas.Question]:
    example = {key: value for key, value in card.example(service.state).items() if key in ("subject", "relation")}
    return [schemas.Question(**example)] * number


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
    assert process.ready


def test_the_service_answers_by_itself_until_another_process_does(
    client: TestClient, process: AnsweringProcess
) -> None:
    wait_until_it_answers(client, process)
    before, first = forecasts(client), process._process
    kill(process)
    assert forecasts(client) == before
    wait_for(lambda: process._process is not first)
    wait_until_it_answers(client, process)
    assert forecasts(client) == before


@pytest.mark.parametrize("end", [kill, AnsweringProcess.stop])
def test_questions_under_way_are_answered_when_it_ends(
    run: Path, process: AnsweringProcess, end: Callable[[AnsweringProcess], None]
) -> None:
    service = make_service(run, processes=[process])
    service.start()
    wait_for(lambda: process.ready)
    questions = questions_of(service, 200)
    expected = service.ask(questions[:1])[0].result(PATIENCE)
    futures = service.ask(questions)
    end(process)
    assert [future.result(PATIENCE) for future in futures] == [expected] * len(questions)
    service.stop()


def test_one_that_cannot_start_is_given_up_and_keeps_no_question_from_the_others(
    run: Path, process: AnsweringProcess, tmp_path: Path
) -> None:
    broken = AnsweringProcess(tmp_path / "none", run / FILE, ServeSettings().span)
    service = make_service(run, processes=[broken, process])
    service.start()
    wait_for(lambda: process.ready and not broken._thread.is_alive())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service, "worker", None)  # all are asked of the process
        assert len({str(future.result(PATIENCE)) for future in service.ask(questions_of(service, 20))}) == 1
    service.stop()


def test_a_process_that_is_stopped_while_it_starts_again_ends(run: Path, process: AnsweringProcess) -> None:
    def instead(*_: Any) -> Future[Any]:
        raise AssertionError

    Journal(run / FILE).close()
    process.start(instead, lambda _: None)
    wait_for(lambda: process._process is not None)
    process.stop()
    assert not process._thread.is_alive()
    assert process._process is not None
    assert not process._process.is_alive()
    process.stop()


def test_it_ends_with_the_service_however_that_ends(run: Path, tmp_path: Path) -> None:
    Journal(run / FILE).close()
    (tmp_path / "held.py").write_text(HELD)
    words = [sys.executable, str(tmp_path / "held.py"), str(run), str(run / FILE)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        pid = int(service.stdout.readline())
        assert runs(pid)
        service.kill()
    wait_for(lambda: not runs(pid))


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("after", [0.0, 1.0])
def test_ctrl_c_in_a_terminal_ends_the_service_without_a_word_of_its_processes(run: Path, after: float) -> None:
    """It is sent to all processes at once, also while they start; a second one is no more than the first."""
    words = [sys.executable, "-m", "tangokg.cli", "serve", str(run), "--port", "0", "--device", "cpu"]
    with subprocess.Popen([*words, "--processes", "2"], stderr=subprocess.PIPE, text=True, process_group=0) as service:
        assert service.stderr is not None
        while "stop with Ctrl-C" not in service.stderr.readline():
            assert service.poll() is None
        time.sleep(after)
        for _ in range(2):
            os.killpg(service.pid, signal.SIGINT)
        assert service.stderr.read() == ""
        assert service.wait(PATIENCE) is not None


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

"""Killed at random moments under a stream of posts: nothing acknowledged is lost, nothing is applied twice."""

from __future__ import annotations

import json
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from serve_runs import forecasts
from tangokg.forecast import load
from tangokg.serve.compacting import FILE

Open = Any  # the fixture open_client
PATIENCE = 120  # seconds for an answer, or an end: a busy machine is slow

FOLD = """
import sys
from pathlib import Path
from tangokg.serve.compacting import FILE, compact
from tangokg.train import RunFolder
run, keep = Path(sys.argv[1]), RunFolder.keep_facts
def told(*given):
    print("writing", flush=True)
    keep(*given)
RunFolder.keep_facts = told
print("reading", flush=True)
compact(run, run / FILE)
"""


class Served:
    """``tango serve`` as a process of its own."""

    def __init__(self, run: Path) -> None:
        words = [sys.executable, "-m", "tangokg.cli", "serve", str(run), "--port", "0", "--device", "cpu"]
        self.process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        told = ""
        while not told.endswith("stop with Ctrl-C.\n"):  # once it answers
            line = self.process.stderr.readline()
            assert line, told
            told += line
        self.port = int(re.findall(r"127\.0\.0\.1:(\d+)/", told)[0])

    def send(self, method: str, path: str, body: Any = None, key: str = "") -> Any:
        """The answer; None where the service went away before it came."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": key} if key else {})
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            reply = connection.getresponse()
            content = reply.read()
            assert reply.status == 200, content
            return json.loads(content)
        except (OSError, HTTPException):
            return None
        finally:
            connection.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()


def facts_of(run: Path, number: int) -> list[dict[str, Any]]:
    """What the post of a number holds: days pass, names come, some facts are late."""
    facts = load(run, "cpu").facts
    names, relations, last = facts.vocab.entities, facts.vocab.relations, float(facts.t.max())
    posts = []
    for i in range(number):
        at = facts.clock.format(last + 1 + i // 4 - (3 if i % 7 == 6 else 0))
        fact = {"subject": names[i % 11], "relation": relations[i % 3], "object": names[(i * 5 + 1) % 13], "at": at}
        posts += [fact, fact | {"subject": f"Newcomer {i // 3}"}]
    return posts


def fold_and_kill(run: Path, writing: bool, after: float) -> None:
    """Stop a compaction at a random moment: most of its time it reads, so one while it writes is chosen too."""
    with subprocess.Popen([sys.executable, "-c", FOLD, str(run)], stdout=subprocess.PIPE, text=True) as folding:
        assert folding.stdout is not None
        assert folding.stdout.readline() == "reading\n"
        if writing:
            assert folding.stdout.readline() in ("writing\n", "")  # nothing to write where no post was taken since
        time.sleep(after)
        folding.kill()


def stand(run: Path, kills: int, seed: int, acknowledged: dict[int, Any], facts: list[dict[str, Any]]) -> int:
    """Post one after the other through so many kills; the number of posts taken at the end."""
    rng, i = random.Random(seed), 0
    for kill in range(kills):
        service = Served(run)
        timer, last = Timer(rng.uniform(0, 0.1), service.process.kill), i + rng.randrange(1, 20)
        while i < len(facts) // 2:
            if i == last:
                timer.start()  # while the next posts are under way
            answer = service.send("POST", "/api/v1/facts", {"facts": facts[2 * i : 2 * i + 2]}, f"post-{i}")
            if answer is None:
                break  # perhaps it was taken: the next service is sent the same again
            acknowledged[i] = answer
            i += 1
        timer.join()
        service.kill()
        if kill % 3 == 1:
            writing = rng.random() < 0.7
            fold_and_kill(run, writing, rng.uniform(0, 0.03 if writing else 0.3))
        with sqlite3.connect(run / FILE) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    service = Served(run)
    for again, answer in acknowledged.items():
        same = service.send("POST", "/api/v1/facts", {"facts": facts[2 * again : 2 * again + 2]}, f"post-{again}")
        assert same == answer
    taken = service.send("GET", "/api/v1/health")["position"]
    service.kill()
    assert taken in (i, i + 1)  # the one under way at the last kill may have been taken
    return int(taken)


@pytest.mark.parametrize("kills", [2, pytest.param(30, marks=pytest.mark.slow)])
def test_kills_lose_nothing_and_repeat_nothing(
    made: Path, run: Path, tmp_path: Path, open_client: Open, kills: int
) -> None:
    facts = facts_of(made, 60 * kills)
    acknowledged: dict[int, Any] = {}
    taken = stand(run, kills, kills + 4, acknowledged, facts)  # two kills: the compaction is killed as it writes
    assert [answer["position"] for answer in acknowledged.values()] == list(range(1, len(acknowledged) + 1))
    with sqlite3.connect(run / FILE) as db:
        rows = db.execute("SELECT position, key, facts FROM posts ORDER BY position").fetchall()
    assert [(position, key) for position, key, _ in rows] == [(i + 1, f"post-{i}") for i in range(taken)]
    stored = [list(row) for _, _, text in rows for row in json.loads(text)]
    assert stored == [list(fact.values()) for fact in facts[: 2 * taken]]
    shutil.copytree(made, tmp_path / "once")
    once, killed = open_client(tmp_path / "once"), open_client(run)
    if taken:
        assert once.post("/api/v1/facts", json={"facts": facts[: 2 * taken]}).status_code == 200
    assert forecasts(killed) == forecasts(once)
    counted = [client.get("/api/v1/model").json()["data"] for client in (killed, once)]
    assert counted[0] == counted[1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_service_that_is_told_to_stop_ends_its_streams(made: Path, run: Path, number: signal.Signals) -> None:
    service = Served(run)
    connection = HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE)
    connection.request("GET", "/api/v1/events")
    stream = connection.getresponse()
    assert stream.readline().startswith(b":")
    facts = facts_of(made, 1)
    assert service.send("POST", "/api/v1/facts", {"facts": facts})["added"] == len(facts)
    lines = [stream.readline() for _ in range(2)]
    assert json.loads(lines[1].removeprefix(b"data: ")) == {"type": "facts", "position": 1, "added": len(facts)}
    service.process.send_signal(number)
    assert service.process.wait(PATIENCE) == (0 if number == signal.SIGINT else -number)
    assert stream.read() is not None
    connection.close()
    assert service.process.stderr is not None
    assert service.process.stderr.read() == ""
    service.process.stderr.close()

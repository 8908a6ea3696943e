"""How fast the service answers several clients at once while facts are posted, and what memory many posts take."""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

import numpy as np
import torch

from experiments.bench.form import Measured, logger, status_bytes
from experiments.bench.material import WORLD
from experiments.bench.observe import untrained
from tangokg.errors import DataError
from tangokg.forecast import Forecaster, load

POSTS_A_STEP = 100  # of time
RECENT = 30  # last steps whose facts are asked about and posted again
STARTING = 15.0  # seconds until the processes that answer have loaded the run
PATIENCE = 300.0  # seconds until the service answers, or a request does
PARTS = {
    "forecast": "a forecast",
    "post": "a post, until it is acknowledged",
    "visible": "a post, until a forecast knows it",
}
MEMORY = {
    "start_bytes": "memory at the start",
    "loaded_bytes": "memory under load",
    "posted_bytes": "memory after all posts",
}


def measure(
    *,
    data: str = WORLD,
    model: str = "tango",
    run: str = "",
    settings: tuple[str, ...] = (),
    clients: int = 8,
    seconds: int = 60,
    warm: int = 10,
    new: int = 5,
    posts: int = 3600,
    device: torch.device,
) -> Measured:
    """Each of ``clients`` asks as fast as it is answered for ``seconds``, while ``new`` facts are posted every second.

    Then facts are posted one after the other until there were ``posts`` posts. The service is a process of its own,
    the clients are threads of this one. ``run`` is a folder; without one the model has its first weights. What the
    first ``warm`` seconds take does not count.
    """
    with TemporaryDirectory() as place:
        folder = Path(run or f"{place}/run")
        forecaster = load(folder, "cpu") if run else untrained(data, model, settings, torch.device("cpu"))
        if not run:
            forecaster.save(folder)
        with _serving(folder, Path(place) / "journal.sqlite", device) as (port, process):
            clients_of_service = Clients(port, Material(forecaster, new))
            time.sleep(STARTING)
            memory = {"start_bytes": _resident(process)}
            times = clients_of_service.run(clients, seconds, warm)
            memory["loaded_bytes"] = _resident(process)
            clients_of_service.post_until(posts)
            memory["posted_bytes"] = _resident(process)
    summaries = {part: _summary(times[part]) for part in PARTS}
    rows = [{"what": text} | summaries[part] | {"resident_bytes": None} for part, text in PARTS.items()]
    no_times = dict.fromkeys(summaries["forecast"])
    rows += [{"what": text} | no_times | {"resident_bytes": memory[name]} for name, text in MEMORY.items()]
    rows[-1]["count"] = clients_of_service.posted
    figures = {f"{part}_p95_seconds": summary["p95_seconds"] for part, summary in summaries.items()}
    figures |= {"forecasts_a_second": len(times["forecast"]) / seconds} | memory
    return Measured(figures, rows, _describe(forecaster) | {"posts": clients_of_service.posted})


def _resident(process: int) -> int | None:
    """Memory of a process and of those that it started, what they share counted for each; None if nothing tells."""
    children = " ".join(path.read_text() for path in Path(f"/proc/{process}/task").glob("*/children"))
    sizes = [status_bytes("VmRSS", process), *(_resident(int(child)) for child in children.split())]
    return sum(size for size in sizes if size) or None


def _describe(forecaster: Forecaster) -> dict[str, Any]:
    settings = getattr(forecaster.model, "settings", forecaster.config.settings)
    size = ", ".join(f"{name} {getattr(settings, name)}" for name in ("dim", "width") if hasattr(settings, name))
    dataset = forecaster.dataset
    return {"data": dataset.name, "facts": len(dataset.facts), "model": forecaster.config.model, "size": size}


def _summary(seconds: Sequence[float]) -> dict[str, Any]:
    """Median and high percentiles."""
    high = statistics.quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else [seconds[0]] * 99
    return {
        "count": len(seconds),
        "median_seconds": high[49],
        "p95_seconds": high[94],
        "p99_seconds": high[98],
        "most_seconds": max(seconds),
    }


class Material:
    """Questions about the last days of a run by name, and posts of facts like them on the days to come."""

    def __init__(self, forecaster: Forecaster, new: int) -> None:
        facts = forecaster.dataset.facts
        last, vocab = int(facts.t.max()), facts.vocab
        recent = facts.select(facts.t > last - RECENT)
        ids = zip(recent.s.tolist(), recent.r.tolist(), recent.o.tolist(), strict=True)
        self.recent = sorted({(vocab.entities[s], vocab.relations[r], vocab.entities[o]) for s, r, o in ids})
        self.new, self.last, self.clock = min(new, len(self.recent)), last, forecaster.dataset.clock

    def questions(self, seed: int) -> Iterator[dict[str, Any]]:
        """Subject and relation of recent facts, without end."""
        rng = np.random.default_rng(seed)
        while True:
            s, r, _ = self.recent[rng.integers(len(self.recent))]
            yield {"subject": s, "relation": r}

    def post(self, number: int) -> list[dict[str, Any]]:
        """Distinct facts of earlier days, at one of the days to come."""
        rows = np.random.default_rng([1, number]).choice(len(self.recent), self.new, replace=False)
        at = self.clock.format(self.last + 1 + number // POSTS_A_STEP)
        return [dict(zip(("subject", "relation", "object"), self.recent[i], strict=True)) | {"at": at} for i in rows]


class Clients:
    """Clients of a service that ask at once, and one that posts."""

    def __init__(self, port: int, material: Material) -> None:
        self.port, self.material, self.posted = port, material, 0
        self._over = Event()
        self._requests: list[tuple[str, float, float]] = []  # part, when it ended, seconds

    def run(self, clients: int, seconds: float, warm: float) -> dict[str, list[float]]:
        """Seconds of the requests of all clients at once, and of one that posts every second, by part."""
        logger.info(f"{clients} clients for {warm + seconds} s")
        with ThreadPoolExecutor(clients + 1) as pool:
            try:
                jobs = [pool.submit(self._ask, seed) for seed in range(clients)]
                jobs.append(pool.submit(self._post_every_second))
                wait(jobs, warm, FIRST_EXCEPTION)
                begin = time.perf_counter()
                wait(jobs, seconds, FIRST_EXCEPTION)
                end = time.perf_counter()
            finally:
                self._over.set()
        if failed := next(filter(None, (job.exception() for job in jobs)), None):
            raise DataError(f"bench serve: a request failed: {failed}.") from failed
        times = {part: [s for p, at, s in self._requests if p == part and begin <= at < end] for part in PARTS}
        if missing := [part for part in PARTS if not times[part]]:
            raise DataError(f"bench serve: no {missing[0]} was measured in {seconds} seconds. Measure for longer.")
        return times

    def post_until(self, posts: int) -> None:
        """Further posts, one after the other; their times do not count."""
        logger.info(f"{self.posted} posts so far; going on to {posts}")
        connection = self._connect()
        while self.posted < posts:
            _send(connection, "/facts", {"facts": self.material.post(self.posted)})
            self.posted += 1

    def _connect(self) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def _note(self, part: str, start: float) -> None:
        end = time.perf_counter()
        self._requests.append((part, end, end - start))

    def _ask(self, seed: int) -> None:
        connection = self._connect()
        for question in self.material.questions(seed):
            if self._over.is_set():
                return
            start = time.perf_counter()
            _send(connection, "/forecast", question)
            self._note("forecast", start)

    def _post_every_second(self) -> None:
        connection, first = self._connect(), time.perf_counter()
        for number in count():
            if self._over.wait(max(0.0, first + number - time.perf_counter())):
                return
            facts = self.material.post(number)
            start = time.perf_counter()
            reply = _send(connection, "/facts", {"facts": facts})
            self._note("post", start)
            self.posted = number + 1
            question = {key: facts[0][key] for key in ("subject", "relation", "object")}
            known = _send(connection, "/forecast", question)
            if known["position"] < reply["position"] or str(known["answers"][0]["seen"]["last"]) != facts[0]["at"]:
                raise DataError("a forecast after a post does not know its facts")
            self._note("visible", start)


def _send(connection: HTTPConnection, path: str, body: Any) -> Any:
    """The reply to a post; any other status than 200 is an error."""
    connection.request("POST", f"/api/v1{path}", json.dumps(body), {"Content-Type": "application/json"})
    reply = connection.getresponse()
    content = reply.read()
    if reply.status != 200:
        raise DataError(f"{path} was answered with {reply.status}: {content[:300]!r}")
    return json.loads(content)


@contextmanager
def _serving(run: Path, journal: Path, device: torch.device) -> Iterator[tuple[int, int]]:
    """``tango serve`` in a process of its own: its port and process id, once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    options = ["--port", str(port), "--journal", str(journal), "--rate", "100000000/minute", "--device", device.type]
    process = subprocess.Popen(
        [sys.executable, "-m", "tangokg.cli", "-q", "serve", str(run), *options],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    try:
        end = time.monotonic() + PATIENCE
        while not _answers(port):
            if process.poll() is not None or time.monotonic() > end:
                raise DataError("bench serve: the service did not start; see its messages above.")
            time.sleep(0.2)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(60)


def _answers(port: int) -> bool:
    with closing(HTTPConnection("127.0.0.1", port, timeout=5)) as connection, suppress(OSError, HTTPException):
        connection.request("GET", "/api/v1/health")
        return connection.getresponse().status == 200
    return False

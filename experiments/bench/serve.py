"""How fast the service answers several clients at once while facts are posted, and what memory many posts take."""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Lock, Thread
from typing import Any

import numpy as np
import torch

from experiments.bench.form import logger, make_result
from experiments.bench.material import WORLD
from experiments.bench.observe import untrained
from tangokg.errors import DataError
from tangokg.forecast import load

CPU = torch.device("cpu")
DAY = 100  # posts of one step of time
LATELY = 30  # last steps whose facts and questions are asked for and posted again
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
Row = tuple[str, str, str]


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
    device: torch.device = CPU,
) -> dict[str, Any]:
    """Each of ``clients`` asks as fast as it is answered for ``seconds``, while ``new`` facts are posted every second.

    Then facts are posted one after the other until there were ``posts`` posts. The service is a process of its own,
    the clients are threads of this one. ``run`` is a folder; without one the model has its first weights. What the
    first ``warm`` seconds take does not count.
    """
    with TemporaryDirectory() as place:
        folder = Path(run) if run else Path(place) / "run"
        if not run:
            untrained(data, model, settings, CPU).save(folder)
        material = Material.of(folder, new)
        with _serving(folder, Path(place) / "journal.sqlite", device) as (port, process):
            load_ = Load(port, material)
            start = _resident(process)
            load_.run(clients, seconds, warm)
            loaded = _resident(process)
            load_.post_until(posts)
            memory = {"start_bytes": start, "loaded_bytes": loaded, "posted_bytes": _resident(process)}
    for part, seconds_of in load_.seconds.items():
        if not seconds_of:
            raise DataError(f"bench serve: no {part} was measured in {seconds} seconds. Measure for longer.")
    times = {part: _summary(load_.seconds[part]) for part in PARTS}
    rows = [{"what": text} | times[part] | {"resident_bytes": None} for part, text in PARTS.items()]
    nothing = dict.fromkeys(times["forecast"])
    rows += [{"what": text} | nothing | {"resident_bytes": memory[name]} for name, text in MEMORY.items()]
    rows[-1]["count"] = load_.posted
    figures = {f"{part}_p95_seconds": summary["p95_seconds"] for part, summary in times.items()}
    figures |= {"forecasts_a_second": len(load_.seconds["forecast"]) / seconds} | memory
    asked = {"data": material.data, "facts": material.facts, "model": material.model, "size": material.size}
    asked |= {"clients": clients, "seconds": seconds, "new": new, "posts": load_.posted}
    return make_result("serve", asked, figures=figures, rows=rows, device=device)


def _summary(seconds: Sequence[float]) -> dict[str, Any]:
    """Median and high percentiles."""
    high = statistics.quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else [seconds[0]] * 99
    return {
        "count": len(seconds),
        "median_seconds": statistics.median(seconds),
        "p95_seconds": high[94],
        "p99_seconds": high[98],
        "most_seconds": max(seconds),
    }


@dataclass(frozen=True)
class Material:
    """Names of a run: questions of its last days, and posts of facts like them on the days to come."""

    data: str
    model: str
    size: str
    facts: int
    lately: list[Row]
    days: list[Any]
    new: int

    @classmethod
    def of(cls, folder: Path, new: int) -> Material:
        forecaster = load(folder, "cpu")
        dataset = forecaster.dataset
        facts, vocab = dataset.facts, dataset.facts.vocab
        last = int(facts.t.max())
        some = facts.select(facts.t > last - LATELY)
        names, relations = vocab.entities, vocab.relations
        columns = (some.s.tolist(), some.r.tolist(), some.o.tolist())
        lately = sorted({(names[s], relations[r], names[o]) for s, r, o in zip(*columns, strict=True)})
        days = [dataset.clock.format(last + 1 + day) for day in range(1000)]
        settings = getattr(forecaster.model, "settings", forecaster.config.settings)
        size = ", ".join(f"{name} {getattr(settings, name)}" for name in ("dim", "width") if hasattr(settings, name))
        return cls(dataset.name, forecaster.config.model, size, len(facts), lately, days, new)

    def questions(self, seed: int) -> Iterator[dict[str, Any]]:
        rng = np.random.default_rng(seed)
        while True:
            s, r, _ = self.lately[rng.integers(len(self.lately))]
            yield {"subject": s, "relation": r}

    def post(self, number: int) -> list[dict[str, Any]]:
        """Distinct facts of earlier days, at one of the days to come."""
        rng = np.random.default_rng([1, number])
        rows = rng.choice(len(self.lately), min(self.new, len(self.lately)), replace=False)
        at = self.days[number // DAY]
        return [dict(zip(("subject", "relation", "object"), self.lately[i], strict=True)) | {"at": at} for i in rows]


@dataclass
class Load:
    """Clients of a service, and how long each of their requests took."""

    port: int
    material: Material
    seconds: dict[str, list[float]] = field(default_factory=lambda: {part: [] for part in PARTS})
    posted: int = 0

    def __post_init__(self) -> None:
        self._counting, self._over, self._lock = Event(), Event(), Lock()
        self._failed: list[BaseException] = []

    def run(self, clients: int, seconds: float, warm: float) -> None:
        """All clients at once, and one who posts every second."""
        logger.info(f"{clients} clients for {warm + seconds} s")
        jobs: list[Callable[[], None]] = [partial(self._ask, seed) for seed in range(clients)]
        threads = [Thread(target=self._guarded, args=(job,), daemon=True) for job in [*jobs, self._post_every_second]]
        for thread in threads:
            thread.start()
        time.sleep(warm)
        self._counting.set()
        self._over.wait(seconds)
        self._counting.clear()
        self._over.set()
        for thread in threads:
            thread.join(PATIENCE)
        if self._failed:
            raise DataError(f"bench serve: a request failed: {self._failed[0]}.") from self._failed[0]

    def post_until(self, posts: int) -> None:
        """Further posts, one after the other; their times do not count."""
        logger.info(f"{self.posted} posts so far; going on to {posts}")
        client = Client(self.port)
        while self.posted < posts:
            client.send("/facts", {"facts": self.material.post(self.posted)})
            self.posted += 1

    def _guarded(self, job: Callable[[], None]) -> None:
        try:
            job()
        except (OSError, HTTPException, DataError) as error:
            self._failed.append(error)
            self._over.set()

    def _count(self, part: str, seconds: float) -> None:
        if self._counting.is_set():
            with self._lock:
                self.seconds[part].append(seconds)

    def _ask(self, seed: int) -> None:
        client = Client(self.port)
        for question in self.material.questions(seed):
            if self._over.is_set():
                return
            start = time.perf_counter()
            client.send("/forecast", question)
            self._count("forecast", time.perf_counter() - start)

    def _post_every_second(self) -> None:
        client, due = Client(self.port), time.perf_counter()
        while not self._over.wait(max(0.0, due - time.perf_counter())):
            facts = self.material.post(self.posted)
            start = time.perf_counter()
            answer = client.send("/facts", {"facts": facts})
            self._count("post", time.perf_counter() - start)
            self.posted += 1
            one = {key: facts[0][key] for key in ("subject", "relation", "object")}
            known = client.send("/forecast", one)
            if known["position"] < answer["position"] or str(known["answers"][0]["seen"]["last"]) != facts[0]["at"]:
                raise DataError("a forecast after a post does not know its facts")
            self._count("visible", time.perf_counter() - start)
            due += 1.0


class Client:
    """One connection that stays open."""

    def __init__(self, port: int) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)

    def send(self, path: str, body: Any) -> Any:
        headers = {"Content-Type": "application/json"}
        self._connection.request("POST", f"/api/v1{path}", json.dumps(body), headers)
        reply = self._connection.getresponse()
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
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/api/v1/health")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def _resident(process: int) -> int | None:
    """Resident bytes of a process; None where the system does not say."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))
    except (OSError, StopIteration):
        return None

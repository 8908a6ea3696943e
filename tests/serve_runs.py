"""Services on copies of a run folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from tangokg.forecast import load
from tangokg.serve.compacting import FILE
from tangokg.serve.process import AnsweringProcess
from tangokg.serve.service import Service
from tangokg.serve.settings import ServeSettings


def make_service(
    run: Path,
    beside: Path | None = None,
    journal: Path | None = None,
    processes: Sequence[AnsweringProcess] = (),
    **settings: Any,
) -> Service:
    """The service of a run folder, with its journal there unless another is given, and of another run beside."""
    second = None if beside is None else (load(beside, "cpu"), beside)
    kept = replace(ServeSettings(), **settings)
    return Service(load(run, "cpu"), kept, run, journal or run / FILE, second, processes)


def forecasts(client: TestClient) -> list[Any]:
    """What a service says of several questions."""
    card = client.get("/api/v1/model").json()
    names = [one["name"] for one in client.get("/api/v1/names", params={"kind": "entity", "limit": 20}).json()["names"]]
    questions = [{"subject": name, "relation": card["example"]["relation"], "top": 5} for name in sorted(names)]
    return [
        [(one["name"], one["seen"], round(one["chance"], 5), round(one["share"], 5)) for one in found["answers"]]
        for found in client.post("/api/v1/forecasts", json={"questions": questions}).json()["forecasts"]
    ]

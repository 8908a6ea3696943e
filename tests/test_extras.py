"""Each extra installs alone in a clean environment, and what it is for works there."""

from __future__ import annotations

from pathlib import Path

import pytest

from clean_environments import PROJECT, ROOT, Environment, run

EXTRAS = {name for name in PROJECT["optional-dependencies"] if name != "dev"}  # `make test` installs dev
FIT = """
import tangokg as tk
with open("events.csv", "w") as file:
    file.write("subject,relation,object,date\\n")
    for day in range(1, 29):
        file.write(f"Anna,visits,{{('Oslo', 'Rome')[day % 2]}},2024-02-{{day:02}}\\n")
options = {{"dim": 4, "epochs": 1, "device": "cpu", "verbose": False}}
tk.fit("events.csv", "tango-distmult", out="run", loggers={loggers!r}, **options)
"""
STORAGE = """
from tangokg.errors import RunError
from tangokg.tune.storage import open_storage, parse_storage
for place in ("postgresql://me@127.0.0.1:9/x", "grpc://127.0.0.1:9"):
    try:
        open_storage(parse_storage(place))
    except RunError:
        continue
    raise SystemExit(place)
"""
SERVE = """
import json, os, signal, threading, time
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen
from tangokg.serve.running import serve
from tangokg.serve.settings import ServeSettings
seen = []
def ask(url):
    for attempt in range(100):
        with suppress(OSError):  # it may not listen yet
            return urlopen(url, timeout=60).read()
        time.sleep(0.1)
def look(url):
    try:
        seen.append(ask(url))
        seen.append(json.loads(ask(url + "api/v1/model")))
    finally:
        os.kill(os.getpid(), signal.SIGINT)
serve(Path("run"), ServeSettings(port=0), tell=lambda url: threading.Thread(target=look, args=(url,)).start())
assert b"<html" in seen[0] and seen[1]["example"], seen
"""
SQL = """
import pyarrow as pa
from tangokg.quads import write_table
questions = pa.table({"subject": ["Anna"], "relation": ["visits"]})
for address in ("sqlite:///answers.db?table=answers", "duckdb:///answers.duckdb?table=answers"):
    write_table(tk.load("run").forecast_table(questions), address)
assert len(tk.read_events("duckdb:///:memory:?query=select * from 'events.csv'")) == 28
import adbc_driver_postgresql
"""
WORKS = {
    "serve": FIT.format(loggers="csv") + SERVE,
    "tune": FIT.format(loggers="csv")
    + "tk.tune('events.csv', model='tango-distmult', trials=1, dim=4, epochs=1, verbose=False)",
    "tensorboard": FIT.format(loggers="tensorboard"),
    "mlflow": FIT.format(loggers="mlflow"),
    "wandb": FIT.format(loggers="wandb"),
    "hub": FIT.format(loggers="csv")
    + "from tangokg.cli import main\nassert main(['push', 'run', 'anna/visits', '--to', 'shared']) == 0",
    "cluster": STORAGE,
    "notebook": FIT.format(loggers="csv")
    + "metrics = tk.load('run').evaluate()\n"
    + "assert tk.plot(metrics)._repr_mimebundle_() is not None\nassert len(metrics.to_pandas())",
    "docs": "from sphinx.cmd.build import main\n"
    f"words = ['-q', '-W', '-D', 'nb_execution_mode=off', '-c', {str(ROOT / 'docs')!r}, {str(ROOT)!r}, 'site']\n"
    "assert main(words) == 0",
    "mcp": "from tangokg.serve.mcp import make_server\nmake_server('http://127.0.0.1:9')",
    "sql": FIT.format(loggers="csv") + SQL,
}


def test_what_each_extra_is_for_is_tried() -> None:
    assert set(WORKS) == EXTRAS, "an extra needs a line in WORKS"


@pytest.mark.slow
@pytest.mark.parametrize("extra", WORKS)
def test_an_extra_installs_and_works_alone(extra: str, core: Environment, wheel: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv", below=core)
    environment.install(f"{wheel}[{extra}]")
    (tmp_path / "work").mkdir()
    run(environment.python, "-m", "pip", "check", cwd=tmp_path)
    outside = {"HOME": str(tmp_path), "WANDB_MODE": "offline"}
    run(environment.python, "-c", WORKS[extra], cwd=tmp_path / "work", **outside)


@pytest.mark.slow
def test_packages_for_development_resolve(core: Environment, wheel: Path, tmp_path: Path) -> None:
    """And leave torch as it is."""
    told = run(core.python, "-m", "pip", "install", "--dry-run", f"{wheel}[dev]", cwd=tmp_path)
    planned = next(line for line in told.splitlines() if line.startswith("Would install"))
    assert " torch-2" not in planned

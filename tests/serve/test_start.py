"""``tango serve`` from the command line: what it needs, what it refuses, and folding the journal."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from cli_runs import printed
from tangokg.cli import main
from tangokg.forecast import load
from tangokg.quads.values import Quadruples
from tangokg.serve.compacting import FILE, compact
from tangokg.serve.journal import Journal, Post
from tangokg.serve.schemas import Fact
from tangokg.serve.settings import WRITE
from tangokg.train import runs
from tangokg.train.checkpoint import write_atomically
from tangokg.train.locks import owning


def test_without_the_extra_the_command_names_it(made: Path, tmp_path: Path) -> None:
    """The rest of the command line works there."""
    block = "import sys; sys.modules.update(dict.fromkeys(('fastapi', 'uvicorn', 'limits')));"
    start = f"{block} from tangokg.cli import main; sys.exit(main(sys.argv[1:]))"

    def tango(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", start, *words], capture_output=True, text=True, check=False)

    refused = tango("serve", str(made))
    assert refused.returncode == 2
    assert "tangokg[serve]" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert tango("show", str(made)).returncode == 0


def test_another_address_needs_a_token(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(made), "--host", "0.0.0.0"]) == 2
    assert "--token-file" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
def test_an_address_that_is_taken_or_none_is_told(
    made: Path, host: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WRITE, "0123456789abcdef")
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert main(["serve", str(made), "--host", host, "--port", str(other.getsockname()[1])]) == 2
    assert "Take another --port" in capsys.readouterr().err


def test_what_is_no_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["--compact"]):
        assert main(["serve", str(tmp_path), *words]) == 2
        assert "no run is here" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def write(run: Path, position: int, at: str) -> None:
    journal = Journal(run / FILE)
    fact = Fact(subject="Someone", relation="met", object="Else", at=at)
    journal.append(Post([fact], "", "2024-01-01", {"position": position}))
    journal.close()


def test_compact_folds_the_journal_into_the_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = printed(capsys, "show", str(run))
    last = load(run, "cpu").facts
    write(run, 1, last.clock.format(float(last.t.max() + 1)))
    assert main(["serve", str(run), "--compact"]) == 0
    assert "position 1" in capsys.readouterr().err
    assert printed(capsys, "forecast", str(run), "Someone", "met")["answers"]
    after = printed(capsys, "show", str(run))
    assert after["metrics"] == before["metrics"]
    assert "1 fact" in after["data"]["after"]


def test_a_run_that_is_served_is_not_changed_by_others(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hold = "import sys; from pathlib import Path; from tangokg.train.locks import owning\n"
    hold += "with owning(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    words = [sys.executable, "-c", hold, str(run)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        for options in ([], ["--compact"]):
            assert main(["serve", str(run), *options]) == 2
            assert "in use" in capsys.readouterr().err
        other.kill()
    with owning(run):
        pass


def test_a_compaction_that_is_cut_off_loses_nothing(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped before each file it writes, and then again: the facts are there once."""
    facts = load(run, "cpu").facts
    write(run, 1, facts.clock.format(float(facts.t.max() + 1)))
    whole = write_atomically

    class Cut(BaseException):
        pass

    for number in range(3):
        left = [number]

        def cut(path: Path, content: bytes, left: list[int] = left) -> None:
            if left[0] == 0:
                raise Cut
            left[0] -= 1
            whole(path, content)

        monkeypatch.setattr(runs, "write_atomically", cut)
        try:
            compact(run, run / FILE)
        except Cut:
            assert len(load(run, "cpu").facts) == len(facts)
    monkeypatch.undo()
    assert compact(run, run / FILE) == 1
    after: Quadruples = load(run, "cpu").facts
    assert len(after) == len(facts) + 1
    assert after.vocab.entities[-2:] == ("Someone", "Else")


@pytest.mark.parametrize("damage", ["no database", "another version", "damaged"])
def test_a_journal_that_cannot_be_used_is_told(run: Path, capsys: pytest.CaptureFixture[str], damage: str) -> None:
    path = run / FILE
    if damage == "no database":
        path.write_bytes(b"not a database, but long enough to be looked at" * 50)
    else:
        Journal(path).close()
        if damage == "another version":
            with sqlite3.connect(path) as db:
                db.execute("PRAGMA user_version = 99")
        else:
            content = bytearray(path.read_bytes())
            content[4096:12288] = b"\xff" * 8192
            path.write_bytes(content)
    assert main(["serve", str(run), "--compact"]) == 2
    assert "journal" in capsys.readouterr().err


def test_a_journal_of_another_run_is_told(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(run, 1, "no date")
    assert main(["serve", str(run), "--compact"]) == 2
    assert "does not fit this run" in capsys.readouterr().err


DEMO = """
import sys
from functools import partial
from tangokg.cli import main
from tangokg.forecast import demo
from tangokg.quads import world
from tangokg.train import make_config
world.make_world = partial(world.make_world, num_actors=40, num_newcomers=8, num_days=80)
small = {"settings": {"dim": 4, "history": 2}, "train": {"epochs": 1, "device": "cpu"}}
demo.demo_config = lambda seed: make_config("tango-distmult", small)
sys.exit(main(["demo", "--serve"]))
"""


def test_the_demo_opens_the_page_on_its_world(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "DISPLAY": "", "WAYLAND_DISPLAY": ""}
    process = subprocess.Popen([sys.executable, "-c", DEMO], stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    told, address = "", None
    while address is None:
        line = process.stderr.readline()
        assert line, told
        told += line
        address = re.search(r"http://127\.0\.0\.1:\d+/", line)
    with urlopen(f"{address[0]}api/v1/model") as answer:
        assert json.load(answer)["name"] == "world"
    assert list(tmp_path.glob("tango-*/demo/config.toml"))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode in (0, 130)
    assert not list(tmp_path.glob("tango-*"))


def test_a_demo_that_is_served_prints_no_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--serve", "--json"]) == 2
    assert "choose one of them" in capsys.readouterr().err

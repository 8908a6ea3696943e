"""Workers on a real PostgreSQL, straight and through a proxy: killed on the way; and passwords, which stay secret."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from cli_runs import printed
from conftest import make_dataset
from postgres_server import PASSWORD, USER, postgres, with_password
from tangokg.cli import main
from tangokg.errors import ConfigError
from tangokg.train import fit
from tangokg.tune.proxy import main as serve
from tangokg.tune.space import make_plan
from tangokg.tune.storage import Shared, parse_storage
from tangokg.tune.work import Search, work

__all__ = ["postgres"]

ROOT = Path(__file__).parents[2]
TINY = ["dim=[2, 3]", "layers=1", "history=[1, 2]", "batch_windows=8", "device=cpu", "epochs=3", "checkpoint_seconds=0"]
TRIALS, BEAT = 3, 0.4
SECRETS = [PASSWORD, quote(PASSWORD), quote(PASSWORD, safe="")]
WORKER = """
import sys, time
from pathlib import Path
from conftest import make_dataset
from tangokg.tune.space import make_plan
from tangokg.tune.storage import Shared, parse_storage
from tangokg.tune.work import Judge, Search, work

(address,) = sys.argv[1:]
epoch = Judge.epoch

def stuck(self, progress, settings):  # after the second epoch, wait to be killed
    epoch(self, progress, settings)
    if progress.epoch == 2:
        print(self.claim.number, flush=True)
        time.sleep(600)

Judge.epoch = stuck
dataset = make_dataset()
plan = make_plan(dataset, "search", assignments={given!r})
shared = Shared("killed", parse_storage(address), {beat})
work(Search(dataset, plan, Path({folder!r}) / "x", {trials}, "none", shared=shared))
"""


@pytest.fixture(scope="module")
def owned(postgres: str) -> str:
    """The database with tables of its own for USER, who needs a password."""
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"alter schema public owner to {USER}".encode())
    return postgres


def environment(**more: str) -> dict[str, str]:
    places = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": places, **more}


def start(words: list[str], **more: str) -> subprocess.Popen[str]:
    command = [sys.executable, *words]
    return subprocess.Popen(command, env=environment(**more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def proxy(owned: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address of a proxy in front of the database, and its process."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    process = start(["-m", "tangokg.tune.proxy", with_password(owned), "--port", str(port)])
    yield f"grpc://127.0.0.1:{port}", process
    process.kill()
    process.communicate()


@pytest.mark.slow
def test_killed_workers_lose_no_trial(
    owned: str, proxy: tuple[str, subprocess.Popen[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One straight and one through the proxy are killed; a third one ends all trials."""
    bare = owned.replace("postgres@", f"{USER}@")
    code = WORKER.format(given=TINY, beat=BEAT, folder=str(tmp_path), trials=TRIALS)
    doomed = [start(["-c", code, address], PGPASSWORD=PASSWORD) for address in (bare, proxy[0])]
    begun = [int(process.stdout.readline()) for process in doomed if process.stdout is not None]
    shared = Shared("killed", parse_storage(proxy[0]), BEAT)
    dataset = make_dataset()
    search = Search(
        dataset, make_plan(dataset, "search", assignments=TINY), tmp_path / "x", TRIALS, "none", shared=shared
    )
    before = search.open().outcomes()
    for process in doomed:
        process.kill()
    texts = [text for process in doomed for text in process.communicate()]
    outcomes = work(search)
    texts += [*capsys.readouterr()]
    assert [(o.number, o.state, o.epochs) for o in outcomes] == [(n, "done", 3) for n in range(TRIALS)]
    assert {o.number for o in before if o.epochs == 2} == set(range(len(begun)))
    for old, new in zip(before, outcomes, strict=False):
        assert old.values == new.values
        _, alone = fit(dataset, search.plan.config(new.values))
        assert new.mrr == pytest.approx(alone.best_mrr, abs=1e-9)
    assert not any(secret in text for secret in SECRETS for text in texts)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


WORDS = ["--set", "dim=[2, 3]", "--set", "epochs=1", "--set", "batch_windows=72", "--device", "cpu", "--trials", "2"]


def test_a_password_reaches_no_text_no_file_and_no_row(
    owned: str,
    proxy: tuple[str, subprocess.Popen[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    import psycopg

    monkeypatch.chdir(tmp_path)
    words = [
        "tune",
        "world",
        "--model",
        "tango-distmult",
        *WORDS,
        "--storage",
        with_password(owned),
        "--study",
        "secret",
    ]
    assert main([*words, "--out", "best.toml"]) == 0
    texts: list[str] = [*capfd.readouterr()]
    assert "secret in postgresql://" in texts[1]
    through = printed(capfd, *[proxy[0] if word == with_password(owned) else word for word in words])
    assert [trial["state"] for trial in through["trials"]] == ["done", "done"]
    with psycopg.connect(owned) as connection:
        names = connection.execute("select table_name from information_schema.tables where table_schema = 'public'")
        for (name,) in names.fetchall():
            texts += [str(row) for row in connection.execute(f"select * from {name}".encode()).fetchall()]
    texts += [path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    wrong = with_password(owned, "wr/öng pass")
    assert main(["-v", *words[:-4], "--storage", wrong]) == 2
    assert main([*words[:-4], f"--storage={wrong.replace('127.0.0.1', '127.0.0.2').replace('5', '6')}"]) == 2
    assert serve([wrong]) == 2
    failed = "".join(capfd.readouterr())
    assert "password authentication failed" in failed
    assert not any(form in failed for form in ("wr/öng pass", quote("wr/öng pass"), quote("wr/öng pass", safe="")))
    assert not any(secret in text for secret in SECRETS for text in texts)


def test_workers_that_search_different_things_under_one_name_are_refused(
    owned: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["tune", "world", "--model", "tango-distmult", *WORDS, "--storage", with_password(owned), "--study", "one"]
    assert main([*words, "--budget", "0.001s"]) == 0
    capsys.readouterr()
    assert main([*words, "--set", "history=[1, 2]"]) == 2
    assert "one in postgresql://" in capsys.readouterr().err
    assert main([*words, "--seed", "3"]) == 2
    assert "seed: 0 there, 3 here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("storage", "message"),
    [
        ("sqlite:///a.db", "--storage sqlite://...: expected postgresql://user@host/database, or grpc://host:port"),
        ("mysql://me:hush@host/db", "--storage mysql://...: expected"),
        ("me:hush@host/a", "--storage ...: expected"),
        ("grpc://me@host:3", "expected grpc://host:port, without user"),
        ("postgresql://me@host/db?table=x", "a storage has no table"),
    ],
)
def test_other_storages_are_refused(storage: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "world", "--storage", storage]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert "hush" not in told


def test_a_proxy_that_is_not_there_and_one_before_a_proxy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tangokg.tune.storage.READY", 0.1)
    assert main(["tune", "world", "--storage", "grpc://127.0.0.1:1"]) == 2
    assert "grpc://127.0.0.1:1: the storage of the study cannot be used" in capsys.readouterr().err
    assert serve(["grpc://host:3"]) == 2
    assert "not of another proxy" in capsys.readouterr().err


def test_without_the_extra_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from tangokg.tune.storage import open_storage

    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigError, match=r"pip install 'tangokg\[cluster\]'"):
        open_storage(parse_storage("postgresql://me@127.0.0.1:1/x"))


def test_an_address_keeps_its_parts() -> None:
    address: Any = parse_storage("postgresql://me:p%40ss@host:5/db?sslmode=require&sslpassword=hush")
    assert (str(address), address.options) == ("postgresql://me@host:5/db", {"sslmode": "require"})
    assert "hush" not in repr(address)


@pytest.mark.slow
def test_processes_of_one_machine_share_it_too(
    owned: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The password reaches them, and nothing else."""
    monkeypatch.chdir(tmp_path)
    words = ["tune", "world", "--model", "tango-distmult", *WORDS, "--storage", with_password(owned), "--study", "two"]
    found = printed(capfd, *words, "--trials", "3", "--workers", "2")
    assert [trial["state"] for trial in found["trials"]] == ["done"] * 3
    assert not any(secret in text for secret in SECRETS for text in (*capfd.readouterr(), str(found)))

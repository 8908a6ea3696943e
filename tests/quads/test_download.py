"""A download ends in a whole set with the right sums, or leaves nothing."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NoReturn

import pytest

from tangokg.errors import DataError, UnknownName
from tangokg.quads.clock import Clock
from tangokg.quads.download import download
from tangokg.quads.registry import KNOWN, KnownFile, KnownSet, read_known

FILES = {"train.txt": b"0 0 1 0\n" * 20_000, "test.txt": b"1 0 0 1\n"}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of a server on this machine that publishes ``FILES``."""
    public = tmp_path / "public"
    public.mkdir()
    for name, data in FILES.items():
        (public / name).write_bytes(data)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(public))) as httpd:
        thread = threading.Thread(target=httpd.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()
        thread.join()


def publish(monkeypatch: pytest.MonkeyPatch, urls: dict[str, str], **sums: str) -> KnownSet:
    files = {n: KnownFile(url, (sums.get(n[:-4], sha256(FILES[n]).hexdigest()),)) for n, url in urls.items()}
    names = KnownFile(None, ("0" * 64,))  # nobody publishes it
    rows = {"train": 20_000, "valid": 0, "test": 1}
    known = KnownSet("TOY", "", rows, 2, 1, 2, Clock("day", "2020-01-01"), {**files, "entity2id.txt": names})
    monkeypatch.setitem(KNOWN, "TOY", known)
    return known


def test_files_arrive_whole_with_progress_and_once(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = publish(monkeypatch, {name: f"{server}/{name}" for name in FILES})
    calls: list[tuple[str, int, int | None]] = []
    target = download("toy", tmp_path / "cache", lambda *call: calls.append(call))
    assert target == tmp_path / "cache" / "TOY"
    assert {path.name: path.read_bytes() for path in target.iterdir()} == FILES
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["TOY"]
    assert len(read_known(known, target).facts) == 20_001
    sizes = {name: len(data) for name, data in FILES.items()}
    assert {name: (done, total) for name, done, total in calls} == {name: (n, n) for name, n in sizes.items()}
    assert len(calls) > len(FILES)  # the large file came in pieces
    calls.clear()
    assert download("toy", tmp_path / "cache", lambda *call: calls.append(call)) == target
    assert calls == []


def test_a_damaged_file_is_replaced(tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(monkeypatch, {name: f"{server}/{name}" for name in FILES})
    target = download("toy", tmp_path)
    (target / "train.txt").write_bytes(b"0 0")
    assert (download("toy", tmp_path) / "train.txt").read_bytes() == FILES["train.txt"]


def test_failures_are_said_and_leave_nothing(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = {name: f"{server}/{name}" for name in FILES}
    cache = tmp_path / "cache"
    for urls, sums, message in (
        (
            {**good, "test.txt": f"{server}/gone.txt"},
            {},
            r"gone.txt: the server answered 404 .*: test.txt is not there",
        ),
        (good, {"test": "1" * 64}, r"test.txt: the sum of the 8 bytes is not the one expected"),
        ({**good, "test.txt": "http://127.0.0.1:1/test.txt"}, {}, r"no connection .*Is the network up\?"),
        ({**good, "test.txt": (tmp_path / "no.txt").as_uri()}, {}, r"no connection"),
    ):
        publish(monkeypatch, urls, **sums)
        with pytest.raises(DataError, match=message):
            download("toy", cache)
        assert list(cache.iterdir()) == []


def test_a_full_disk_is_said_and_leaves_nothing(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(monkeypatch, {name: f"{server}/{name}" for name in FILES})

    def full(self: Path, *options: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(DataError, match="TOY: cannot be written: the disk is full"):
        download("toy", tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_set_that_nobody_knows_is_not_downloaded(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="unknown data set 'nope'"):
        download("nope", tmp_path)

"""Download a known data set from its publisher."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from tangokg.errors import DataError, UnknownName
from tangokg.quads.files import find_file, read_bytes
from tangokg.quads.registry import KNOWN, KnownFile, KnownSet, known_set

Progress = Callable[[str, int, int | None], None]  # file, bytes so far, bytes in all where known

CHUNK = 1 << 16
TIMEOUT_SECONDS = 30.0


def download(name: str, folder: Path, progress: Progress = lambda file, done, total: None) -> Path:
    """Put the known set ``name`` into ``folder / name`` and return that path; a failure leaves nothing behind.

    All files are fetched into a temporary folder beside their place, their sums checked, and only then moved. A set
    that is already complete is not fetched again.
    """
    known = known_set(name)
    if known is None:
        raise UnknownName("data set", name, KNOWN, hint=f"Known are {', '.join(KNOWN)}.")
    if not known.published:
        lacking = ", ".join(name for name in known.needed if not known.files[name].url)
        raise DataError(
            f"{known.name} cannot be downloaded: {lacking} is not published. If you have it, set TANGOKG_DATA to "
            f"the folder that holds {known.name}/."
        )
    target = folder / known.name
    if _is_complete(known, target):
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{known.name}-", dir=folder, ignore_cleanup_errors=True) as temporary:
            for file_name, file in known.files.items():
                if file.url:
                    _fetch(file_name, file, file.url, Path(temporary) / file_name, progress)
            target.mkdir(exist_ok=True)
            for path in Path(temporary).iterdir():
                os.replace(path, target / path.name)
    except OSError as error:
        reason = "the disk is full" if error.errno == errno.ENOSPC else str(error)
        raise DataError(f"{target}: cannot be written: {reason}. Nothing was changed.") from None
    return target


def _is_complete(known: KnownSet, target: Path) -> bool:
    paths = {name: find_file(target, name) for name, file in known.files.items() if file.url}
    return all(path and known.files[name].accepts(read_bytes(path)) for name, path in paths.items())


def _fetch(name: str, file: KnownFile, url: str, path: Path, progress: Progress) -> None:
    done = 0
    try:
        response = urlopen(url, timeout=TIMEOUT_SECONDS)
    except HTTPError as error:
        raise DataError(f"{url}: the server answered {error.code} ({error.reason}): {name} is not there.") from None
    except (URLError, HTTPException, TimeoutError, ValueError) as error:
        raise DataError(f"{url}: no connection ({getattr(error, 'reason', error)}). Is the network up?") from None
    with response, path.open("wb") as out:
        length = response.headers.get("Content-Length")
        total = int(length) if length and length.isdigit() else None
        while chunk := _read(response.read, url):
            out.write(chunk)
            done += len(chunk)
            progress(name, done, total)
    if not file.accepts(read_bytes(path)):
        raise DataError(
            f"{url}: the sum of the {done:,} bytes is not the one expected: broken off, or another version."
        )


def _read(read: Callable[[int], bytes], url: str) -> bytes:
    """Read one chunk; any failure here is one of the connection, not of the disk."""
    try:
        return read(CHUNK)
    except (OSError, HTTPException) as error:
        raise DataError(f"{url}: the connection broke off ({error}). Try again.") from None

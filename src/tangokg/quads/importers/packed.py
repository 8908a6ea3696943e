"""Published files, packed or not -> streams of bytes, which are never loaded completely."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import IO, cast

from tangokg.errors import DataError, nearest, offer

BLOCK = 1 << 24  # bytes that are parsed at a time
OPEN_QUOTE = 1 << 26  # bytes without an end of a quote: it was left open
DAMAGED = (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError)


@dataclass(frozen=True)
class Stream:
    """The unpacked bytes of a file, or of one file in an archive."""

    place: str  # for messages: ``a.csv.gz``, ``a.zip/b.csv``
    raw: IO[bytes]

    def lines(self) -> Iterator[bytes]:
        """The lines, one at a time."""
        try:
            yield from self.raw
        except DAMAGED as error:
            raise self._damaged(error) from None

    def blocks(self, quoted: bool) -> Iterator[bytes]:
        """Whole records, about ``BLOCK`` bytes at a time; ``quoted``: a record may hold line breaks inside quotes."""
        try:
            while block := self.raw.read(BLOCK):
                pieces = [block, self.raw.readline()]
                is_open = quoted and sum(piece.count(b'"') for piece in pieces) % 2 == 1
                length = len(block)
                while is_open and (line := self.raw.readline()):
                    pieces.append(line)
                    is_open ^= line.count(b'"') % 2 == 1
                    length += len(line)
                    if length > BLOCK + OPEN_QUOTE:
                        raise DataError(f"{self.place}: a quote has no end. Is one left open?")
                yield b"".join(pieces)
        except DAMAGED as error:
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> DataError:
        return DataError(f"{self.place}: the file cannot be read to its end ({error}). Fetch or pack it again.")


def streams(path: Path) -> Iterator[Stream]:
    """The content of a file: one stream, or one for each file in a zip archive. gzip and bzip2 are known by content."""
    try:
        with open(path, "rb") as file:
            magic = file.read(4)
        if magic == b"PK\x03\x04":
            yield from _archive(path)
        elif magic[:2] == b"\x1f\x8b":
            with gzip.open(path) as packed:
                yield Stream(path.name, cast(IO[bytes], packed))
        elif magic[:3] == b"BZh":
            with bz2.open(path) as bzipped:
                yield Stream(path.name, cast(IO[bytes], bzipped))
        else:
            with open(path, "rb") as plain:
                yield Stream(path.name, plain)
    except DAMAGED as error:
        raise DataError(f"{path}: cannot be read ({error}).") from None


def _archive(path: Path) -> Iterator[Stream]:
    with zipfile.ZipFile(path) as archive:
        names = [info.filename for info in archive.infolist() if not info.is_dir()]
        names = [name for name in names if not name.startswith("__MACOSX") and not Path(name).name.startswith(".")]
        if not names:
            raise DataError(f"{path}: the zip archive holds no file.")
        for name in names:
            with archive.open(name) as member:
                yield Stream(path.name if len(names) == 1 else f"{path.name}/{name}", member)


def list_files(source: str | Path | Sequence[str | Path]) -> list[Path]:
    """The distinct files of a path, a glob pattern or several of them; those of a pattern are sorted."""
    patterns = [source] if isinstance(source, str | Path) else list(source)
    paths = [path for pattern in patterns for path in _matching(pattern)]
    if not paths:
        raise DataError("no file was given; expected the path of a file, a pattern such as 'data/*.zip', or several.")
    return list(dict.fromkeys(paths))


def _matching(pattern: str | Path) -> list[Path]:
    path = Path(pattern)
    if path.exists():
        return [path]
    matching = sorted(Path(name) for name in glob(str(pattern)))
    if not matching:
        similar = nearest(path.name, os.listdir(path.parent)) if path.parent.is_dir() else []
        raise DataError(
            f"{path}: no such file, and no file matches it.{offer(repr(str(path.parent / a)) for a in similar)}"
        )
    return matching

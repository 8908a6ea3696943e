"""Checksums of data files, stored with results so that readers can compare their files."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from tangokg.quads.files import find_file, read_bytes

PARTS = ("train.txt", "valid.txt", "test.txt", "before.txt", "after.txt")
FILES = (*PARTS, "entity2id.txt", "relation2id.txt", "stat.txt", "facts.parquet")


def file_sums(source: Path) -> dict[str, str]:
    """Name -> sha256 of the unpacked content: of one file, or of those of a benchmark folder."""
    if source.is_file():
        return {source.name.removesuffix(".gz"): _sum(source)}
    return {name: _sum(path) for name in FILES if (path := find_file(source, name)) is not None}


def _sum(path: Path) -> str:
    return sha256(read_bytes(path)).hexdigest()

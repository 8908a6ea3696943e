"""The sums of data files, which a result keeps: whoever reads it later can tell whether theirs are the same."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from tangokg.quads.files import read_bytes

PARTS = ("train.txt", "valid.txt", "test.txt", "before.txt", "after.txt")
FILES = (*PARTS, "entity2id.txt", "relation2id.txt", "stat.txt", "facts.parquet")


def file_sums(source: Path) -> dict[str, str]:
    """Name -> sha256 of the unpacked content: of one file, or of those of a benchmark folder."""
    if source.is_file():
        return {source.name.removesuffix(".gz"): _sum(source)}
    places = {name: (source / name, source / f"{name}.gz") for name in FILES}
    found = {name: next((path for path in pair if path.is_file()), None) for name, pair in places.items()}
    return {name: _sum(path) for name, path in found.items() if path is not None}


def _sum(path: Path) -> str:
    return sha256(read_bytes(path)).hexdigest()

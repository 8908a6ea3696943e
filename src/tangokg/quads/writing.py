"""A data set -> a benchmark folder: train, valid, test, entity2id, relation2id, stat; before and after the parts."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from tangokg.config import to_toml
from tangokg.errors import DataError
from tangokg.quads.folders import read_folder
from tangokg.quads.static import StaticGraph
from tangokg.quads.values import Dataset
from tangokg.quads.vocabulary import Vocabulary


def write_folder(dataset: Dataset, folder: str | Path) -> None:
    """Write a data set as a benchmark folder, which :func:`find` reads as the same facts.

    All files are written to a temporary folder, read back, and only then renamed: a failure leaves nothing behind.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder} exists and is not empty; choose a new folder.")
    if (earliest := int(dataset.facts.t.min())) < 0:
        raise DataError(f"time {earliest} found; a benchmark folder counts times from 0. Add a constant to the column.")
    temporary = folder.absolute().with_name(f".{folder.absolute().name}.new-{os.getpid()}")
    temporary.mkdir(parents=True)
    try:
        _write_files(dataset, temporary)
        _check_same(dataset, read_folder(temporary, clock=dataset.clock))
        if folder.exists():
            folder.rmdir()
        os.replace(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write_files(dataset: Dataset, folder: Path) -> None:
    options = pa.csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    for name, part in dataset.parts.items():
        if len(part):
            columns = {"s": part.s, "r": part.r, "o": part.o, "t": part.t * part.clock.step}
            pa.csv.write_csv(pa.table(columns), folder / f"{name}.txt", options)
    for kind, names in (("entity", dataset.vocab.entities), ("relation", dataset.vocab.relations)):
        for name in names:
            if any(letter in name for letter in "\t\r\n"):
                raise DataError(
                    f"{kind} {name[:60]!r}: a name in a benchmark folder must have no tab and no line break."
                )
        lines = "".join(f"{name}\t{i}\n" for i, name in enumerate(names))
        (folder / f"{kind}2id.txt").write_text(lines, encoding="utf-8", newline="\n")
    if (static := dataset.train.static) is not None:
        _write_static(static, dataset.vocab, folder, options)
    stat = f"{dataset.vocab.num_entities}\t{dataset.vocab.num_relations}\n"
    (folder / "stat.txt").write_text(stat, encoding="utf-8")
    (folder / "clock.toml").write_text(to_toml(dataset.clock.to_dict()), encoding="utf-8")


def _write_static(static: StaticGraph, vocab: Vocabulary, folder: Path, options: pa.csv.WriteOptions) -> None:
    """``static.txt``: subject, relation and object of each edge; names that no fact has get the ids that follow."""
    s, r, o, extended = static.within(vocab)
    pa.csv.write_csv(pa.table({"s": s, "r": r, "o": o}), folder / "static.txt", options)
    further = (("entity", extended.entities, vocab.num_entities), ("relation", extended.relations, vocab.num_relations))
    for kind, names, known in further:
        lines = "".join(f"{name}\t{i}\n" for i, name in enumerate(names[known:], start=known))
        (folder / f"static_{kind}2id.txt").write_text(lines, encoding="utf-8", newline="\n")


def _check_same(dataset: Dataset, again: Dataset) -> None:
    """Raise an error if the folder does not read back as the same facts."""
    same = dataset.vocab == again.vocab and all(
        np.array_equal(getattr(dataset.facts, column), getattr(again.facts, column)) for column in "srot"
    )
    if not same:
        raise DataError("a name cannot be written to a benchmark folder: blanks or a mark at its ends are lost.")

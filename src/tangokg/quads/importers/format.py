"""Describes a published format: the reader of its files, and the meaning of its codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tangokg.quads.importers.gathered import Gathered
from tangokg.quads.reading import TableOptions
from tangokg.quads.values import Dataset, Quadruples


@dataclass(frozen=True)
class Format:
    """A published format: ``read`` adds what the files hold to a :class:`Gathered`."""

    about: str
    read: Callable[[Sequence[Path], Gathered, TableOptions], None]
    words: Mapping[str, str] = field(default_factory=dict)  # code of a relation -> its plain name
    blanks: frozenset[str] = frozenset({""})  # what stands in a cell without a name
    folders: bool = False  # whether a folder stands for the files in it
    unit: str | None = None  # one step of time, where nothing else is said
    label: Callable[[Sequence[Path], Gathered, str], None] | None = None  # names in a language
    split: Callable[[Quadruples, str], Dataset] | None = None  # the parts that a benchmark has, under a name
    name: Callable[[Path], str] | None = None  # of the set that a file or folder holds

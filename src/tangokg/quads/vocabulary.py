"""The names of entities and relations, and their ids: position in the list, fixed once given."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tangokg.errors import DataError, UnknownName
from tangokg.quads.words import Words, find_words

FEW_NAMES = 20  # up to which a message lists them all


@dataclass(frozen=True)
class Vocabulary:
    """Distinct names; the id of a name is its position."""

    entities: tuple[str, ...]
    relations: tuple[str, ...]

    def __post_init__(self) -> None:
        for kind, names, ids in (
            ("entity", self.entities, self._entity_ids),
            ("relation", self.relations, self._relation_ids),
        ):
            if len(ids) < len(names):
                twice = next(name for i, name in enumerate(names) if ids[name] != i)
                raise DataError(f"the {kind} name {twice!r} stands for two ids: names must be distinct.")

    @property
    def num_entities(self) -> int:
        return len(self.entities)

    @property
    def num_relations(self) -> int:
        return len(self.relations)

    def entity_id(self, name: str) -> int:
        """The id of an entity; case, and blanks written as underscores, may differ where that is unambiguous."""
        return _find("entity", name, self._entity_ids, lambda: self._loose_entity_ids)

    def relation_id(self, name: str) -> int:
        """The id of a relation, found as in :meth:`entity_id`."""
        return _find("relation", name, self._relation_ids, lambda: self._loose_relation_ids)

    def extend(self, entities: Iterable[str], relations: Iterable[str]) -> Vocabulary:
        """The vocabulary with new names appended in the given order; itself if no name is new."""
        new_entities, new_relations = (
            tuple(dict.fromkeys(name for name in names if name not in ids))
            for names, ids in ((entities, self._entity_ids), (relations, self._relation_ids))
        )
        if not new_entities and not new_relations:
            return self
        grown = object.__new__(Vocabulary)  # without looking again whether the names are distinct
        vars(grown).update(
            entities=self.entities + new_entities,
            relations=self.relations + new_relations,
            _entity_ids=self._entity_ids | dict(zip(new_entities, count(self.num_entities))),
            _relation_ids=self._relation_ids | dict(zip(new_relations, count(self.num_relations))),
        )
        if "words" in vars(self):
            vars(grown)["words"] = self.words.extend(new_entities)
        return grown

    def ids_of(self, entities: Iterable[str], relations: Iterable[str]) -> tuple[list[int], list[int]]:
        """The ids of names, which must match exactly."""
        return [self._entity_ids[name] for name in entities], [self._relation_ids[name] for name in relations]

    def save(self, folder: Path) -> None:
        """Write ``entities.parquet`` and ``relations.parquet``, one column ``name`` each."""
        folder.mkdir(parents=True, exist_ok=True)
        for file, names in (("entities", self.entities), ("relations", self.relations)):
            pq.write_table(pa.table({"name": pa.array(names, pa.string())}), folder / f"{file}.parquet")

    @classmethod
    def load(cls, folder: Path) -> Vocabulary:
        """Read a vocabulary written by :meth:`save`."""
        return cls(_read_names(folder / "entities.parquet"), _read_names(folder / "relations.parquet"))

    @cached_property
    def words(self) -> Words:
        """The words of the entities' names; found when first used, then kept up."""
        return find_words(self.entities)

    @cached_property
    def _entity_ids(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.entities)}

    @cached_property
    def _relation_ids(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.relations)}

    @cached_property
    def _loose_entity_ids(self) -> dict[str, int]:
        return _loose_ids(self.entities)

    @cached_property
    def _loose_relation_ids(self) -> dict[str, int]:
        return _loose_ids(self.relations)


def _fold(name: str) -> str:
    """Without case, underscores, and the angle brackets that YAGO puts around names."""
    return " ".join(name.strip("<>").replace("_", " ").split()).casefold()


def _loose_ids(names: tuple[str, ...]) -> dict[str, int]:
    """Ids by folded name; -1 if two names fold to the same text."""
    ids: dict[str, int] = {}
    for i, name in enumerate(names):
        folded = _fold(name)
        ids[folded] = -1 if folded in ids else i
    return ids


def _find(kind: str, name: str, ids: dict[str, int], loose_ids: Callable[[], dict[str, int]]) -> int:
    if name in ids:
        return ids[name]
    loose = loose_ids().get(_fold(name), -1)
    if loose < 0:
        raise UnknownName(kind, name, ids, hint=_hint(kind, ids))
    return loose


def _hint(kind: str, ids: dict[str, int]) -> str:
    """A hint that lists known names, and how to add others."""
    few = 0 < len(ids) <= FEW_NAMES
    known = f"Known are {', '.join(map(repr, ids))}." if few else f"{len(ids):,} names of this kind are known."
    return f"{known} Facts about new names are added with --observe FILE." if kind == "entity" else known


def _read_names(path: Path) -> tuple[str, ...]:
    try:
        names = pq.read_table(path).column("name").to_pylist()
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise DataError(f"{path}: no vocabulary can be read from it ({error}); expected one column 'name'.") from None
    if not all(isinstance(name, str) for name in names):
        raise DataError(f"{path}: the column 'name' holds values that are not text.")
    return tuple(names)

"""Edges that hold at all times: kept beside the facts, with names of their own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tangokg.quads.vocabulary import Vocabulary

Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class StaticGraph:
    """Distinct edges (s, r, o) without a time. No model uses them today; `data import` writes them beside the facts."""

    s: Ids
    r: Ids
    o: Ids
    vocab: Vocabulary

    def __len__(self) -> int:
        return len(self.s)

    def __repr__(self) -> str:
        vocab = self.vocab
        return f"StaticGraph({len(self):,} edges, {vocab.num_entities:,} entities, {vocab.num_relations:,} relations)"

    def within(self, vocab: Vocabulary) -> tuple[Ids, Ids, Ids, Vocabulary]:
        """``(s, r, o)`` in the ids of ``vocab``, and the vocabulary extended by the missing names."""
        extended = vocab.extend(self.vocab.entities, self.vocab.relations)
        entities, relations = extended.ids_of(self.vocab.entities, self.vocab.relations)
        entity, relation = np.array(entities, np.int64), np.array(relations, np.int64)
        return entity[self.s], relation[self.r], entity[self.o], extended

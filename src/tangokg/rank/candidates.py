"""Rank among given candidates: a list of its own for each question, such as sampled objects of the right type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tangokg.errors import DataError
from tangokg.quads.values import Ids
from tangokg.rank.listed import Listed, dated_key, listed
from tangokg.snapshots.windows import Queries

Candidates = Callable[[Queries, Tensor], Listed]  # (queries, t of each query) -> the candidates of each


@dataclass(frozen=True, eq=False)
class CandidateLists:
    """A list of candidates for each question (s, r, ?) at a time: :data:`Candidates` from a table of questions."""

    t: Tensor  # (T,) the times of questions, ascending
    key: Tensor  # (K,) (j, s, r) as one ascending number
    offset: Tensor  # (K + 1,) the list of question k is o[offset[k]:offset[k + 1]]
    o: Tensor  # (P,) int64 or int32
    num_entities: int  # of subjects and labels in the questions
    num_labels: int

    def __call__(self, queries: Queries, t: Tensor) -> Listed:
        """The list of each query; raises an error for a query without a list."""
        device = queries.s.device
        key = dated_key(self.t.to(device), t, queries.s, queries.r, self.num_entities, self.num_labels)
        known = (queries.s < self.num_entities) & (queries.r < self.num_labels)
        keys = self.key.to(device)
        place = torch.searchsorted(keys, key).clamp(max=max(0, len(keys) - 1))
        has_list = known & (keys.index_select(0, place) == key) if len(keys) else torch.zeros_like(known)
        if missing := int((~has_list).sum()):
            row = int((~has_list).nonzero()[0])
            s, r, when = int(queries.s[row]), int(queries.r[row]), float(t[row])
            raise DataError(
                f"candidates: {missing:,} of {len(queries):,} queries have no list, the first being (s={s}, r={r}, ?) "
                f"at time {when:g}. Give a list for each question (s, r, t), where r + R asks for the subject, or a "
                f"function of the queries."
            )
        offset = self.offset.to(device)
        return listed(self.o.to(device), offset.index_select(0, place), offset.index_select(0, place + 1))


def candidate_lists(s: Any, r: Any, t: Any, objects: Any) -> CandidateLists:
    """Lists of candidates by question: ``objects[k]`` has ids of entities for (s[k], r[k], ?) at time t[k].

    ``r`` is a label of 2R: r + R asks for the subject of relation r. ``objects`` is an array (K, C), or K arrays of any
    lengths. An object that stands in a list twice counts once; the true object need not stand in it.
    """
    s, r = (torch.as_tensor(np.asarray(ids)).long() for ids in (s, r))  # (K,) each
    times = torch.as_tensor(np.asarray(t)).double()  # (K,)
    if not len(s) == len(r) == len(times) == len(objects):
        raise DataError(
            f"candidates: {len(s):,} subjects, {len(r):,} relations, {len(times):,} times and {len(objects):,} lists; "
            f"expected as many of each."
        )
    observed = times.unique()
    size, labels = (int(ids.max()) + 1 if len(ids) else 1 for ids in (s, r))
    key, order = dated_key(observed, times, s, r, size, labels).sort()
    if len(key.unique()) < len(key):
        row = int(order[1:][key.diff() == 0][0])
        raise DataError(
            f"candidates: the question (s={int(s[row])}, r={int(r[row])}, ?) at time {float(times[row]):g} has two "
            f"lists. Give each question one list, their union."
        )
    lists = [_distinct(objects[k]) for k in order.tolist()]
    sizes = torch.tensor([0, *map(len, lists)], dtype=torch.int64)
    o = torch.from_numpy(np.concatenate([np.empty(0, dtype=np.int32), *lists]))
    return CandidateLists(observed, key, sizes.cumsum(0), o, size, labels)


def _distinct(objects: Any) -> Ids:
    """The ids of a list, each once, ascending; int32, which halves the memory of many lists, where they are."""
    ids = np.unique(np.asarray(objects))
    if len(ids) and (not np.issubdtype(ids.dtype, np.integer) or ids[0] < 0):
        raise DataError(f"candidates: a list begins with {ids[0]!r}; expected ids, whole numbers from 0 on.")
    return ids if ids.dtype == np.int32 else ids.astype(np.int64)


def list_candidates(candidates: Candidates, queries: Queries, t: Tensor, num_entities: int) -> Listed:
    """The list of each query, after checking that there is one for each and that all ids exist."""
    lists = candidates(queries, t)
    if len(lists.start) != len(queries):
        raise DataError(f"candidates: {len(lists.start):,} lists for {len(queries):,} queries; expected one for each.")
    largest = int(lists.o.max()) if len(lists.o) else 0
    if largest >= num_entities:
        raise DataError(
            f"candidates: a list holds the id {largest}, and entities have ids 0 to {num_entities - 1}. Give ids of "
            f"the vocabulary that the model was trained with."
        )
    return lists

"""Scores -> ranks of the true answers: counted, never sorted, under several filters in one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tangokg.errors import TrainingError
from tangokg.models.sparse import SparseScores
from tangokg.shards import Shard

CELLS = 2**20  # scores compared at once on a CPU, where the temporaries then stay in the cache

Pairs = tuple[Tensor, Tensor]  # (row, object), distinct: candidates of a query


@dataclass(frozen=True, eq=False)
class Ranks:
    """Rank of the true answer of each query, from 1; candidates with its score stand behind, around or before it."""

    optimistic: Tensor  # (B,) int64
    realistic: Tensor  # (B,) float64, the mean of the other two: the one that metrics use
    pessimistic: Tensor  # (B,) int64


def rank_answers(scores: Tensor, answer: Tensor, left_out: Mapping[str, Pairs]) -> dict[str, Ranks]:
    r"""Ranks of ``answer`` (B,) among ``scores`` (B, N), for each set of candidates left out (docs/maths.md, row M20).

    .. math::
        g = |\{o \notin F : x_o > x_a\}|, \quad e = |\{o \notin F : o \neq a,\; x_o = x_a\}|, \quad
        \mathrm{rank} = 1 + g, \; 1 + g + e/2, \; 1 + g + e

    All N candidates are counted once; each filter F, a list of distinct (row, object) pairs, is then taken off. The
    answer itself is never left out, whatever F says.
    """
    return ranks_of([count_rivals(scores, answer, left_out)])


@dataclass(frozen=True, eq=False)
class Rivals:
    """How many candidates score above the answer of each query, and how many others the same, under each filter."""

    greater: Mapping[str, Tensor]  # filter -> (B,) int64
    equal: Mapping[str, Tensor]
    damaged: Tensor  # (B,) bool: a score is not a number, and the counts mean nothing


def count_rivals(scores: Tensor, answer: Tensor, left_out: Mapping[str, Pairs]) -> Rivals:
    """The counts g and e of :func:`rank_answers`, without waiting for the device."""
    scores = scores.detach()
    true = scores.gather(1, answer[:, None])  # (B, 1)
    all_greater, all_equal, damaged = _count(scores, true)  # (B,) each
    at = {name: scores[pairs] for name, pairs in left_out.items()}
    return _take_off(Rivals({"": all_greater}, {"": all_equal}, damaged), true[:, 0], answer, left_out, at)


def count_divided_rivals(scores: Tensor, answer: Tensor, left_out: Mapping[str, Pairs], shard: Shard) -> Rivals:
    """The counts if each process has the scores of its own entities: the sum over all processes (row M63)."""
    scores, rows = scores.detach(), torch.arange(len(answer), device=answer.device)
    true, (local, _) = shard.at(scores, rows, answer), shard.place(answer)  # (B,)
    greater, equal, damaged = _count(scores, true[:, None])
    counts = [damaged.long()]
    for row, o in left_out.values():
        (mask, column), x_true = shard.place(o), true.index_select(0, row)  # (P,)
        x, other = scores[row, column], o != answer.index_select(0, row)
        counts.append(greater.index_add(0, row, ((x > x_true) & mask).long(), alpha=-1))
        counts.append((equal + ~local).index_add(0, row, ((x == x_true) & other & mask).long(), alpha=-1))
    damaged, *sums = shard.total(torch.stack(counts)).unbind()
    names = tuple(left_out)
    return Rivals(
        dict(zip(names, sums[::2], strict=True)),
        dict(zip(names, sums[1::2], strict=True)),
        (damaged > 0) | true.isnan(),
    )


def count_sparse_rivals(scores: SparseScores, answer: Tensor, left_out: Mapping[str, Pairs]) -> Rivals:
    """The same counts from sparse scores: each group's shared values are sorted once and searched by its queries."""
    true = scores.at(torch.arange(len(answer), device=answer.device), answer)  # (B,)
    greater, equal, damaged = _count_shared(scores, true)
    shared, x_true = scores.shared_at(scores.row, scores.o), true.index_select(0, scores.row)  # (P,)
    x = shared + scores.own
    greater = greater.index_add(0, scores.row, (x > x_true).long() - (shared > x_true).long())
    equal = equal.index_add(0, scores.row, (x == x_true).long() - (shared == x_true).long())
    damaged = damaged | (torch.zeros_like(answer).index_add(0, scores.row, x.isnan().long()) > 0)
    at = {name: scores.at(*pairs) for name, pairs in left_out.items()}
    return _take_off(Rivals({"": greater}, {"": equal - 1}, damaged), true, answer, left_out, at)


def count_listed_rivals(
    scores: Tensor | SparseScores, answer: Tensor, left_out: Mapping[str, Pairs], listed: Pairs
) -> Rivals:
    r"""The counts among the candidates C of each query alone, ``listed`` (row, object) (docs/maths.md, row M62).

    .. math:: g = |\{o \in C \setminus F : x_o > x_a\}|, \quad e = |\{o \in C \setminus F : o \neq a,\; x_o = x_a\}|

    The answer need not be in C.
    """
    (row, o), zero, rows = listed, torch.zeros_like(answer), torch.arange(len(answer), device=answer.device)
    if isinstance(scores, SparseScores):
        true, x, width = scores.at(rows, answer), scores.at(row, o), scores.num_entities  # (B,), (P,)
    else:
        true, x, width = scores[rows, answer], scores[row, o], scores.shape[1]
    x_true = true.index_select(0, row)  # (P,)
    above, same = x > x_true, (x == x_true) & (o != answer.index_select(0, row))
    damaged = true.isnan() | (zero.index_add(0, row, x.isnan().long()) > 0)
    greater, equal = {}, {}
    for name, (left_row, left_o) in left_out.items():
        counts = ~_is_in(row * width + o, left_row * width + left_o)  # (P,)
        greater[name] = zero.index_add(0, row, (above & counts).long())
        equal[name] = zero.index_add(0, row, (same & counts).long())
    return Rivals(greater, equal, damaged)


def _is_in(values: Tensor, members: Tensor) -> Tensor:
    """Whether each value is among ``members``, without waiting for the device."""
    if not len(members):
        return torch.zeros_like(values, dtype=torch.bool)
    members = members.sort().values
    return members.index_select(0, torch.searchsorted(members, values).clamp(max=len(members) - 1)) == values


def _count_shared(scores: SparseScores, true: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """How many shared scores are above ``true`` (B,), how many the same, and whether one is NaN: (B,) each."""
    values, number = torch.unique(torch.cat([scores.shared, true]), return_inverse=True)  # numbers in order of values
    size = len(scores.shared)
    key = (scores.group * len(values) + number[:size]).sort().values  # by group, then by value
    wanted = scores.group_of * len(values) + number[size:]
    start = torch.searchsorted(scores.group, scores.group_of)
    stop = torch.searchsorted(scores.group, scores.group_of, right=True)
    low, high = torch.searchsorted(key, wanted), torch.searchsorted(key, wanted, right=True)
    zeros = scores.num_entities - (stop - start)
    damaged = true.isnan() | values.isnan().any()
    return stop - high + zeros * (true < 0), high - low + zeros * (true == 0), damaged


def _take_off(
    rivals: Rivals, true: Tensor, answer: Tensor, left_out: Mapping[str, Pairs], at: Mapping[str, Tensor]
) -> Rivals:
    """The counts of all candidates minus those that each filter leaves out, whose scores are ``at``."""
    greater, equal = {}, {}
    for name, (row, o) in left_out.items():
        x, x_true = at[name], true.index_select(0, row)  # (P,)
        other = o != answer.index_select(0, row)
        greater[name] = rivals.greater[""].index_add(0, row, (x > x_true).long(), alpha=-1)
        equal[name] = rivals.equal[""].index_add(0, row, ((x == x_true) & other).long(), alpha=-1)
    return Rivals(greater, equal, rivals.damaged)


def ranks_of(parts: Sequence[Rivals]) -> dict[str, Ranks]:
    """The ranks that follow from the counts of consecutive parts; raises an error for a damaged score."""
    _refuse(torch.cat([part.damaged for part in parts]))
    ranks = {}
    for name in parts[0].greater:
        g = torch.cat([part.greater[name] for part in parts])
        e = torch.cat([part.equal[name] for part in parts])
        ranks[name] = Ranks(1 + g, 1 + g + e.double() / 2, 1 + g + e)
    return ranks


def _count(scores: Tensor, true: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """How many candidates score above the true one, how many others the same, and whether one is NaN: (B,) each."""
    rows = max(1, CELLS // scores.shape[1]) if scores.device.type == "cpu" else len(scores)
    exact = torch.float32 if scores.shape[1] <= 2**24 else torch.float64  # sums of ones up to N
    marks = scores.new_empty(min(rows, len(scores)), scores.shape[1], dtype=exact)
    greater, equal, largest = [], [], []
    for x, x_true in zip(torch.split(scores, rows), torch.split(true, rows), strict=True):
        buffer = marks[: len(x)]  # summing ones of a float takes a third of the time that summing truth values takes
        greater.append(torch.gt(x, x_true, out=buffer).sum(1))
        equal.append(torch.eq(x, x_true, out=buffer).sum(1))
        largest.append(x.amax(1))  # NaN where the row holds one
    return torch.cat(greater).long(), torch.cat(equal).long() - 1, torch.cat(largest).isnan()


def _refuse(damaged: Tensor) -> None:
    """NaN compares false with everything: it would pass as rank 1."""
    if number := int(damaged.sum()):
        raise TrainingError(
            f"scores: {number} of {len(damaged)} queries have a score that is not a number (NaN), and such "
            f"scores have no rank. Expected finite or infinite scores: the model's weights are probably damaged; go "
            f"back to an earlier checkpoint, or train again with a lower learning rate."
        )

"""Ranks counted from what is not zero are those of the scores written out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tangokg.errors import TrainingError
from tangokg.models.sparse import SparseScores
from tangokg.rank.ranks import count_sparse_rivals, rank_answers, ranks_of

B, G, N = 40, 3, 23


def some_pairs(rows: int, share: float, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Distinct (row, object) in ascending order with small whole values, so that many tie; some are 0."""
    row, o = (torch.rand(rows, N, generator=generator) < share).nonzero(as_tuple=True)
    return row, o, torch.randint(-2, 3, (len(row),), generator=generator).double()


def make_scores(seed: int, share: float = 0.4) -> SparseScores:
    generator = torch.Generator().manual_seed(seed)
    group_of = torch.randint(G, (B,), generator=generator)
    return SparseScores(N, group_of, *some_pairs(G, share, generator), *some_pairs(B, share, generator))


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_ranks_are_those_of_all_scores(share: float) -> None:
    scores, generator = make_scores(0, share), torch.Generator().manual_seed(1)
    answer = torch.randint(N, (B,), generator=generator)
    left_out = {"some": some_pairs(B, 0.3, generator)[:2], "none": (answer[:0], answer[:0])}
    found = ranks_of([count_sparse_rivals(scores, answer, left_out)])
    expected = rank_answers(scores.dense(), answer, left_out)
    for name in left_out:
        assert torch.equal(found[name].optimistic, expected[name].optimistic)
        assert torch.equal(found[name].pessimistic, expected[name].pessimistic)


def test_scores_written_out_are_shared_and_own_values_together() -> None:
    scores = make_scores(2)
    dense = torch.zeros(B, N, dtype=torch.float64)
    for b in range(B):
        for g, o, x in zip(scores.group, scores.shared_o, scores.shared, strict=True):
            dense[b, o] += x * (g == scores.group_of[b])
    for b, o, x in zip(scores.row, scores.o, scores.own, strict=True):
        dense[b, o] += x
    assert torch.equal(scores.dense(), dense)
    row, o = torch.cartesian_prod(torch.arange(B), torch.arange(N)).unbind(1)
    assert torch.equal(scores.at(row, o), dense.flatten())


@pytest.mark.parametrize("which", ["shared", "own"])
def test_nan_is_an_error(which: str) -> None:
    scores = make_scores(3)
    getattr(scores, which)[0] = torch.nan
    with pytest.raises(TrainingError, match="not a number"):
        ranks_of([count_sparse_rivals(scores, torch.zeros(B, dtype=torch.int64), {})])

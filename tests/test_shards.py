"""What processes divide adds up to what one has: here the processes are threads that meet at a barrier."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from meeting import together
from tangokg.decode.losses import filtered_cross_entropy
from tangokg.history.head import mix
from tangokg.rank.ranks import count_divided_rivals, rank_answers, ranks_of
from tangokg.shards import Shard

U, N = 6, 11


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def some_pairs(seed: int, share: float) -> tuple[Tensor, Tensor]:
    drawn = torch.rand(U, N, generator=torch.Generator().manual_seed(seed)) < share
    row, o = drawn.nonzero(as_tuple=True)
    return row, o


SIZES = pytest.mark.parametrize("size", [2, 3, 4])


@SIZES
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_sums_over_shards_are_those_of_the_whole(size: int, smoothing: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss with heads, and its gradients. In row 0 all but one are true, so that some shards have no other."""
    scores, (head_row, head_o) = 3 * random(U, N, seed=1), some_pairs(2, 0.3)
    value, row = random(len(head_row), seed=3), torch.arange(U).repeat(2)
    true_row, true_o = some_pairs(4, 0.3)
    true = (
        torch.cat([torch.zeros(N - 1).long(), true_row[true_row > 0]]),
        torch.cat([torch.arange(N - 1), true_o[true_row > 0]]),
    )
    answer = torch.cat([torch.zeros(U), torch.full((U,), N - 2)]).long()

    def loss_of(shard: Shard) -> tuple[Tensor, Tensor, Tensor]:
        x = (scores if shard.whole else scores[:, shard.rows]).clone().requires_grad_()
        v = value.clone().requires_grad_()
        mixed = mix(x, [(head_row, head_o, v)], shard)
        loss = filtered_cross_entropy(mixed, row, answer, true, smoothing, shard)
        of_x, of_v = torch.autograd.grad(loss, (x, v))
        return loss.detach(), of_x, of_v

    whole = loss_of(Shard())
    parts, _ = together(size, N, loss_of, monkeypatch)
    for loss, _, of_value in parts:
        torch.testing.assert_close(loss, whole[0])
        torch.testing.assert_close(of_value, whole[2])
    torch.testing.assert_close(torch.cat([part[1] for part in parts], dim=1), whole[1])


@SIZES
def test_ranks_counted_over_shards_are_those_of_all_scores(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, answer = random(U, N, seed=1).mul(2).round(), torch.tensor([0, 3, 3, 5, 7, 10])
    row, o = some_pairs(2, 0.4)
    left_out = {"raw": (row[:0], o[:0]), "some": (torch.cat([row, torch.arange(U)]), torch.cat([o, answer]))}
    some_row, some_o = torch.stack(left_out["some"]).unique(dim=1)
    left_out["some"] = some_row, some_o
    expected = rank_answers(scores, answer, left_out)

    def count(shard: Shard) -> Any:
        return ranks_of([count_divided_rivals(scores[:, shard.rows], answer, left_out, shard)])

    for found in together(size, N, count, monkeypatch)[0]:
        for name in left_out:
            assert torch.equal(found[name].optimistic, expected[name].optimistic)
            assert torch.equal(found[name].realistic, expected[name].realistic)


@SIZES
def test_rows_are_taken_from_wherever_they_are(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table, look, row = random(N, 3, seed=1), random(7, 3, seed=2), torch.tensor([4, 0, 10, 4, 4, 9, 1])

    def take(shard: Shard) -> tuple[Tensor, Tensor]:
        own = table[shard.rows].clone().requires_grad_()
        taken = shard.take(own, row)
        return taken.detach(), torch.autograd.grad((taken * look).sum(), own)[0]

    parts, meeting = together(size, N, take, monkeypatch)
    for taken, _ in parts:
        assert torch.equal(taken, table[row])
    expected = torch.zeros_like(table).index_add(0, row, look)
    torch.testing.assert_close(torch.cat([gradient for _, gradient in parts]), expected)
    assert meeting.sent == len(row) * 3  # not the table


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7])
def test_every_row_is_in_one_shard(size: int) -> None:
    parts = [Shard(rank, size, N) for rank in range(size)]
    assert torch.cat([torch.arange(N)[part.rows] for part in parts]).tolist() == list(range(N))
    lengths = [part.rows.stop - part.rows.start for part in parts]
    assert max(lengths) == parts[0].most <= min(lengths) + 1

"""What processes divide adds up to what one has: here the processes are threads that meet at a barrier."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any, TypeVar

import pytest
import torch
from torch import Tensor, distributed

from tangokg import shards
from tangokg.decode.losses import filtered_cross_entropy
from tangokg.history.head import mix
from tangokg.rank.ranks import count_divided_rivals, rank_answers, ranks_of
from tangokg.shards import Shard

U, N = 6, 11
Result = TypeVar("Result")


class Meeting:
    """Collective operations of some threads; ``sent`` counts the numbers that one of them gives to sums."""

    def __init__(self, size: int) -> None:
        self.barrier, self.given, self.sent = Barrier(size, timeout=60), dict[int, Tensor](), 0

    def all_reduce(self, x: Tensor, operation: Any = distributed.ReduceOp.SUM) -> None:
        place = self.barrier.wait()
        self.given[place] = x.clone()
        if place == 0:
            self.sent += x.numel()
        self.barrier.wait()
        every = torch.stack([self.given[i] for i in range(self.barrier.parties)])
        x.copy_(every.sum(0) if operation == distributed.ReduceOp.SUM else every.amax(0))
        self.barrier.wait()


def together(
    size: int, call: Callable[[Shard], Result], monkeypatch: pytest.MonkeyPatch
) -> tuple[list[Result], Meeting]:
    """What each of some processes makes of its shard."""
    meeting = Meeting(size)
    monkeypatch.setattr(shards.distributed, "all_reduce", meeting.all_reduce)
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(call, [Shard(rank, size, N) for rank in range(size)])), meeting


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
        return loss.detach(), *torch.autograd.grad(loss, (x, v))

    whole = loss_of(Shard())
    parts, _ = together(size, loss_of, monkeypatch)
    for loss, _, of_value in parts:
        torch.testing.assert_close(loss, whole[0])
        torch.testing.assert_close(of_value, whole[2])
    torch.testing.assert_close(torch.cat([part[1] for part in parts], dim=1), whole[1])


@SIZES
def test_ranks_counted_over_shards_are_those_of_all_scores(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, answer = random(U, N, seed=1).mul(2).round(), torch.tensor([0, 3, 3, 5, 7, 10])
    row, o = some_pairs(2, 0.4)
    left_out = {"raw": (row[:0], o[:0]), "some": (torch.cat([row, torch.arange(U)]), torch.cat([o, answer]))}
    left_out["some"] = tuple(torch.stack(left_out["some"]).unique(dim=1))  # type: ignore[assignment]
    expected = rank_answers(scores, answer, left_out)

    def count(shard: Shard) -> Any:
        return ranks_of([count_divided_rivals(scores[:, shard.rows], answer, left_out, shard)])

    for found in together(size, count, monkeypatch)[0]:
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

    parts, meeting = together(size, take, monkeypatch)
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

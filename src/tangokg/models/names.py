"""What the words of names say about embeddings: a ridge regression, solved after training (docs/maths.md, row M65)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tangokg.shards import WHOLE, Shard
from tangokg.snapshots.ranges import expand
from tangokg.snapshots.timeline import Timeline

WORDS = 4096  # at most, the most frequent: the normal equations have so many rows
SHARED = 2  # names that a word must be part of
RIDGE = 1.0  # lambda
ENTRIES = 2**18  # of X that are multiplied at once
NO_WORD = torch.iinfo(torch.int64).max  # fills up the table


class NameStates(nn.Module):
    r"""The part of an embedding that follows from the words of a name.

    .. math:: x_o W, \qquad W = (X^T X + \lambda I)^{-1} X^T (E - c)

    A row of X has :math:`1 / \sqrt n` at each of the n known words of a name: those that at least two of the entities
    that training saw share. A name without such a word has the part 0.
    """

    words: Tensor  # (V,) ascending, as :mod:`tangokg.quads.words` numbers them
    states: Tensor  # (V, D) W

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("words", torch.full((WORDS,), NO_WORD))
        self.register_buffer("states", torch.zeros(WORDS, dim))

    def forward(self, timeline: Timeline, entity: Tensor) -> Tensor:
        """:math:`x_o W` (M, D) of some entities (M,)."""
        return _product(*_entries(timeline, entity, self.words), len(entity), self.states)

    @torch.no_grad()
    def fit(self, timeline: Timeline, table: Tensor, seen: Tensor, prior: Tensor, shard: Shard = WHOLE) -> None:
        """Regress the rows of ``table`` E that are ``seen`` on their names; ``prior`` c is what is said of no name."""
        entity = seen.nonzero()[:, 0]
        words = _shared_words(timeline, entity)
        row, column, weight = _entries(timeline, entity, words)
        size = len(words)
        total = torch.bincount(column, weight, minlength=size)[:, None]  # (V, 1)
        own_column, own, own_weight = shard.own(column, entity[row], weight)
        target = shard.total(_product(own_column, own, own_weight, size, table)) - total * prior  # (V, D)
        moments = _moments(row, column, weight, size)  # (V, V)
        moments.diagonal().add_(RIDGE)
        self.words.fill_(NO_WORD)[:size] = words
        self.states.zero_()[:size] = torch.cholesky_solve(target, torch.linalg.cholesky(moments)).to(table.dtype)


def _words_of(timeline: Timeline, entity: Tensor) -> tuple[Tensor, Tensor]:
    """The words of some entities, and which of these each belongs to; read on the host, where all names are."""
    words, i = timeline.vocab.words, entity.cpu().numpy()
    start, stop = (torch.from_numpy(words.start.take(end, mode="clip")) for end in (i, i + 1))
    position, row = expand(start, stop)
    return torch.from_numpy(words.word[position.numpy()]).to(entity.device), row.to(entity.device)


def _shared_words(timeline: Timeline, entity: Tensor) -> Tensor:
    """(V,) the words that several of these entities share, ascending."""
    words, count = _words_of(timeline, entity)[0].unique(return_counts=True)
    words, count = words[count >= SHARED], count[count >= SHARED]
    most = count.argsort(descending=True, stable=True)[:WORDS]
    return torch.sort(words[most])[0]


def _entries(timeline: Timeline, entity: Tensor, words: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The entries of X, a row for each of these entities: row, ascending, column and weight."""
    word, row = _words_of(timeline, entity)
    known = torch.isin(word, words)
    row, column = row[known], torch.searchsorted(words, word[known])
    return row, column, torch.bincount(row, minlength=len(entity)).double().rsqrt()[row]


def _moments(row: Tensor, column: Tensor, weight: Tensor, size: int) -> Tensor:
    """:math:`X^T X` (V, V) of these entries."""
    start, stop = (torch.searchsorted(row, row, right=right) for right in (False, True))
    total = weight.new_zeros(size * size)
    for entry in torch.arange(len(row), device=row.device).split(ENTRIES):
        other, one = expand(start[entry], stop[entry])  # every two words of a name
        one = entry[one]
        total.index_add_(0, column[one] * size + column[other], weight[one] * weight[other])
    return total.view(size, size)


def _product(row: Tensor, column: Tensor, weight: Tensor, rows: int, table: Tensor) -> Tensor:
    """A sparse matrix of so many rows, times a table."""
    place, size = torch.stack([row, column]), (rows, len(table))
    matrix = torch.sparse_coo_tensor(place, weight.to(table.dtype), size, check_invariants=False)
    product: Tensor = torch.sparse.mm(matrix, table)
    return product

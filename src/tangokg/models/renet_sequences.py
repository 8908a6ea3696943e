"""The entities of each snapshot: the rows that RE-Net computes, and the last rows of each entity."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tangokg.snapshots.rows import Edges
from tangokg.snapshots.timeline import Timeline


@dataclass(frozen=True, eq=False)
class Appearances:
    """Row a is an entity in a snapshot that holds a fact of it; rows ascend with snapshot, then entity."""

    entity: Tensor  # (A,)
    snapshot: Tensor  # (A,)
    offset: Tensor  # (T + 1,) where the rows of each snapshot begin
    from_entities: Edges  # subjects by entity, objects by row, weight 1 / |N_t(o)|
    from_rows: Edges  # the same edges, subjects by row too
    key: Tensor  # (A,) (entity, snapshot) as one ascending number
    row: Tensor  # (A,) the row of each key
    num_snapshots: int

    def __len__(self) -> int:
        return len(self.entity)

    def last(self, entity: Tensor, known: Tensor, history: int) -> tuple[Tensor, Tensor]:
        """Rows (B, k) of each entity's last snapshots before ``known``, the oldest first, and how many (B,) there are.

        The remaining rows are padding.
        """
        first = entity * (self.num_snapshots + 1)
        start, end = torch.searchsorted(self.key, first), torch.searchsorted(self.key, first + known)
        length = (end - start).clamp(max=history)  # (B,)
        at = (end - length)[:, None] + torch.arange(history, device=end.device)  # (B, k)
        return self.row.index_select(0, at.clamp(max=len(self) - 1).flatten()).view_as(at), length


def find_appearances(timeline: Timeline) -> Appearances:
    """Number the entities of every snapshot; once for a timeline, see :func:`appearances_of`."""
    n, last = timeline.num_entities, len(timeline)
    j = torch.repeat_interleave(timeline.offset.diff())  # (E,)
    rows, o = torch.unique(j * n + timeline.o, return_inverse=True)  # (A,), (E,)
    s = torch.searchsorted(rows, j * n + timeline.s)  # reciprocals make every subject an object
    entity, snapshot = rows % n, rows // n
    weight = 1.0 / torch.bincount(o).double().index_select(0, o)
    row = torch.argsort(entity, stable=True)
    return Appearances(
        entity=entity,
        snapshot=snapshot,
        offset=torch.searchsorted(rows, torch.arange(last + 1, device=rows.device) * n),
        from_entities=Edges.in_orders(timeline.s, timeline.r, o, weight),
        from_rows=Edges.in_orders(s, timeline.r, o, weight),
        key=(entity * (last + 1) + snapshot)[row],
        row=row,
        num_snapshots=last,
    )


def appearances_of(timeline: Timeline) -> Appearances:
    """The rows of a timeline, derived once."""
    return timeline.derive(find_appearances)


def last_snapshots(known: Tensor, history: int) -> tuple[Tensor, Tensor]:
    """The last of ``known`` (W,) snapshots, the oldest first, and how many (W,) there are; then comes the last again.

    >>> last_snapshots(torch.tensor([1, 3]), 2)
    (tensor([[0, 0],
            [1, 2]]), tensor([1, 2]))
    """
    first = (known - history).clamp(min=0)
    at = first[:, None] + torch.arange(history, device=known.device)  # (W, k)
    return torch.minimum(at, (known - 1).clamp(min=0)[:, None]), known - first


def make_gru(inputs: int, dim: int, generator: torch.Generator) -> nn.GRU:
    """A GRU whose first weights are drawn from the generator, within 1 / sqrt(dim) of 0 as is usual."""
    gru = nn.GRU(inputs, dim, batch_first=True, device="meta").to_empty(device=torch.empty(0).device)  # draws nothing
    for weight in gru.parameters():
        nn.init.uniform_(weight, -(dim**-0.5), dim**-0.5, generator=generator)
    return gru


def run_gru(gru: nn.GRU, x: Tensor, length: Tensor) -> Tensor:
    """The state (B, D) after the first ``length`` (B,) steps of x (B, k, C); 0 after none.

    The padding after them is processed too and its states are dropped, so that no length has to be read from a GPU.
    """
    states = gru(x)[0]  # (B, k, D)
    at = (length - 1).clamp(min=0)[:, None, None].expand(-1, 1, states.shape[2])
    last: Tensor = states.gather(1, at)[:, 0] * (length > 0)[:, None]
    return last

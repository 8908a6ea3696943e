"""Graph + transition -> dz/dt of the entity states, frozen to one interval (docs/maths.md, rows M1 to M3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from tangokg.fields.fused import FusedField
from tangokg.fields.records import Back, Recorded
from tangokg.masks import dropout_mask
from tangokg.snapshots.blocks import Interval
from tangokg.snapshots.rows import Edges


@dataclass(frozen=True, eq=False)
class TangoField(Recorded):
    r"""dH/dt of one interval, bound to its graph: the convolution layers plus ``w`` times the transition layer.

    .. math::
        h^{l+1}_o &= h^l_o + \delta_l \, \mathrm{relu}\Big(W_l \frac{1}{|N(o)|}
            \sum_{(s, r) \in N(o)} h^l_s \odot h_r\Big)

        \frac{dh_o}{dt} &= h^L_o + w \, \mathrm{relu}\Big(\frac{1}{|N_T(o)|} \sum_{(s, r) \in N_T(o)}
            w_{trans} \odot (T_{sro} \, h_s \odot h_r)\Big)

    An entity without edges and transitions has dh/dt = h. Without ``identity`` the state itself is taken off the
    derivative, and such an entity stands still. W commutes with the mean: one product for each object, not each edge.
    Every row has its own length of interval ``dt``; solver time runs from 0 to 1.
    """

    at_once: ClassVar = False
    edge_rel: Tensor  # (E, D) h_r / |N(o)|, gathered once for the interval
    change_rel: Tensor  # (C, D) T h_r / |N_T(o)|

    def __call__(self, t: float | Tensor, z: Tensor) -> Tensor:
        h = z  # (rows, D)
        edges, changes, objects = self.graph.edges, self.graph.changes, self.graph.num_objects
        for layer, weight in enumerate(self.weights):
            message = h.index_select(0, edges.s) * self.edge_rel  # (E, D)
            mean = h.new_zeros(objects, h.shape[1]).index_add_(0, edges.o, message)  # (objects, D)
            update = torch.relu(mean @ weight.T)  # (objects, D)
            if self.masks:
                update = update * self.masks[layer]
            h = torch.cat([h[:objects] + self.deltas[layer] * update, h[objects:]])  # (rows, D)
        dz = h if self.identity else h - z
        if len(self.change_rel):
            message = z.index_select(0, changes.s) * self.change_rel  # (C, D)
            mean = torch.zeros_like(z).index_add_(0, changes.o, message)  # (rows, D)
            dz = dz + self.w * torch.relu(mean * self.w_trans)
        return dz * self.dt

    def others(self) -> tuple[Tensor, ...]:
        return (self.edge_rel, self.change_rel)

    def rebind(self, tensors: tuple[Tensor, ...]) -> TangoField:
        layers = len(self.weights)
        deltas, w_trans, edge_rel, change_rel = tensors[layers:]
        return replace(
            self, weights=tensors[:layers], deltas=deltas, w_trans=w_trans, edge_rel=edge_rel, change_rel=change_rel
        )

    def sent(self, layer: int) -> Iterator[tuple[slice, Edges, int]]:
        """What a layer sends along, the rows of its sums that it goes to, and its place in :meth:`others`."""
        objects = self.graph.num_objects
        yield slice(0, objects), self.graph.edges, 0
        if self.w and not layer:
            yield slice(objects, None), self.graph.changes, 1

    def send(self, layer: int, h: Tensor, sums: Tensor) -> None:
        for rows, edges, which in self.sent(layer):
            message = h.index_select(0, edges.s).mul_(self.others()[which])  # (E, D)
            sums[rows].zero_().index_add_(0, edges.o, message)

    def send_back(self, layer: int, h: Tensor, of_sums: Tensor, of_z: Tensor, back: Back) -> None:
        for rows, edges, which in self.sent(layer):
            message = of_sums[rows].index_select(0, edges.o)  # (E, D)
            back.others[which].addcmul_(message, h.index_select(0, edges.s))
            of_z.index_add_(0, edges.s, message.mul_(self.others()[which]))


class Derivative(nn.Module):
    """The parameters of :class:`TangoField`; ``bind`` freezes them to the graph of one interval."""

    fused: bool | None = None  # whether fields are a FusedField; None: on a GPU, where that is the faster of the two

    def __init__(
        self, dim: int, layers: int, w: float, dropout: float, identity: bool, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(torch.empty(dim, dim)) for _ in range(layers)])
        self.deltas = nn.Parameter(torch.full((layers,), 0.1))
        self.w_trans = nn.Parameter(torch.empty(dim).uniform_(-1.0, 1.0, generator=generator))
        for weight in self.weights:
            nn.init.xavier_normal_(weight, generator=generator)
        self.w, self.dropout, self.identity = w, dropout, identity

    def tensors(self) -> tuple[Tensor, ...]:
        """The parameters in the order of a field's: a weight for each layer, their deltas, w_trans."""
        return (*self.weights, self.deltas, self.w_trans)

    def bind(
        self,
        graph: Interval,
        h_rel: Tensor,
        time_unit: float | Tensor,
        masks: tuple[Tensor, ...] = (),
        longest: Tensor | None = None,
        tensors: tuple[Tensor, ...] | None = None,
    ) -> TangoField | FusedField:
        """The field of one interval; ``h_rel`` is (2R, D), ``time_unit`` the solver time of one unit of the data's, and
        ``longest`` the length of an interval, in the data's unit, beyond which it is not followed.

        ``masks``, of :meth:`share_masks`, are the dropout on the aggregated messages, constant along the interval;
        ``tensors``, shaped as :meth:`tensors`, stand in for the parameters.
        """
        dt = graph.dt if longest is None else graph.dt.clamp(max=longest)
        dt = torch.mul(dt, time_unit, out=h_rel.new_empty(len(dt)))[:, None]
        *weights, deltas, w_trans = self.tensors() if tensors is None else tensors
        if h_rel.is_cuda if self.fused is None else self.fused:
            return FusedField(tuple(weights), deltas, w_trans, dt, graph, self.w, self.identity, masks, h_rel)
        edge_rel, change_rel = _weighted(h_rel, graph.edges), h_rel[:0]
        if self.w:
            change_rel = _weighted(h_rel, graph.changes)
        return TangoField(
            tuple(weights), deltas, w_trans, dt, graph, self.w, self.identity, masks, edge_rel, change_rel
        )

    def draw_masks(self, graphs: Sequence[Interval], like: Tensor, generator: torch.Generator | None) -> Tensor:
        """Dropout masks for all layers of all graphs in one draw, one after the other; no rows without a generator."""
        drawn = generator is not None and self.dropout
        rows = len(self.weights) * sum(graph.num_objects for graph in graphs) if drawn else 0
        mask = like.new_empty(rows, like.shape[1])
        return mask if generator is None else dropout_mask(mask, self.dropout, generator)

    def share_masks(self, masks: Tensor, graphs: Sequence[Interval]) -> list[tuple[Tensor, ...]]:
        """The masks (objects, D) of each layer, for each graph."""
        if not len(masks):
            return [()] * len(graphs)
        layers = len(self.weights)
        each = masks.split([graph.num_objects for graph in graphs for _ in range(layers)])
        return [each[i * layers : (i + 1) * layers] for i in range(len(graphs))]


def _weighted(h_rel: Tensor, edges: Edges) -> Tensor:
    """(E, D) the relation of each edge times its weight."""
    return h_rel.index_select(0, edges.r) * edges.weight[:, None].to(h_rel.dtype)

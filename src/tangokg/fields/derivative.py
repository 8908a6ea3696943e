"""Graph + transition -> dz/dt of the entity states, frozen to one interval (docs/maths.md, rows M1 to M3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from tangokg.fields.fused import FusedField
from tangokg.fields.masks import dropout_mask
from tangokg.fields.records import Record
from tangokg.fields.steps import advance, combine, part, retreat
from tangokg.snapshots.blocks import Interval
from tangokg.snapshots.rows import Edges


@dataclass(frozen=True, eq=False)
class TangoField:
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

    weights: tuple[Tensor, ...]  # (D, D) for each layer
    deltas: Tensor  # (L,)
    w_trans: Tensor  # (D,) the diagonal of W_trans
    edge_rel: Tensor  # (E, D) h_r / |N(o)|, gathered once for the interval
    change_rel: Tensor  # (C, D) T h_r / |N_T(o)|
    dt: Tensor  # (rows, 1) in solver time
    graph: Interval
    w: float
    identity: bool
    masks: tuple[Tensor, ...]  # (objects, D) for each layer, or none

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

    def evaluate(self, z: Tensor) -> tuple[Tensor, Record]:
        """The same, and what :meth:`pull_back` needs."""
        edges, changes, objects = self.graph.edges, self.graph.changes, self.graph.num_objects
        states, means, updates = [z[:objects]], [], []
        for layer, weight in enumerate(self.weights):
            message = states[-1].index_select(0, edges.s).mul_(self.edge_rel)  # (E, D)
            means.append(torch.zeros_like(states[-1]).index_add_(0, edges.o, message))
            updates.append(means[-1] @ weight.T)
            states.append(advance(states[-1], updates[-1], self.mask(layer), self.deltas, layer))
        change = z[:0]
        if self.w:
            message = z.index_select(0, changes.s).mul_(self.change_rel)  # (C, D)
            change = torch.zeros_like(z).index_add_(0, changes.o, message)
        dz = combine(z, states[-1], change, self.w_trans, self.dt, self.w, self.identity)
        return dz, Record(z, states, means, updates, change)

    def pull_back(self, record: Record, grad: Tensor, sums: tuple[Tensor, ...]) -> Tensor:
        """The gradient of z for that of dz/dt; those of :meth:`tensors` are added to ``sums``."""
        edges, changes, objects = self.graph.edges, self.graph.changes, self.graph.num_objects
        *of_weights, of_deltas, of_w_trans, of_edge_rel, of_change_rel = sums
        same = (record.change, self.w_trans, self.dt, self.w, self.identity)
        of_z, g, slope = part(grad, of_w_trans, objects, *same)
        if self.w:
            message = slope.index_select(0, changes.o)  # (C, D)
            of_change_rel.addcmul_(message, record.z.index_select(0, changes.s))
            of_z.index_add_(0, changes.s, message.mul_(self.change_rel))
        for layer in reversed(range(len(self.weights))):
            slope = retreat(g, of_deltas, record.updates[layer], self.mask(layer), self.deltas, layer)
            of_weights[layer].addmm_(slope.T, record.means[layer])
            message = (slope @ self.weights[layer]).index_select(0, edges.o)  # (E, D)
            of_edge_rel.addcmul_(message, record.states[layer].index_select(0, edges.s))
            g.index_add_(0, edges.s, message.mul_(self.edge_rel))
        of_z[:objects].add_(g)
        return of_z

    def mask(self, layer: int) -> Tensor | None:
        return self.masks[layer] if self.masks else None

    def tensors(self) -> tuple[Tensor, ...]:
        """All that a gradient flows to, besides the state."""
        return (*self.weights, self.deltas, self.w_trans, self.edge_rel, self.change_rel)

    def rebind(self, tensors: tuple[Tensor, ...]) -> TangoField:
        """The same field on other tensors."""
        layers = len(self.weights)
        deltas, w_trans, edge_rel, change_rel = tensors[layers:]
        return replace(
            self, weights=tensors[:layers], deltas=deltas, w_trans=w_trans, edge_rel=edge_rel, change_rel=change_rel
        )


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
        longest: float | Tensor = torch.inf,
        tensors: tuple[Tensor, ...] | None = None,
    ) -> TangoField | FusedField:
        """The field of one interval; ``h_rel`` is (2R, D), ``time_unit`` the solver time of one unit of the data's, and
        ``longest`` the length of an interval, in the data's unit, beyond which it is not followed.

        ``masks``, of :meth:`share_masks`, are the dropout on the aggregated messages, constant along the interval;
        ``tensors``, shaped as :meth:`tensors`, stand in for the parameters.
        """
        dt = (graph.dt.clamp(max=longest) * time_unit).to(h_rel.dtype)[:, None]
        *weights, deltas, w_trans = self.tensors() if tensors is None else tensors
        if h_rel.is_cuda if self.fused is None else self.fused:
            return FusedField(tuple(weights), deltas, w_trans, h_rel, dt, graph, self.w, self.identity, masks)
        return TangoField(
            weights=tuple(weights),
            deltas=deltas,
            w_trans=w_trans,
            edge_rel=_weighted(h_rel, graph.edges),
            change_rel=_weighted(h_rel, graph.changes) if self.w else h_rel[:0],
            dt=dt,
            graph=graph,
            w=self.w,
            identity=self.identity,
            masks=masks,
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

"""Graph + transition -> dz/dt of the entity states, frozen to one interval (docs/maths.md, rows M1 to M3)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from tangokg.fields.masks import dropout_mask
from tangokg.snapshots.blocks import Interval


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
        objects = self.graph.num_objects
        for layer, weight in enumerate(self.weights):
            message = h.index_select(0, self.graph.s) * self.edge_rel  # (E, D)
            mean = h.new_zeros(objects, h.shape[1]).index_add_(0, self.graph.o, message)  # (objects, D)
            update = torch.relu(mean @ weight.T)  # (objects, D)
            if self.masks:
                update = update * self.masks[layer]
            h = torch.cat([h[:objects] + self.deltas[layer] * update, h[objects:]])  # (rows, D)
        dz = h if self.identity else h - z
        if len(self.change_rel):
            message = z.index_select(0, self.graph.change_s) * self.change_rel  # (C, D)
            mean = torch.zeros_like(z).index_add_(0, self.graph.change_o, message)  # (rows, D)
            dz = dz + self.w * torch.relu(mean * self.w_trans)
        return dz * self.dt

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

    def bind(
        self,
        graph: Interval,
        h_rel: Tensor,
        time_unit: float | Tensor,
        generator: torch.Generator | None = None,
        longest: float | Tensor = torch.inf,
    ) -> TangoField:
        """The field of one interval; ``h_rel`` is (2R, D), ``time_unit`` the solver time of one unit of the data's, and
        ``longest`` the length of an interval, in the data's unit, beyond which it is not followed.

        With a generator (training) the dropout masks on the aggregated messages are drawn here, once.
        """
        edge_rel = h_rel.index_select(0, graph.r) * graph.inverse_degree[:, None].to(h_rel.dtype)  # (E, D)
        changes = graph.change_r if self.w else graph.change_r[:0]
        weight = graph.change_weight[: len(changes), None].to(h_rel.dtype)
        masks: tuple[Tensor, ...] = ()
        if generator is not None and self.dropout:
            like = h_rel.new_empty(graph.num_objects, h_rel.shape[1])
            masks = tuple(dropout_mask(like, self.dropout, generator) for _ in self.weights)
        return TangoField(
            weights=tuple(self.weights),
            deltas=self.deltas,
            w_trans=self.w_trans,
            edge_rel=edge_rel,
            change_rel=h_rel.index_select(0, changes) * weight,  # (C, D)
            dt=(graph.dt.clamp(max=longest) * time_unit).to(h_rel.dtype)[:, None],
            graph=graph,
            w=self.w,
            identity=self.identity,
            masks=masks,
        )

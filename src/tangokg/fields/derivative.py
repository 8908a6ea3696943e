"""Graph + transition -> dz/dt of the entity states, frozen to one interval (docs/maths.md, rows M1 to M3).

This is the form to read, and the one that tests compare with. Training runs the same function in another form, which
:meth:`TangoField.fast` gives and :mod:`tangokg.fields.fast` holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from tangokg.snapshots.blocks import Interval
from tangokg.snapshots.rows import Edges

if TYPE_CHECKING:
    from tangokg.fields.fast import FastField


def sum_messages(h: Tensor, h_rel: Tensor, edges: Edges) -> Tensor:
    r""":math:`\sum_{(s, r) \in N(o)} w_{sro} \, h_s \odot h_r` over the edges into each row o: (rows, D)."""
    message = h.index_select(0, edges.s) * h_rel.index_select(0, edges.r) * edges.weight[:, None].to(h.dtype)  # (E, D)
    return torch.zeros_like(h).index_add_(0, edges.o, message)


@dataclass(frozen=True, eq=False)
class TangoField:
    r"""dH/dt of one interval, bound to its graph: the convolution layers plus ``w`` times the transition layer.

    .. math::
        h^{l+1}_o &= h^l_o + \delta_l \, \mathrm{relu}\Big(W_l \frac{1}{|N(o)|}
            \sum_{(s, r) \in N(o)} h^l_s \odot h_r\Big)

        \frac{dh_o}{dt} &= h^L_o + w \, \mathrm{relu}\Big(w_{trans} \odot \frac{1}{|N_T(o)|}
            \sum_{(s, r) \in N_T(o)} T_{sro} \, h_s \odot h_r\Big)

    This is the paper's form, ``identity``: an entity without edges and transitions has dh/dt = h. Without it (the
    library's default) the state itself is taken off the derivative, and such an entity stands still. The transition
    layer reads the state itself, not what the convolution made of it. W commutes with the mean: one product for each
    object, not for each edge. Weights make sums means: edges have 1 / \|N(o)\|, changes T / \|N_T(o)\|. All is
    multiplied by the length ``dt`` of each row's interval, so that solver time runs from 0 to 1.
    """

    weights: tuple[Tensor, ...]  # (D, D) for each layer
    deltas: Tensor  # (L,)
    w_trans: Tensor  # (D,) the diagonal of W_trans
    relations: Tensor  # (2R, D)
    dt: Tensor  # (rows, 1) in solver time
    graph: Interval
    w: float
    identity: bool
    masks: Tensor | tuple[None, ...]  # (L, objects, D) dropout on the aggregated messages of each layer, or none

    def __call__(self, t: float | Tensor, z: Tensor) -> Tensor:
        h = z  # (rows, D)
        for layer, weight in enumerate(self.weights):
            mean = sum_messages(h, self.relations, self.graph.edges)  # (rows, D)
            h = h + self.deltas[layer] * self._dropped(torch.relu(mean @ weight.T), layer)  # (rows, D)
        mean = sum_messages(z, self.relations, self.graph.changes)  # (rows, D)
        dz = h + self.w * torch.relu(self.w_trans * mean)  # (rows, D)
        return (dz if self.identity else dz - z) * self.dt

    def _dropped(self, update: Tensor, layer: int) -> Tensor:
        """The update (rows, D) after dropout; rows after the objects have none to drop."""
        mask = self.masks[layer]
        return update if mask is None else update * pad(mask, (0, 0, 0, len(update) - self.graph.num_objects))

    def tensors(self) -> tuple[Tensor, ...]:
        """All that a gradient flows to, besides the state."""
        return (*self.weights, self.deltas, self.w_trans, self.relations)

    def rebind(self, tensors: tuple[Tensor, ...]) -> Self:
        """The same field, graph and all, on other tensors."""
        *weights, deltas, w_trans, relations = tensors
        return replace(self, weights=tuple(weights), deltas=deltas, w_trans=w_trans, relations=relations)

    def fast(self, fused: bool | None = None) -> FastField:
        """The same function with its gradient written out; ``fused`` is the form for a GPU (None: by the device)."""
        from tangokg.fields.fast import Fused, Gathered  # which are made from this form

        graph, h_rel = self.graph, self.relations
        edges = (graph.both if self.w else graph.edges, *[graph.edges] * (len(self.weights) - 1))
        if h_rel.is_cuda if fused is None else fused:
            return Fused(**vars(self), edges=edges)
        parts = (graph.edges, graph.changes) if self.w else (graph.edges,)
        rows = [h_rel.index_select(0, part.r) * part.weight[:, None].to(h_rel.dtype) for part in parts]
        return Gathered(**vars(self) | {"relations": torch.cat(rows), "edges": edges})


class Derivative(nn.Module):
    """The parameters of :class:`TangoField`; ``bind`` freezes them to the graph of one interval."""

    def __init__(self, dim: int, layers: int, w: float, identity: bool, generator: torch.Generator) -> None:
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(torch.empty(dim, dim)) for _ in range(layers)])
        self.deltas = nn.Parameter(torch.full((layers,), 0.1))
        self.w_trans = nn.Parameter(torch.empty(dim).uniform_(-1.0, 1.0, generator=generator))
        for weight in self.weights:
            nn.init.xavier_normal_(weight, generator=generator)
        self.w, self.identity = w, identity

    def bind(
        self,
        graph: Interval,
        h_rel: Tensor,
        time_unit: float | Tensor,
        masks: Tensor | None = None,
        longest: Tensor | None = None,
        tensors: tuple[Tensor, ...] | None = None,
    ) -> TangoField:
        """The field of one interval; ``h_rel`` is (2R, D), ``time_unit`` the solver time of one unit of the data's, and
        ``longest`` the length of an interval, in the data's unit, beyond which it is not followed.

        ``masks`` (L objects, D), layer after layer, are constant along the interval, and without rows nothing is
        dropped. ``tensors``, a weight for each layer, their deltas and w_trans, stand in for the parameters.
        """
        dt = graph.dt if longest is None else graph.dt.clamp(max=longest)
        dt = torch.mul(dt, time_unit, out=h_rel.new_empty(len(dt)))[:, None]
        *weights, deltas, w_trans = tensors or (*self.weights, self.deltas, self.w_trans)
        dropped: Tensor | tuple[None, ...] = (None,) * len(weights)
        if masks is not None and len(masks):
            dropped = masks.view(len(weights), graph.num_objects, -1)
        return TangoField(tuple(weights), deltas, w_trans, h_rel, dt, graph, self.w, self.identity, dropped)

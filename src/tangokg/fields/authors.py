"""dz/dt of entities and relations as the authors' program has it, on all rows (docs/maths.md, row M31)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tangokg.fields.masks import dropout
from tangokg.snapshots.rows import Edges


class AuthorsDerivative(nn.Module):
    r"""The derivative in the authors' form, of entities (N, D) and relations (2R, D).

    .. math::
        h^{l+1}_s &= h^l_s + \delta \, \mathrm{relu}\Big(\mathrm{BN}_l\Big(b_l + W_l \sum_{(r, o) \in N(s)}
            \frac{h^l_o \odot h^l_r}{\sqrt{|N(s)| \, |N(o)|}}\Big)\Big), \qquad h^{l+1}_r = (1 + \delta) \, h^l_r

        \frac{dh_s}{dt} &= h^L_s + w \, \mathrm{relu}\Big(\mathrm{BN}\Big(b + w_{trans} \odot \sum_{(r, o) \in N_T(s)}
            \frac{T_{sro} \, h_o \odot h_r}{\sqrt{|N_T(s)| \, |N_T(o)|}}\Big)\Big), \qquad
        \frac{dh_r}{dt} = \big((1 + \delta)^L + w\big) \, h_r

    Messages go from object to subject, with the row of the relation as it stands. Batch normalisation BN and dropout,
    drawn anew at each call, make this no function of the state while it is trained: gradients are those of autograd
    through the steps of the solver. Biases and normalisation reach every row, so that no entity is untouched.
    """

    def __init__(self, dim: int, layers: int, w: float, dropout: float, generator: torch.Generator) -> None:
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(torch.empty(dim, dim)) for _ in range(layers)])
        self.biases = nn.ParameterList([nn.Parameter(torch.zeros(dim)) for _ in range(layers)])
        self.norms = nn.ModuleList([nn.BatchNorm1d(dim) for _ in range(layers)])
        self.delta = nn.Parameter(torch.tensor(0.1))
        for weight in self.weights:
            nn.init.xavier_normal_(weight, generator=generator)
        self.w_trans = nn.Parameter(torch.empty(dim).uniform_(-1.0, 1.0, generator=generator))
        self.bias_trans = nn.Parameter(torch.zeros(dim))
        self.norm_trans = nn.BatchNorm1d(dim)
        self.w, self.dropout = w, dropout

    def forward(
        self, h: Tensor, h_rel: Tensor, edges: Edges, changes: Edges, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """``(dh/dt, dh_rel/dt)``; the weights of the edges are those of :func:`symmetric`."""
        x, rel = h, h_rel
        for weight, bias, norm in zip(self.weights, self.biases, self.norms, strict=True):
            total = dropout(_to_subjects(x, rel, edges) @ weight.T, self.dropout, generator)  # (N, D)
            x, rel = x + self.delta * torch.relu(norm(total + bias)), rel + self.delta * rel
        if self.w:
            total = _to_subjects(h, h_rel, changes) * self.w_trans  # (N, D)
            x = x + self.w * torch.relu(self.norm_trans(total + self.bias_trans))
            rel = rel + self.w * h_rel
        return x, rel


def _to_subjects(h: Tensor, h_rel: Tensor, edges: Edges) -> Tensor:
    """(N, D) for each subject the weighted sum of object times relation."""
    message = h.index_select(0, edges.o) * h_rel.index_select(0, edges.r) * edges.weight[:, None].to(h.dtype)  # (E, D)
    return torch.zeros_like(h).index_add_(0, edges.s, message)


def symmetric(s: Tensor, r: Tensor, o: Tensor, num_entities: int, sign: Tensor | None = None) -> Edges:
    """Edges with weight 1 / sqrt(|N(s)| |N(o)|), times their sign; each edge stands there with its reciprocal."""
    degree = torch.bincount(s, minlength=num_entities).double()
    weight = (degree.index_select(0, s) * degree.index_select(0, o)).rsqrt()
    return Edges(s, r, o, weight if sign is None else weight * sign)

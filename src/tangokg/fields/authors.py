"""dz/dt of entities and relations as in the authors' program, on all rows (docs/maths.md, row M31)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tangokg.fields.derivative import sum_messages
from tangokg.masks import dropout, dropout_mask
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

    Each departure from the paper has a switch. With ``messages_to="object"``, ``weighting="mean"``,
    ``masks_of="interval"`` and the others false this is the derivative of rows M1 to M3.
    """

    def __init__(
        self,
        dim: int,
        layers: int,
        w: float,
        dropout: float,
        generator: torch.Generator,
        *,
        messages_to: str = "subject",  # or object
        weighting: str = "symmetric",  # 1 / sqrt(|N(s)| |N(o)|); or mean: 1 / |N| of the receiver
        batch_norm: bool = True,  # BN and b, in the layers and in the transition
        masks_of: str = "stage",  # dropout is drawn at each call; or interval: given, by draw_masks
        shared_delta: bool = True,  # one delta; or one for each layer
        moving_relations: bool = True,  # or they stand still, and every layer sees them as they are
    ) -> None:
        super().__init__()
        norms = layers if batch_norm else 0
        self.weights = nn.ParameterList([nn.Parameter(torch.empty(dim, dim)) for _ in range(layers)])
        self.biases = nn.ParameterList([nn.Parameter(torch.zeros(dim)) for _ in range(norms)])
        self.norms = nn.ModuleList([nn.BatchNorm1d(dim) for _ in range(norms)])
        self.delta = nn.Parameter(torch.tensor(0.1) if shared_delta else torch.full((layers,), 0.1))
        for weight in self.weights:
            nn.init.xavier_normal_(weight, generator=generator)
        self.w_trans = nn.Parameter(torch.empty(dim).uniform_(-1.0, 1.0, generator=generator))
        self.bias_trans = nn.Parameter(torch.zeros(dim)) if batch_norm else None
        self.norm_trans = nn.BatchNorm1d(dim) if batch_norm else None
        self.w, self.dropout = w, dropout
        self.messages_to, self.weighting = messages_to, weighting
        self.masks_of, self.moving_relations = masks_of, moving_relations

    def forward(
        self,
        h: Tensor,
        h_rel: Tensor,
        edges: Edges,
        changes: Edges,
        generator: torch.Generator | None,
        masks: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """``(dh/dt, dh_rel/dt)``; edges are those of :meth:`bind`, ``masks`` (L, N, D) take the place of drawn ones."""
        x, rel = h, h_rel
        deltas = self.delta.unbind() if self.delta.ndim else (self.delta,) * len(self.weights)
        for layer, (weight, delta) in enumerate(zip(self.weights, deltas, strict=True)):
            total = sum_messages(x, rel, edges) @ weight.T  # (N, D)
            total = dropout(total, self.dropout, generator) if masks is None else total * masks[layer]
            if self.norms:
                total = self.norms[layer](total + self.biases[layer])
            x = x + delta * torch.relu(total)
            if self.moving_relations:
                rel = rel + delta * rel
        if self.w:
            total = sum_messages(h, h_rel, changes) * self.w_trans  # (N, D)
            if self.norm_trans is not None and self.bias_trans is not None:
                total = self.norm_trans(total + self.bias_trans)
            x = x + self.w * torch.relu(total)
            rel = rel + self.w * h_rel
        return x, rel if self.moving_relations else torch.zeros_like(h_rel)

    def bind(self, s: Tensor, r: Tensor, o: Tensor, num_entities: int, sign: Tensor | None = None) -> Edges:
        """Edges from sender to receiver with their weight, times their sign; each stands there with its reciprocal."""
        sender, receiver = (o, s) if self.messages_to == "subject" else (s, o)
        degree = torch.bincount(receiver, minlength=num_entities).double()
        weight = degree.index_select(0, receiver).reciprocal()  # (E,)
        if self.weighting == "symmetric":
            weight = (degree.index_select(0, receiver) * degree.index_select(0, sender)).rsqrt()
        return Edges(sender, r, receiver, weight if sign is None else weight * sign)

    def draw_masks(self, h: Tensor, generator: torch.Generator | None) -> Tensor | None:
        """Dropout (L, N, D) for an interval, where it is drawn once for it and not at each call."""
        if generator is None or not self.dropout or self.masks_of == "stage":
            return None
        return dropout_mask(h.new_empty(len(self.weights), *h.shape), self.dropout, generator)

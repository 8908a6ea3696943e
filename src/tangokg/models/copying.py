"""Logits for what stood with (s, r) before: a copy mode, as sparse (row, object, value) triples."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tangokg.decode.states import Sparse
from tangokg.history import occurrences_of, past_of
from tangokg.history.growth import grow_by_mean
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows

START = (0.6, 0.2, 0.4, 2.0)  # a, c, b, log tau
GAIN = 5.0


class CopyLogits(nn.Module):
    r"""How lately and how often a fact was seen, weighed for each relation (docs/maths.md, row M15).

    .. math:: x_o = 5 \, (a_r \, e^{-\mathrm{age} / \tau_r} + c_r \log(1 + \mathrm{count}) + b_r)

    for the objects o that stood with (s, r) in the known snapshots, 0 for all others; the age of the last occurrence
    counts in median gaps between snapshots. The factor lets these few weights learn as fast as the many of the decoder.
    At the start the model is a counter, and the decoder learns what counting leaves over.
    """

    def __init__(self, num_labels: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.tensor(START).repeat(num_labels, 1))  # (2R, 4)

    def forward(self, timeline: Timeline, windows: Windows, queries: Queries, gap: Tensor) -> Sparse:
        occurrences = occurrences_of(timeline)
        known = windows.known.index_select(0, queries.window)
        past = past_of(occurrences, queries.s * occurrences.num_labels + queries.r, known)
        t = windows.t.index_select(0, queries.window).index_select(0, past.row)
        age = ((t - timeline.t.index_select(0, past.last)) / gap).to(self.weights.dtype)  # (P,)
        weights = grow_by_mean(self.weights, timeline.num_relations)
        of_row = weights.index_select(0, queries.r.index_select(0, past.row))  # (P, 4)
        recency, frequency, bias, log_tau = of_row.unbind(1)
        count = past.count.to(self.weights.dtype)
        value = recency * torch.exp(-age * torch.exp(-log_tau)) + frequency * torch.log1p(count) + bias  # (P,)
        return past.row, past.o, GAIN * value

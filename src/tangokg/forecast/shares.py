"""A model's share of each object of (s, r), for many pairs at many times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tangokg.forecast.known import Known
from tangokg.models import Model
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows

CELLS = 2**22  # scores held at once
TIMES = 16  # distinct windows encoded at once


@dataclass(frozen=True, eq=False)
class Best:
    """The objects with the largest shares for each pair, the largest first."""

    o: Tensor  # (M, C)
    share: Tensor  # (M, C) float64


def best_shares(model: Model, history: Timeline | Known, pair: Tensor, known: Tensor, t: Tensor, top: int) -> Best:
    """The ``top`` objects of each pair s * 2R + r at the step ``t`` (M,), from the snapshots ``0 .. known - 1``."""
    top = min(top, history.num_entities)
    o = torch.zeros(len(pair), top, dtype=torch.int64)
    share = torch.zeros(len(pair), top, dtype=torch.float64)
    for rows, p in _shares(model, history, pair, known, t):
        best = torch.topk(p, top)
        o[rows], share[rows] = best.indices.cpu(), best.values.cpu().double()
    return Best(o, share)


def all_shares(model: Model, known: Known, pair: Tensor, t: Tensor) -> Tensor:
    """(M, N) float64: the shares of all entities for each pair s * 2R + r at the step ``t``, from all before it."""
    shares = torch.zeros(len(pair), known.num_entities, dtype=torch.float64)
    for rows, p in _shares(model, known, pair, known.windows(t).known.cpu(), t):
        shares[rows] = p.cpu().double()
    return shares


def shares_of(model: Model, history: Timeline | Known, pair: Tensor, o: Tensor, known: Tensor, t: Tensor) -> Tensor:
    """(M,) the share of object ``o`` for each pair."""
    shares = torch.zeros(len(pair), dtype=torch.float64)
    for rows, p in _shares(model, history, pair, known, t):
        shares[rows] = p.gather(1, o[rows].to(p.device)[:, None])[:, 0].cpu().double()
    return shares


def _shares(
    model: Model, history: Timeline | Known, pair: Tensor, known: Tensor, t: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows, and the shares of all entities for them, in the order of windows."""
    labels, device = 2 * history.num_relations, history.device
    at, window = torch.unique(torch.stack([known.double(), t.double()], dim=1), dim=0, return_inverse=True)
    order = torch.argsort(window, stable=True)
    size, most = max(1, CELLS // max(history.num_entities, 1)), 1 if model.one_by_one else TIMES
    model.eval()
    with torch.inference_mode():
        for first in range(0, len(at), most):
            chunk = at[first : first + most].to(device)
            inside = order[(window[order] >= first) & (window[order] < first + most)]
            windows = Windows(chunk[:, 0].long(), chunk[:, 1].contiguous())
            if isinstance(history, Known):
                encoded = history.encode(windows, pair[inside] // labels)
            else:
                encoded = model.encode(history, windows)
            for rows in inside.split(size):
                s, r = (column.to(device) for column in (pair[rows] // labels, pair[rows] % labels))
                queries = Queries((window[rows] - first).to(device), s, r, s)
                yield rows, model.probabilities(model.score(encoded, queries))

"""How far the states of a model move between the start of a window and its target time."""

from __future__ import annotations

import torch
from torch import Tensor

from tangokg.models.protocol import Model
from tangokg.rank.evaluate import answering
from tangokg.rank.protocols import SINGLE_STEP, Protocol
from tangokg.snapshots.timeline import Timeline

WINDOWS = 8  # encoded at once


def distance_travelled(
    model: Model, timeline: Timeline, target: Tensor, protocol: Protocol = SINGLE_STEP
) -> float | None:
    r"""Mean of :math:`|h(t_q) - h(t_0)| / |h(t_0)|` over the touched entities of all windows (docs/maths.md, row M30).

    ``target`` are snapshots of ``timeline``; what their windows know is said by ``protocol``. None for a model whose
    states do not move, and where nothing is touched. Model and timeline are on one device.
    """
    windows = protocol.windows(timeline, target)
    with answering(model):
        chunks = (slice(first, first + WINDOWS) for first in range(0, len(windows), WINDOWS))
        each = [model.travelled(model.encode(timeline, windows.select(of))) for of in chunks]
    rows = torch.cat(each) if each else torch.empty(0)
    return float(rows.double().mean()) if len(rows) else None

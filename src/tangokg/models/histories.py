"""The graphs and transitions that move the states of a window: its own or, as an ablation, those of another."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from tangokg.snapshots.blocks import Block, build_block
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Windows

MIX = -0x61C8864680B583EB, -0x40A7B892E31B1A47  # odd 64-bit numbers that spread their multiples


def windows_elsewhere(timeline: Timeline, windows: Windows, history: int, draw: Tensor) -> Windows:
    """For each window another that ends earlier, with a last interval of the same length (docs/maths.md, row M28).

    Which one depends on the number of known snapshots and on ``draw`` (() int64) alone, so that a window has the same
    graphs in every batch. Both histories have no snapshot in common where there are ``history`` more to go back;
    a window that knows one snapshot or none keeps its own.
    """
    known = windows.known
    room = torch.where(known > history, known - history, known - 1)  # how many there are to choose from
    mixed = (known + draw) * MIX[0]
    mixed = (mixed ^ (mixed >> 29)) * MIX[1]
    other = torch.where(room > 0, 1 + (mixed ^ (mixed >> 32)) % room.clamp(min=1), known)
    if not len(timeline):
        return windows
    known_end, end = (timeline.t.index_select(0, (k - 1).clamp(min=0)) for k in (known, other))
    return Windows(other, end + (windows.t - known_end))


def block_with_next_changes(timeline: Timeline, windows: Windows, history: int, extra: Tensor | None = None) -> Block:
    r"""As :func:`build_block`, with T of the next snapshot in each interval but the last (docs/maths.md, row M29).

    .. math:: t_j \to t_{j+1} : T(t_{j+1}), \qquad t_{q-1} \to t_q : T(t_{q-1})

    The transition after the last known snapshot is unknown: there the last T is repeated.
    """
    history = min(history, len(timeline))
    if history < 2:
        return build_block(timeline, windows, history, extra)
    before = (windows.known - 1).clamp(min=0)
    earlier = Windows(before, timeline.t.index_select(0, before))
    last = build_block(timeline, windows, 1, extra)
    first = build_block(timeline.derive(_changes_ahead), earlier, history - 1, last.key)  # all rows of both
    last = build_block(timeline, windows, 1, first.key)
    return replace(first, intervals=first.intervals + last.intervals)


def _changes_ahead(timeline: Timeline) -> Timeline:
    """The same snapshots, each with the transitions to the next snapshot instead of those from the previous one."""
    offset = torch.cat([timeline.change_offset[1:], timeline.change_offset[-1:]])
    return replace(timeline, change_offset=offset)

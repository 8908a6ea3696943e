"""The encoder's training step as CUDA graphs: one launch instead of a thousand, for blocks of one shape."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from math import ceil, log
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tangokg.errors import TrainingError
from tangokg.snapshots.blocks import Block, Capacity, assemble, needed, plan_block
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Windows

STEP = 1.2  # between the sizes for which graphs are captured: at most so much more is computed than is needed
FIRST = 2  # how often a size occurs before it is captured: most sizes that occur once never occur again

# (states, block, relations, masks, parameters of the derivative) -> states after all intervals, factors of the others
Move = Callable[[Tensor, Block, Tensor, Tensor, tuple[Tensor, ...]], tuple[Tensor, Tensor]]


class Captures:
    """Graphs of ``move`` for the windows of one timeline, one for each size that keeps coming."""

    def __init__(self, timeline: Timeline, history: int, move: Move, parameters: tuple[Tensor, ...]) -> None:
        self.timeline, self.history = timeline, min(history, len(timeline))
        self.move, self.parameters = move, parameters
        self.at = [tensor.data_ptr() for tensor in parameters]
        self.pool = torch.cuda.graph_pool_handle()
        self.seen: Counter[tuple[int, int, int]] = Counter()
        self.captured: dict[tuple[int, int, int], Captured] = {}
        self.turn = 0  # the graphs share their memory: what one computed is gone when the next is replayed
        every = needed(timeline, Windows(*_every(timeline)), self.history)
        self.unit = {name: max(1.0, size / len(timeline)) for name, size in asdict(every).items()}  # of a window

    def serve(self, timeline: Timeline, parameters: tuple[Tensor, ...]) -> bool:
        """Whether these graphs read this timeline and exactly these tensors."""
        same = all(a is b and a.data_ptr() == at for a, b, at in zip(parameters, self.parameters, self.at, strict=True))
        return timeline is self.timeline and same

    def find(self, windows: Windows, like: Tensor, masks: int) -> Captured | None:
        """The graphs for windows of this size and ``masks`` for each graph; None where there are none yet."""
        need = asdict(needed(self.timeline, windows, self.history))
        share = max(need[name] / (self.unit[name] * len(windows)) for name in need)
        level = ceil(log(share, STEP) - 1e-9)
        key = len(windows), level, masks
        self.seen[key] += 1
        if key not in self.captured and self.seen[key] > FIRST:
            room = {name: 16 * ceil(unit * len(windows) * STEP**level / 16) for name, unit in self.unit.items()}
            self.captured[key] = Captured(self, Capacity(**room), windows, like, masks)
        return self.captured.get(key)


class Captured:
    """Three graphs for blocks of one capacity: the block from its plan, the move of its rows, and the way back."""

    def __init__(self, of: Captures, capacity: Capacity, windows: Windows, like: Tensor, masks: int) -> None:
        self.of, self.capacity = of, capacity
        plan = plan_block(of.timeline, windows.known_on_host, of.history, capacity)
        self.numbers, self.t = plan.numbers.to(like.device), windows.t.clone()
        block = assemble(of.timeline, plan, self.numbers, self.t, of.history)  # a real one, to warm up with
        self.z = like.new_zeros(len(block.entity), like.shape[1]).requires_grad_()
        self.relations = like.detach().clone().requires_grad_()
        self.masks = like.new_ones(masks * sum(graph.num_objects for graph in block.intervals), like.shape[1])
        # Separate leaves over the same memory: an earlier loss that is still alive ties the parameters to a stream.
        leaves = tuple(tensor.detach().requires_grad_() for tensor in of.parameters)
        self.inputs = (self.z, self.relations, *leaves)
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside), torch.enable_grad():
            out, _ = of.move(self.z, block, self.relations, self.masks, leaves)
            torch.autograd.grad(out, self.inputs, torch.zeros_like(out), allow_unused=True)
        torch.cuda.current_stream().wait_stream(aside)
        del out, block
        self.build_graph, self.move_graph, self.back_graph = (torch.cuda.CUDAGraph() for _ in range(3))
        with _capture(self.build_graph, of.pool):
            self.block = assemble(of.timeline, plan, self.numbers, self.t, of.history)
        with _capture(self.move_graph, of.pool), torch.enable_grad():
            self.out, self.factor = of.move(self.z, self.block, self.relations, self.masks, leaves)
        self.of_out = torch.zeros_like(self.out)
        with _capture(self.back_graph, of.pool):
            self.of_inputs = torch.autograd.grad(self.out, self.inputs, self.of_out, allow_unused=True)
        self.out = self.out.detach()  # what autograd kept is free for the next capture

    def build(self, windows: Windows) -> Block:
        """The block of these windows, in memory that the next call overwrites."""
        self.of.turn += 1
        plan = plan_block(self.of.timeline, windows.known_on_host, self.of.history, self.capacity)
        self.numbers.copy_(plan.numbers.pin_memory(), non_blocking=True)
        self.t.copy_(windows.t)
        self.build_graph.replay()
        return replace(self.block, borders=plan.borders)

    def move(self, z: Tensor, relations: Tensor, masks: Tensor) -> tuple[Tensor, Tensor]:
        """What ``move`` gives for the block that was built last."""
        moved: tuple[Tensor, Tensor] = _Replay.apply(self, z, relations, masks, *self.of.parameters)  # type: ignore[no-untyped-call]
        return moved


class _Replay(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, captured: Captured, z: Tensor, relations: Tensor, masks: Tensor, *parameters: Tensor
    ) -> tuple[Tensor, Tensor]:
        captured.z.copy_(z)
        captured.relations.copy_(relations)
        captured.masks.copy_(masks)
        captured.move_graph.replay()
        ctx.captured, ctx.turn = captured, captured.of.turn
        factor = captured.factor.detach()
        ctx.mark_non_differentiable(factor)
        return captured.out.detach(), factor

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        captured: Captured = ctx.captured
        if ctx.turn != captured.of.turn:
            raise TrainingError(
                "a captured step was overwritten by the next one before its backward pass. Call backward after each "
                "forward pass, or train with cuda_graphs = false."
            )
        captured.of_out.copy_(grad)
        captured.back_graph.replay()
        of_z, of_relations, *rest = captured.of_inputs  # themselves, not views: autograd then copies what it keeps
        return None, of_z, of_relations, None, *rest


@contextmanager
def _capture(graph: torch.cuda.CUDAGraph, pool: Any) -> Iterator[None]:
    """Record what runs on the GPU; no garbage is collected meanwhile, since a deleted graph would spoil the capture."""
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        with torch.cuda.graph(graph, pool=pool):
            yield
    finally:
        if collecting:
            gc.enable()


def _every(timeline: Timeline) -> tuple[Tensor, Tensor]:
    """Known snapshots and target time of a window at every snapshot."""
    known = torch.arange(len(timeline))
    return known, known.double()

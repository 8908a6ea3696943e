"""The encoder on touched rows against its dense twin: the readable field over every row of every window (M1 to M3).

The twin multiplies after the mean too and gathers by ``index_select``: what is compared is which rows are computed, how
windows are joined and how the gradient is made, not a careless loop.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from experiments.bench.form import interleaved, logger, make_result
from experiments.bench.material import draw_events, make_tango, read_set, usual_config
from tangokg.errors import TrainingError
from tangokg.models.tango import Tango
from tangokg.snapshots.blocks import Interval
from tangokg.snapshots.rows import Edges
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import Windows, windows_at
from tangokg.solve import TABLEAUS
from tangokg.solve.integrate import integrate
from tangokg.train.memory import keep_freed_memory

CPU = torch.device("cpu")
DRAWN = "drawn"
DRAWN_ENTITIES, DRAWN_FACTS = 23_033, 1_554  # as ICEWS18: entities, and facts a day
MOST = 1e-3  # largest difference that float32 may make, of numbers of size 1


def measure(
    *,
    data: str = DRAWN,
    settings: tuple[str, ...] = (),
    windows: int = 1,
    repeats: int = 5,
    device: torch.device = CPU,
) -> dict[str, Any]:
    """Seconds of encoder and twin, forward and with backward, for the same ``windows``, and how far they differ.

    ``data`` is a set, or ``drawn``: events as many as in ICEWS18. Dropout is off, so that both compute the same; one
    RK4 step in an interval.
    """
    config = usual_config(data, None, [*settings, "dropout=0.0", "solver=rk4", "steps=1"], device)
    logger.info(f"{data}: setting up")
    keep_freed_memory()
    if data == DRAWN:
        train = draw_events(DRAWN_FACTS, config.settings.history + windows + 1, DRAWN_ENTITIES)
    else:
        train = build_timeline(read_set(data).train)
    model, timeline = make_tango(config, train, device), train.to(device)
    pair = _Pair(model, timeline, windows_at(timeline, torch.arange(len(train) - windows, len(train))))
    difference = pair.check()
    times = interleaved(pair.tasks(), repeats, device)
    rows = [
        {"pass": kind}
        | times[f"fast {kind}"].to_dict("fast_seconds")
        | times[f"dense {kind}"].to_dict("dense_seconds")
        | {"ratio": times[f"dense {kind}"].median / times[f"fast {kind}"].median}
        for kind in ("forward", "forward and backward")
    ]
    figures = {"ratio": rows[1]["ratio"], "forward_ratio": rows[0]["ratio"], **difference}
    figures |= {"entities": timeline.num_entities, "touched_rows": len(pair.entity)}
    asked = {"data": data, "model": config.model, "settings": list(settings), "windows": windows, "repeats": repeats}
    asked |= {key: getattr(config.settings, key) for key in ("dim", "layers", "history", "transition", "identity")}
    return make_result("twin", asked, figures=figures, rows=rows, device=device)


class _Pair:
    """The two encoders on the same windows, and a loss that looks at the states of all touched rows."""

    def __init__(self, model: Tango, timeline: Timeline, windows: Windows) -> None:
        self.model, self.timeline, self.windows = model, timeline, windows
        with torch.no_grad():
            block = model.encode(timeline, windows).states.block
        self.window, self.entity = block.window, block.entity  # (M,), (M,)
        generator = torch.Generator(self.entity.device).manual_seed(1)
        shape = (len(self.entity), model.settings.dim)
        like = model.entities
        self.probe = torch.randn(shape, generator=generator, device=like.device).to(like.dtype)  # dL/dstates

    def fast(self) -> Tensor:
        """(M, D): touched rows of all windows."""
        states, _ = self.model.encode(self.timeline, self.windows).states.take(self.window, self.entity)
        return states

    def dense(self) -> Tensor:
        """The same rows of the twin."""
        each = [dense_states(self.model, self.timeline, *w) for w in self._each_window()]
        return torch.stack(each)[self.window, self.entity]

    def _each_window(self) -> list[tuple[int, float]]:
        return list(zip(self.windows.known.tolist(), self.windows.t.tolist(), strict=True))

    def tasks(self) -> dict[str, Callable[[], None]]:
        def forward(encode: Callable[[], Tensor]) -> None:
            with torch.no_grad():
                encode()

        def both(encode: Callable[[], Tensor]) -> None:
            self.model.zero_grad()
            encode().backward(self.probe)

        return {
            f"{name} {kind}": partial(run, encode)
            for name, encode in (("fast", self.fast), ("dense", self.dense))
            for kind, run in (("forward", forward), ("forward and backward", both))
        }

    def check(self) -> dict[str, float]:
        """Largest difference of the states, of all N rows, and of the gradients, as shares of the largest entry."""
        both: list[dict[str, Tensor]] = []
        for encode in (self.fast, self.dense):
            self.model.zero_grad()
            states = encode()
            states.backward(self.probe)
            named = {"states": states.detach()}
            named |= {n: p.grad.clone() for n, p in self.model.named_parameters() if p.grad is not None}
            both.append(named)
        self.model.zero_grad()
        fast, dense = both
        apart = {name: _apart(fast[name], dense[name]) for name in dense}
        apart["states"] = max(apart["states"], self._apart_everywhere())
        for name, share in apart.items():
            if not share < MOST:
                raise TrainingError(f"bench twin: {name} of encoder and twin differ by {share:.2g} of the largest.")
        gradients = max(share for name, share in apart.items() if name != "states")
        return {"difference_of_states": apart["states"], "difference_of_gradients": gradients}

    def _apart_everywhere(self) -> float:
        """The states of all entities at the last window, those that nothing touches included."""
        n, w = self.timeline.num_entities, len(self.windows) - 1
        entity = torch.arange(n, device=self.entity.device)
        with torch.no_grad():
            states, _ = self.model.encode(self.timeline, self.windows).states.take(torch.full_like(entity, w), entity)
            return _apart(states, dense_states(self.model, self.timeline, *self._each_window()[w]))


def _apart(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max() / b.abs().max())


def dense_states(model: Tango, timeline: Timeline, known: int, t: float) -> Tensor:
    """(N, D): all entities moved through the last intervals of one window, one classical RK4 step in each."""
    settings, times = model.settings, timeline.t.tolist()
    longest = settings.reach * model.longest_gap if settings.reach else None
    h: Tensor = model.entities
    for j in range(max(0, known - settings.history), known):
        graph = whole_graph(timeline, j, (times[j + 1] if j + 1 < known else t) - times[j])
        field = model.derivative.bind(graph, model.relations, settings.step_time / model.gap, longest=longest)
        h = integrate(field, h, 0.0, 1.0, tableau=TABLEAUS["rk4"], steps=1)
    return h


def whole_graph(timeline: Timeline, j: int, length: float) -> Interval:
    """Snapshot j and its transitions over all N entities, during an interval of this length."""
    n, snapshot = timeline.num_entities, timeline[j]
    edges = _with_means(n, snapshot.s, snapshot.r, snapshot.o, torch.ones_like(snapshot.o))
    changes = _with_means(n, *timeline.transition(j))
    rows = torch.arange(n, device=timeline.s.device)
    return Interval(rows, n, edges, changes, edges, timeline.t.new_full((n,), length))


def _with_means(n: int, s: Tensor, r: Tensor, o: Tensor, sign: Tensor) -> Edges:
    """Edges that are weighted by sign / |N(o)|."""
    return Edges(s, r, o, sign.double() / torch.bincount(o, minlength=n).index_select(0, o))

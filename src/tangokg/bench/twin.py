"""The encoder on touched rows against its dense twin: every row of every window integrated, by the formula (M1 to M3).

The twin multiplies after the mean too and gathers by ``index_select``: what is compared is which rows are computed and
how windows are joined, not a careless loop.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tangokg.bench.form import Tell, interleaved, make_result, quiet
from tangokg.bench.material import draw_events, make_tango, read_set, usual_config
from tangokg.errors import TrainingError
from tangokg.models.tango import Tango
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import Windows, windows_at
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
    tell: Tell = quiet,
) -> dict[str, Any]:
    """Seconds of encoder and twin, forward and with backward, for the same ``windows``, and how far they differ.

    ``data`` is a set, or ``drawn``: events as many as in ICEWS18. Dropout is off, so that both compute the same; one
    RK4 step in an interval.
    """
    config = usual_config(data, None, [*settings, "dropout=0.0", "solver=rk4", "steps=1"], device)
    tell(f"{data}: setting up", 0, 3)
    keep_freed_memory()
    if data == DRAWN:
        train = draw_events(DRAWN_FACTS, config.settings.history + windows + 1, DRAWN_ENTITIES)
    else:
        train = build_timeline(read_set(data).train)
    model, timeline = make_tango(config, train, device), train.to(device)
    pair = _Pair(model, timeline, windows_at(timeline, torch.arange(len(train) - windows, len(train))))
    tell(f"{data}: comparing", 1, 3)
    difference = pair.check()
    tell(f"{data}: {windows} window(s), {repeats} times", 2, 3)
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
        found: list[dict[str, Tensor]] = []
        for encode in (self.fast, self.dense):
            self.model.zero_grad()
            states = encode()
            states.backward(self.probe)
            named = {"states": states.detach()}
            named |= {n: p.grad.clone() for n, p in self.model.named_parameters() if p.grad is not None}
            found.append(named)
        self.model.zero_grad()
        fast, dense = found
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
    unit = settings.step_time / float(model.gap)
    longest = settings.reach * float(model.longest_gap) if settings.reach else torch.inf
    h: Tensor = model.entities
    for j in range(max(0, known - settings.history), known):
        dt = min((times[j + 1] if j + 1 < known else t) - times[j], longest) * unit
        f = _slope(model, timeline, j)
        k1 = f(h)
        k2 = f(h + dt / 2 * k1)
        k3 = f(h + dt / 2 * k2)
        k4 = f(h + dt * k3)
        h = h + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return h


def _slope(model: Tango, timeline: Timeline, j: int) -> Callable[[Tensor], Tensor]:
    """dH/dt of all rows during the interval that begins at snapshot j."""
    field, relations = model.derivative, model.relations
    g, (cs, cr, co, sign) = timeline[j], timeline.transition(j)
    n = timeline.num_entities
    weight = relations.new_tensor(1.0) / torch.bincount(g.o, minlength=n).clamp(min=1)  # (N,)
    edge_rel = relations.index_select(0, g.r) * weight.index_select(0, g.o)[:, None]  # (E, D)
    weight = relations.new_tensor(1.0) / torch.bincount(co, minlength=n).clamp(min=1)
    change_rel = relations.index_select(0, cr) * (sign * weight.index_select(0, co))[:, None].to(relations.dtype)

    def mean(h: Tensor, s: Tensor, rel: Tensor, o: Tensor) -> Tensor:
        return torch.zeros_like(h).index_add_(0, o, h.index_select(0, s) * rel)  # (N, D)

    def f(h: Tensor) -> Tensor:
        x = h
        for w, delta in zip(field.weights, field.deltas, strict=True):
            x = x + delta * torch.relu(mean(x, g.s, edge_rel, g.o) @ w.T)
        dh = x if field.identity else x - h
        return dh + field.w * torch.relu(mean(h, cs, change_rel, co) * field.w_trans) if field.w else dh

    return f

"""The encoder on touched rows against its dense twin: the readable field over every row of every window (M1 to M3).

The twin multiplies after the mean too and gathers by ``index_select``: what is compared is which rows are computed, how
windows are joined and how the gradient is made, not a careless loop.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from experiments.bench.form import Measured, interleaved, logger
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

DRAWN = "drawn"
DRAWN_ENTITIES, DRAWN_FACTS = 23_033, 1_554  # as ICEWS18: entities, and facts a day
MOST = 1e-3  # largest difference that float32 may make, of numbers of size 1


def measure(
    *,
    data: str = DRAWN,
    settings: tuple[str, ...] = (),
    windows: int = 1,
    repeats: int = 5,
    device: torch.device,
) -> Measured:
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
    difference = pair.differences()
    times = interleaved(pair.tasks(), repeats, device)
    rows = []
    for kind in ("forward", "forward and backward"):
        fast, dense = (times[f"{name} {kind}"] for name in ("fast", "dense"))
        seconds = fast.to_dict("fast_seconds") | dense.to_dict("dense_seconds")
        rows.append({"pass": kind} | seconds | {"ratio": dense.median / fast.median})
    figures = {"ratio": rows[1]["ratio"], "forward_ratio": rows[0]["ratio"], **difference}
    figures |= {"entities": timeline.num_entities, "touched_rows": len(pair.entity)}
    about = {key: getattr(config.settings, key) for key in ("dim", "layers", "history", "transition", "identity")}
    return Measured(figures, rows, {"model": config.model} | about)


class _Pair:
    """The two encoders on the same windows, and a loss that looks at the states of all touched rows."""

    def __init__(self, model: Tango, timeline: Timeline, windows: Windows) -> None:
        self.model, self.timeline, self.windows = model, timeline, windows
        with torch.no_grad():
            block = model.encode(timeline, windows).states.block
        self.window, self.entity = block.window, block.entity  # (M,), (M,)
        generator = torch.Generator(self.entity.device).manual_seed(1)
        probe = torch.randn(len(self.entity), model.settings.dim, generator=generator, device=self.entity.device)
        self.probe = probe.to(model.entities.dtype)  # (M, D) dL/dstates

    def fast(self) -> Tensor:
        """(M, D): touched rows of all windows."""
        return self._states_of(self.window, self.entity)

    def _states_of(self, window: Tensor, entity: Tensor) -> Tensor:
        states, _ = self.model.encode(self.timeline, self.windows).states.take(window, entity)
        return states

    def dense(self) -> Tensor:
        """The same rows of the twin."""
        return torch.stack([self._dense_states(w) for w in range(len(self.windows))])[self.window, self.entity]

    def _dense_states(self, w: int) -> Tensor:
        return dense_states(self.model, self.timeline, int(self.windows.known[w]), float(self.windows.t[w]))

    def tasks(self) -> dict[str, Callable[[], Tensor]]:
        """What is timed, by encoder and pass."""
        encoders = {"fast": self.fast, "dense": self.dense}
        forward = {f"{name} forward": torch.no_grad()(encode) for name, encode in encoders.items()}
        return forward | {f"{n} forward and backward": partial(self._backward, e) for n, e in encoders.items()}

    def _backward(self, encode: Callable[[], Tensor]) -> Tensor:
        self.model.zero_grad()
        states = encode()
        states.backward(self.probe)
        return states.detach()

    def differences(self) -> dict[str, float]:
        """Largest difference of the states, of all N rows, and of the gradients, as shares of the largest entry."""
        results: list[dict[str, Tensor]] = []
        for encode in (self.fast, self.dense):
            states = self._backward(encode)
            named = {name: p.grad.clone() for name, p in self.model.named_parameters() if p.grad is not None}
            results.append({"states": states} | named)
        self.model.zero_grad()
        fast, dense = results
        shares = {name: _difference(fast[name], dense[name]) for name in dense}
        shares["states"] = max(shares["states"], self._difference_everywhere())
        for name, share in shares.items():
            if not share < MOST:
                raise TrainingError(f"bench twin: {name} of encoder and twin differ by {share:.2g} of the largest.")
        states_share = shares.pop("states")
        return {"difference_of_states": states_share, "difference_of_gradients": max(shares.values())}

    @torch.no_grad()
    def _difference_everywhere(self) -> float:
        """The states of all entities at the last window, those that nothing touches included."""
        last, entity = len(self.windows) - 1, torch.arange(self.timeline.num_entities, device=self.entity.device)
        return _difference(self._states_of(torch.full_like(entity, last), entity), self._dense_states(last))


def _difference(a: Tensor, b: Tensor) -> float:
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

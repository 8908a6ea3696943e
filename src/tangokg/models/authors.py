"""TANGO in the form of its authors' program, for tracing published numbers to one form or the other.

What is known of that program's departures from the paper is written down in docs/differences.md; this is a rendering
of that list, on all entities, one window after the other, with a switch for each departure of the derivative. Gradients
are those of autograd through the solver's steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tangokg.decode import check_settings, make_decoder, make_decoding
from tangokg.fields.authors import AuthorsDerivative
from tangokg.history.growth import grow_by_mean, grow_rows
from tangokg.models.protocol import Model, Sight, relative_distance
from tangokg.snapshots.rows import Edges, touched_rows
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows
from tangokg.solve.integrate import integrate
from tangokg.solve.tableaus import TABLEAUS

SWITCHES: dict[str, tuple[Any, Any]] = {  # of the derivative: what the authors' program has, what the paper has
    "messages_to": ("subject", "object"),
    "weighting": ("symmetric", "mean"),
    "batch_norm": (True, False),
    "masks_of": ("stage", "interval"),
    "shared_delta": (True, False),
    "moving_relations": (True, False),
    "transition_of": ("next", "start"),
}


@dataclass(frozen=True)
class AuthorsSettings:
    """Settings of the authors' form. The paper's values of the switches stand in the comments."""

    decoder: str = "distmult"  # a name in DECODERS
    decoding: Mapping[str, Any] = field(default_factory=dict, hash=False)  # the decoder's own settings
    dim: int = 200  # D, size of entity and relation states
    layers: int = 2  # L, convolutions in the derivative; the program has two at most
    history: int = 4  # k, observed snapshots in a window
    transition: float = 1.0  # w, weight of the transition layer; 0 leaves it out, as the program does unless asked
    transition_of: str = "next"  # T of the next snapshot (the last again), or of an interval's own; paper: start
    messages_to: str = "subject"  # of an edge, or object, with the row of its relation as it stands; paper: object
    weighting: str = "symmetric"  # of messages: 1 / sqrt of both degrees, or mean over the edges in; paper: mean
    batch_norm: bool = True  # bias and batch normalisation in each layer and in the transition layer; paper: neither
    masks_of: str = "stage"  # dropout in the derivative: drawn at each stage, or once for an interval; paper: interval
    shared_delta: bool = True  # one delta for all layers; paper: one for each
    moving_relations: bool = True  # relations are part of the state; paper: they stand still
    step_time: float = 3e-4  # solver time of the median gap between training snapshots
    dropout: float = 0.3  # on convolved messages and in the decoder
    static: bool = True  # the score of the embeddings is added to that of the states
    steps: int = 1  # of RK4 in an interval

    def __post_init__(self) -> None:
        check_settings(self, sizes=["dim", "history", "layers", "steps"], rates=["dropout"])
        check_settings(self, weights=["step_time", "transition"], choices=SWITCHES)
        make_decoding(self)


@dataclass(frozen=True, eq=False)
class AllStates:
    """Entities and then relations at the target times, and where they began."""

    states: Tensor  # (W, N + 2R, D)
    start: Tensor  # (N + 2R, D)
    timeline: Timeline
    windows: Windows


class TangoAuthors(Model):
    """Entities and relations together along an ODE, all rows of them (docs/maths.md, row M31)."""

    rows: ClassVar = {"entities": "entity", "relations": "relation"}
    divisible = False  # its batch normalisations are of single windows, and their running means of all of them
    gap: Tensor

    def __init__(self, settings: AuthorsSettings, train: Timeline, generator: torch.Generator) -> None:
        super().__init__()
        dim = settings.dim
        self.settings = settings
        self.entities = nn.Parameter(torch.empty(train.num_entities, dim))
        self.relations = nn.Parameter(torch.empty(2 * train.num_relations, dim))
        for table in (self.entities, self.relations):
            nn.init.xavier_normal_(table, generator=generator)
        self.derivative = AuthorsDerivative(
            dim,
            settings.layers,
            settings.transition,
            settings.dropout,
            generator,
            messages_to=settings.messages_to,
            weighting=settings.weighting,
            batch_norm=settings.batch_norm,
            masks_of=settings.masks_of,
            shared_delta=settings.shared_delta,
            moving_relations=settings.moving_relations,
        )
        self.decoder = make_decoder(settings, dim, generator)
        gaps = train.t.diff()
        default = torch.ones((), dtype=torch.float64, device=gaps.device)
        self.register_buffer("gap", gaps.median() if len(gaps) else default)

    def encode(self, timeline: Timeline, windows: Windows, generator: torch.Generator | None = None) -> AllStates:
        """States of all entities and relations at each window's target time; with a generator dropout is drawn."""
        table = grow_rows(self.entities, timeline.num_entities)
        start = torch.cat([table, grow_by_mean(self.relations, timeline.num_relations)])  # (N + 2R, D)
        ends = zip(windows.known_on_host.tolist(), windows.t.tolist(), strict=True)
        each = [self._move(start, timeline, known, t, generator) for known, t in ends]
        states = torch.stack(each) if each else start.new_empty(0, *start.shape)
        return AllStates(states, start, timeline, windows)

    def sight(self) -> Sight:
        return Sight(self.settings.history + 1)

    def _move(self, z: Tensor, timeline: Timeline, known: int, t: float, generator: torch.Generator | None) -> Tensor:
        """Integrate the rows (N + 2R, D) through the last known snapshots to ``t``."""
        n, first = timeline.num_entities, max(0, known - self.settings.history)
        times = [*timeline.t[first:known].tolist(), t]
        for i, j in enumerate(range(first, known)):
            change = min(j + 1, known - 1) if self.settings.transition_of == "next" else j
            snapshot, (s, r, o, sign) = timeline[j], timeline.transition(change)
            bind, masks = self.derivative.bind, self.derivative.draw_masks(z[:n], generator)
            graph = bind(snapshot.s, snapshot.r, snapshot.o, n), bind(s, r, o, n, sign)
            slope = partial(self._slope, graph=graph, num_entities=n, generator=generator, masks=masks)
            length = (times[i + 1] - times[i]) * self.settings.step_time / float(self.gap)
            z = integrate(slope, z, 0.0, length, tableau=TABLEAUS["rk4"], steps=self.settings.steps)
        return z

    def _slope(
        self,
        _: float | Tensor,
        z: Tensor,
        graph: tuple[Edges, Edges],
        num_entities: int,
        generator: torch.Generator | None,
        masks: Tensor | None = None,
    ) -> Tensor:
        """dz/dt of all rows, independent of the time."""
        return torch.cat(self.derivative(z[:num_entities], z[num_entities:], *graph, generator, masks))

    def score(self, encoded: AllStates, queries: Queries) -> Tensor:
        return self._scores(encoded, queries, None)

    def forward(self, timeline: Timeline, windows: Windows, queries: Queries, generator: torch.Generator) -> Tensor:
        encoded = self.encode(timeline, windows, generator)
        return cross_entropy(self._scores(encoded, queries, generator), queries.answer)

    def _scores(self, encoded: AllStates, queries: Queries, generator: torch.Generator | None) -> Tensor:
        """Scores (B, N): of the states, and with ``static`` those of the embeddings added by one wider product."""
        n, labels = encoded.timeline.num_entities, 2 * encoded.timeline.num_relations
        h, h_rel = encoded.states.split([n, labels], dim=1)  # (W, N, D), (W, 2R, D)
        subject, table, label = h[queries.window, queries.s], h_rel.flatten(0, 1), queries.window * labels + queries.r
        if self.settings.static:
            e, e_rel = encoded.start.split([n, labels])  # (N, D), (2R, D)
            label = torch.cat([label, len(table) + queries.r])
            subject, table = torch.cat([subject, e.index_select(0, queries.s)]), torch.cat([table, e_rel])
        query = self.decoder(subject, table, label, generator)  # (B, D), or (2B, D)
        query = torch.cat(query.chunk(2), dim=1) if self.settings.static else query  # (B, D) or (B, 2D)
        scores = [
            part @ (torch.cat([h[w], e], dim=1) if self.settings.static else h[w]).T
            for w, part in enumerate(query.split(queries.sizes))
        ]
        return torch.cat(scores) if scores else h.new_empty(0, n)

    def states(self, encoded: AllStates) -> Tensor:
        return encoded.states[0, : encoded.timeline.num_entities]

    def travelled(self, encoded: AllStates) -> Tensor:
        rows = encoded.timeline.derive(touched_rows, min(self.settings.history, len(encoded.timeline)))
        borders, distance = rows.offset.tolist(), []
        for w, known in enumerate(encoded.windows.known_on_host.tolist()):
            touched = rows.entity[borders[known] : borders[known + 1]]
            distance.append(relative_distance(encoded.start[touched], encoded.states[w, touched]))
        return torch.cat(distance) if distance else torch.empty(0)

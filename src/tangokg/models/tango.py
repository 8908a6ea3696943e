"""TANGO: entity states along a neural ODE over the last snapshots, scored by a decoder (docs/maths.md, row M8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from tangokg.decode import States, check_settings, make_decoder, make_decoding
from tangokg.decode.rows import TakeRows
from tangokg.errors import ConfigError
from tangokg.fields import Derivative
from tangokg.fields.fast.captured import Captured, Captures
from tangokg.history.growth import grow, grow_by_mean
from tangokg.masks import dropout_mask
from tangokg.models.histories import block_with_next_changes, windows_elsewhere
from tangokg.models.names import NameStates
from tangokg.models.newcomers import FRESH, find_newcomers, prototypes, start_unseen
from tangokg.models.protocol import Held, Model, Sight, relative_distance
from tangokg.models.sizes import Size, fill_by_rule
from tangokg.snapshots.blocks import Block, build_block, empty_block
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows
from tangokg.solve import ADAPTIVE, TABLEAUS, Method, solve

FEW_FACTS, MANY_FACTS = 2_000, 20_000  # to train on: the borders of the rule for the size of states
STATE_ROWS = 32  # of D numbers that a question holds, with its share of the states that move
EDGE_BYTES = 32  # of an edge, for each snapshot of a window
GRAPHS = ("own", "other")
TRANSITIONS_OF = ("start", "next")
UNSEEN = ("edges", "own")


@dataclass(frozen=True)
class TangoSettings:
    """Settings of TANGO. The paper's values stand in the comments where ours differ."""

    ruled: ClassVar[tuple[str, ...]] = ("dim",)  # 0: by rule

    decoder: str = "tucker"  # a name in DECODERS
    decoding: Mapping[str, Any] = field(default_factory=dict, hash=False)  # the decoder's own settings
    dim: int = 200  # D, size of entity and relation states; 0: by the number of facts and the device
    layers: int = 2  # L, convolutions in the derivative
    history: int = 4  # k, observed snapshots in a window
    transition: float = 1.0  # w, weight of the transition layer; 0 leaves it out
    transition_of: str = "start"  # T of the snapshot that an interval starts at, or of the next (the last again)
    step_time: float = 1.0  # solver time of the median gap between training snapshots; paper: scale / number of steps
    reach: float = 1.0  # intervals are followed for this many longest training gaps; 0: to their end, as in the paper
    dropout: float = 0.4  # on aggregated messages and in the decoder; paper: 0.3
    identity: bool = False  # the state itself is part of its derivative; paper: it is
    normalise: bool = False  # states of one length at the start and after each interval; paper: not
    length: float = 1.0  # of states that are normalised
    unseen: str = "edges"  # what training never saw starts from its edges, or from its own row (paper: own)
    names: bool = False  # whether the words of its name say more about where that starts; paper: no
    newcomers: float = 0.0  # share of entities that a training step treats as newcomers; paper: none
    static: bool = False  # the score of the first states is added to that of the states; paper: not
    ode: bool = True  # false, an ablation: nothing is integrated, states are the embeddings
    graphs: str = "own"  # other, an ablation: each window is moved by the graphs of one drawn from before it
    solver: str = "rk4"  # a name in SOLVERS
    gradient: str = "direct"  # direct, adjoint or irdm; paper: irdm
    steps: int = 1  # solver steps in an interval, for fixed-grid solvers
    nodes: int = 3  # Chebyshev nodes of irdm
    rtol: float = 1e-5  # tolerances of adaptive solvers
    atol: float = 1e-6

    def __post_init__(self) -> None:
        if self.dim < 0:
            raise ConfigError(f"dim must be at least 1, or 0 for a size by rule, found {self.dim}.")
        if self.length <= 0:
            raise ConfigError(f"length must be positive, found {self.length}.")
        weights = ["step_time", "transition", "reach"]
        check_settings(self, sizes=["history", "layers"], rates=["dropout", "newcomers"], weights=weights)
        check_settings(self, choices={"graphs": GRAPHS, "transition_of": TRANSITIONS_OF, "unseen": UNSEEN})
        if self.names and self.unseen == "own":
            raise ConfigError("names needs unseen='edges': beside rows of their own, names say nothing.")
        self.method()
        make_decoding(self)

    def by_rule(self, size: Size) -> dict[str, int]:
        """Few facts cannot fill large states, and a CPU has no time for them."""
        most = 64 if size.device == "cpu" else 200
        return {"dim": min(most, 32 if size.facts < FEW_FACTS else 64 if size.facts < MANY_FACTS else 200)}

    def method(self) -> Method:
        """The solver and gradient for intervals."""
        return Method(self.solver, self.gradient, self.steps, self.nodes, self.rtol, self.atol)


@dataclass(frozen=True, eq=False)
class Encoded:
    """The states of the model at the target times of some windows."""

    states: States
    start: Tensor  # (M, D) of the touched rows at the oldest snapshot
    candidates: States  # what queries are compared with: the states, or (.., 2D) beside the first ones
    relations: Tensor  # (2R, D)
    timeline: Timeline
    windows: Windows


class Tango(Model):
    """Embeddings at a window's oldest snapshot, moved through its intervals, decoded at the target time."""

    rows: ClassVar = {"entities": "entity", "relations": "relation", "seen": "entity"} | dict.fromkeys(FRESH, "fresh")
    in_parts = True
    divided: ClassVar = ("entities",)
    _captures: Captures | None = None
    draw: Tensor  # () which window's graphs, where they are another's
    prior: Tensor
    prototype: Tensor
    seen: Tensor
    gap: Tensor
    longest_gap: Tensor

    def __init__(self, settings: TangoSettings, train: Timeline, generator: torch.Generator) -> None:
        super().__init__()
        settings = fill_by_rule(settings, Size.of(train))
        self.settings, self.method, dim = settings, settings.method(), settings.dim
        self.one_by_one = settings.solver in ADAPTIVE  # their steps are those that the whole batch needs
        self.entities = nn.Parameter(torch.empty(train.num_entities, dim))
        self.relations = nn.Parameter(torch.empty(2 * train.num_relations, dim))
        for table in (self.entities, self.relations):
            nn.init.xavier_normal_(table, generator=generator)
        self.derivative = Derivative(dim, settings.layers, settings.transition, settings.identity, generator)
        self.decoder = make_decoder(settings, dim, generator)
        seen = torch.zeros(train.num_entities, dtype=torch.bool, device=train.o.device).index_fill_(0, train.o, True)
        gaps = train.t.diff()
        self.register_buffer("seen", seen)
        default = torch.ones((), dtype=torch.float64, device=gaps.device)
        self.register_buffer("gap", gaps.median() if len(gaps) else default)
        self.register_buffer("longest_gap", gaps.max() if len(gaps) else default)
        self.register_buffer("prior", torch.zeros(dim))
        self.register_buffer("prototype", torch.zeros(2 * train.num_relations, dim))
        self.names = NameStates(dim) if settings.names else None
        if settings.graphs == "other":
            self.register_buffer("draw", torch.empty((), dtype=torch.int64).random_(generator=generator))

    def settle(self, train: Timeline) -> None:
        """Derive the first states of newcomers from the trained embeddings."""
        with torch.no_grad():
            prior, prototype = prototypes(train, self.entities, self.seen, self.shard)
            self.prior.copy_(prior)
            self.prototype.copy_(prototype)
        if self.names is not None:
            self.names.fit(train, self.entities, self.seen, self.prior, self.shard)

    def encode(self, timeline: Timeline, windows: Windows, generator: torch.Generator | None = None) -> Encoded:
        """States of all entities at each window's target time; with a generator dropout masks are drawn."""
        settings = self.settings
        table: Tensor = self.entities
        relations: Tensor = self.relations
        seen = None  # which entities are known by their embeddings; None: all
        if not self.training:
            table, relations, seen = self._grown(timeline)
        elif settings.newcomers and generator is not None:  # some are not recognised where edges tell of them
            seen = torch.rand(len(self.seen), generator=generator, device=self.seen.device) >= settings.newcomers
        moving = windows  # whose graphs move the states
        if settings.graphs == "other":
            moving = windows_elsewhere(timeline, windows, settings.history, self.draw)
        new = captured = None
        if seen is not None:
            prototype = grow(self.prototype, timeline.num_relations, self.prior.expand(2, 1, -1))
            new = find_newcomers(timeline, windows, seen, self.prior, prototype, None if self.training else self.names)
        elif self.cuda_graphs and self.entities.is_cuda and self.shard.whole:
            captured = self._captured(timeline, moving, relations, generator)
        if captured:
            block = captured.build(moving)
        elif not settings.ode:
            block = empty_block(timeline, windows, None if new is None else new.key)
        else:
            build = build_block if settings.transition_of == "start" else block_with_next_changes
            block = build(timeline, moving, settings.history, None if new is None else new.key)
        table = self._of_one_length(table) if settings.normalise else table
        start, base = TakeRows.apply(table, block.entity, self.shard)  # type: ignore[no-untyped-call]  # (M, D), (N, D)
        if new is not None:
            state = self._of_one_length(new.state) if settings.normalise else new.state
            start = start.index_copy(0, torch.searchsorted(block.key, new.key), state)
        z, factor = start, start.new_ones(len(block))
        if settings.ode:
            drops = settings.layers if generator is not None and settings.dropout else 0
            masks = relations.new_empty(drops * sum(part.num_objects for part in block.intervals), settings.dim)
            if generator is not None and drops:
                masks = dropout_mask(masks, settings.dropout, generator)
            if captured:
                z, factor = captured.move(start, relations, masks)
            else:
                z, factor = self._move(start, block, relations, masks)
        states = States(base, factor, z, block, self.shard)
        candidates = self._with_start(states, start) if settings.static else states
        return Encoded(states, start, candidates, relations, timeline, windows)

    def held(self, train: Timeline) -> Held:
        size, dim = self.entities.element_size(), self.entities.shape[1]
        question = size * (STATE_ROWS * dim + self.decoder.held(dim))
        return replace(super().held(train), question=question, edge=EDGE_BYTES * self.settings.history)

    def sight(self) -> Sight | None:
        snapshots = self.settings.history + 1 if self.settings.ode else 1
        return Sight(snapshots) if self.settings.graphs == "own" else None

    def _with_start(self, states: States, start: Tensor) -> States:
        """Concatenate the states with the first ones, multiplied by the factor of their window: (.., 2D)."""
        first = start * states.factor.index_select(0, states.block.window)[:, None]  # (M, D)
        return replace(states, base=states.base.repeat(1, 2), touched=torch.cat([states.touched, first], dim=1))

    def _captured(
        self, timeline: Timeline, windows: Windows, relations: Tensor, generator: torch.Generator | None
    ) -> Captured | None:
        """Captured graphs for a training step over windows of this size, if they apply and exist."""
        settings = self.settings
        plain = (
            settings.ode
            and settings.transition_of == "start"
            and settings.solver in TABLEAUS
            and settings.gradient == "direct"
        )
        if not (plain and len(windows) and self.training and torch.is_grad_enabled()):
            return None
        parameters = (*self.derivative.weights, self.derivative.deltas, self.derivative.w_trans)
        if self._captures is None or not self._captures.serve(timeline, parameters):
            self._captures = Captures(timeline, self.settings.history, self._move, parameters)
        masked = self.settings.layers if generator is not None and self.settings.dropout else 0
        try:
            return self._captures.find(windows, relations, masked)
        except torch.cuda.OutOfMemoryError:  # the plain path needs less
            self.release()
            return None

    def release(self) -> None:
        super().release()
        self._captures = None

    def _move(
        self, z: Tensor, block: Block, relations: Tensor, masks: Tensor, tensors: tuple[Tensor, ...] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Integrate the touched rows (M, D) through all intervals; also the factor (W,) of all other rows."""
        time_unit = self.settings.step_time / self.gap.double()
        longest = self.settings.reach * self.longest_gap if self.settings.reach else None
        factor = z.new_ones(len(block))
        layers = self.settings.layers if len(masks) else 0
        shares = masks.split([layers * interval.num_objects for interval in block.intervals])
        for interval, share in zip(block.intervals, shares, strict=True):
            field = self.derivative.bind(interval, relations, time_unit, share, longest, tensors).fast()
            alone = z.new_ones(len(block), z.shape[1])  # an entity without edges, one for each window
            moved = solve(field, torch.cat([z.index_select(0, interval.rows), alone]), 0.0, 1.0, self.method)
            touched, grown = moved.split([len(interval.rows), len(block)])
            grown = grown[:, 0].detach()  # (W,)
            z = (z * grown.index_select(0, block.window)[:, None]).index_copy(0, interval.rows, touched)
            z, factor = self._of_one_length(z) if self.settings.normalise else z, factor * grown
        return z, torch.ones_like(factor) if self.settings.normalise else factor

    def _of_one_length(self, h: Tensor) -> Tensor:
        """States scaled to the length that the settings give."""
        return self.settings.length * normalize(h)

    def _grown(self, timeline: Timeline) -> tuple[Tensor, Tensor, Tensor | None]:
        """For evaluation: embeddings and relations for all current names, and which entities training saw.

        What training never saw starts from its edges and its name, unless the settings leave it its own row: then all
        are known by their embeddings.
        """
        relations = grow_by_mean(self.relations, timeline.num_relations)  # (2R, D)
        more = timeline.num_entities - len(self.seen)
        assert self.shard.whole or not more, "tables are divided in training alone, which knows all names"
        seen = torch.cat([self.seen, self.seen.new_zeros(more)])
        table = torch.cat([self.entities, self.prior.expand(more, -1)])
        if self.settings.unseen == "own":
            return table, relations, None
        return start_unseen(timeline, table, seen, self.prior, self.names, self.shard), relations, seen

    def score(self, encoded: Encoded, queries: Queries) -> Tensor:
        query, states = self._ask(encoded, queries, None)
        return states.scores(query, queries)  # (B, N)

    def forward(self, timeline: Timeline, windows: Windows, queries: Queries, generator: torch.Generator) -> Tensor:
        encoded = self.encode(timeline, windows, generator)
        query, states = self._ask(encoded, queries, generator)
        return states.cross_entropy(query, queries, self.score_bytes)

    def states(self, encoded: Encoded) -> Tensor:
        everyone = torch.arange(encoded.states.block.num_entities, device=encoded.states.base.device)
        return encoded.states.take(torch.zeros_like(everyone), everyone)[0]

    def travelled(self, encoded: Encoded) -> Tensor:
        moved = torch.zeros_like(encoded.states.block.entity, dtype=torch.bool)  # (M,) further rows may stand there
        for interval in encoded.states.block.intervals:
            moved[interval.rows] = True
        return relative_distance(encoded.start[moved], encoded.states.touched[moved])

    def _ask(self, encoded: Encoded, queries: Queries, generator: torch.Generator | None) -> tuple[Tensor, States]:
        r"""Query vectors (B, D), and the states to compare them with; ``static`` makes both 2D wide (row M27).

        .. math::
            x_o = q(h_s) \cdot h_o + q(e_s) \cdot e_o
                = \big(q(h_s), \tfrac{1}{\phi} q(e_s)\big) \cdot (h_o, \phi \, e_o)

        where e is the first state of a window and :math:`\phi` the factor of its untouched entities.
        """
        rows, states = encoded.candidates.take(queries.window, queries.s)
        if not self.settings.static:
            return self.decoder(rows, encoded.relations, queries.r, generator), states
        factor = states.factor.index_select(0, queries.window)[:, None]  # (B, 1)
        h_s, e_s = rows.chunk(2, dim=1)  # (B, D) each
        subjects = torch.cat([h_s, e_s / factor])  # (2B, D) one batch, so that a batch normalisation is of both
        of_state, of_start = self.decoder(subjects, encoded.relations, queries.r.repeat(2), generator).chunk(2)
        return torch.cat([of_state, of_start / factor], dim=1), states

"""The interface of models to the training loop, the evaluator and the forecaster: a baseline has these methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from tangokg.history.head import Terms
from tangokg.models.sparse import SparseScores
from tangokg.shards import WHOLE, Shard
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows


def relative_distance(start: Tensor, end: Tensor) -> Tensor:
    r""":math:`|h(t_q) - h(t_0)| / |h(t_0)|` of each row (docs/maths.md, row M30)."""
    least = torch.finfo(start.dtype).tiny
    distance: Tensor = (end - start).norm(dim=1) / start.norm(dim=1).clamp(min=least)  # (M,)
    return distance


@dataclass(frozen=True, eq=False)
class Sight:
    """The part of a history that a question needs besides all edges of its subject; a forecast uses only this part."""

    snapshots: int = 0  # the last snapshots that encoding needs in full; 0: none
    totals: bool = False  # the number of events of every entity, known only at the end of the history


@dataclass(frozen=True)
class Held:
    """Roughly how many bytes training holds besides the weights."""

    scores: int  # for a question of the part that is computed: its scores, and what leads to them
    question: int = 0  # for every question of a step, whatever the parts
    edge: int = 0  # for every edge of the history, all the time


class Model(nn.Module, ABC):
    """Scores every candidate object of a query from the snapshots that its window knows.

    Laws that the tests run over every model in ``MODELS``: no score depends on a fact of a snapshot that the window
    does not know, nor on another query; renaming entities permutes the scores; windows can be batched in any way,
    unless the model says that they are to be encoded ``one_by_one``.
    """

    # State entries with a row for each entity ("entity") or each of the 2R labels ("relation"), and those that are
    # made anew from the training part ("fresh"): what a run that goes on from another takes over, by name.
    rows: ClassVar[dict[str, str]] = {}
    looks_back: ClassVar[bool] = True  # whether scores depend on the snapshots that a window knows
    sparse: ClassVar[bool] = False  # whether most scores are 0, and :meth:`score_sparsely` says which are not
    one_by_one: bool = False  # whether windows encoded together change each other's scores a little
    divisible: ClassVar[bool] = True  # whether several processes may share the windows of a training step
    in_parts: ClassVar[bool] = False  # whether the loss is computed in parts where its scores are many
    cuda_graphs: bool = False  # whether a training step on a GPU may be replayed; set by the training loop
    divided: ClassVar[tuple[str, ...]] = ()  # tables whose rows, one for each entity, processes can divide
    shard: Shard = WHOLE  # the rows that this process has; set by the loop
    score_bytes: int = 0  # memory for the scores of a step and what leads to them; 0: no bound; set by the loop

    @abstractmethod
    def encode(self, timeline: Timeline, windows: Windows) -> Any:
        """What the model knows at each window's target time: computed once, used for all queries asked there."""

    @abstractmethod
    def score(self, encoded: Any, queries: Queries) -> Tensor:
        """Scores (B, N) of all candidates, larger is likelier; ``queries.answer`` must not be looked at."""

    def held(self, train: Timeline) -> Held:
        """What training on these snapshots holds; without more knowledge the scores and their gradient."""
        size = next((p.element_size() for p in self.parameters()), 4)
        return Held(2 * size * (self.shard.most or train.num_entities))

    def sight(self) -> Sight | None:
        """What a question can see; None: the whole history, which is then sorted again after each new fact."""
        return None if self.looks_back else Sight()

    def look_at(self, encoded: Any, timeline: Timeline) -> Any:
        """What :meth:`encode` gave for the last snapshots, beside the history of some subjects.

        Called where :meth:`sight` names snapshots. The history that questions look at is a field ``timeline``.
        """
        return replace(encoded, timeline=timeline)

    def score_sparsely(self, encoded: Any, queries: Queries) -> SparseScores:
        """The same scores by what is not zero, which is faster to rank; only called where ``sparse``."""
        raise TypeError(f"{type(self).__name__} scores every candidate")

    def settle(self, train: Timeline) -> None:
        """Derive what inference needs beside the weights; called after training and before each validation."""

    def choose(self, label: Tensor, judge: Callable[[], Tensor]) -> None:
        """Set what is chosen on validation and not learned; called once, for a model without parameters.

        ``judge()`` gives the reciprocal rank (B,), time-aware, of each validation query by the model as it is then;
        ``label`` (B,) of 2R is what each query asks.
        """

    def release(self) -> None:
        """Give back what only training needs; called when training ends."""
        self.cuda_graphs = False

    def states(self, encoded: Any) -> Tensor | None:
        """The vector (N, D) of each entity at the target time of the first window; None: the model has none."""
        return None

    def travelled(self, encoded: Any) -> Tensor:
        """(M,) how far each touched state has come in its window, relative to its first; none without states."""
        return torch.empty(0)

    def terms(self, encoded: Any, queries: Queries) -> Terms | None:
        """What single events add to the scores of some candidates, where a part of the scores is such a sum."""
        return None

    def probabilities(self, scores: Tensor) -> Tensor:
        """Scores (B, N) -> probabilities (B, N) that each candidate is the object of a fact of this form."""
        return torch.softmax(scores, dim=1)

    def forward(self, timeline: Timeline, windows: Windows, queries: Queries, generator: torch.Generator) -> Tensor:
        """The training loss, a scalar. Only called when the model has parameters."""
        raise TypeError(f"{type(self).__name__} has nothing to train")

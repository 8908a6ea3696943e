"""The full recurrency baseline: what happened comes again, the same fact or at least the same object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from tangokg.decode.settings import check_settings
from tangokg.history import Occurrences, Past, occurrences_of, past_of
from tangokg.history.growth import grow
from tangokg.history.occurrences import past_of_label
from tangokg.models.counters import shares
from tangokg.models.protocol import Model, Sight
from tangokg.models.sparse import SparseScores
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows

# The authors' values. Of equally good ones the first is taken; their alpha = 1 is left out, because their test replaces
# it by 0.99999: objects that never stood with (s, r) should come in the order of the relaxed part.
DECAYS = (1.0001, 0.9, 0.5, 0.1, 0.08, 0.06, 0.04, 0.02, 0.01, 0.005, 0.001, 0.0005, 0.0001, 0.0)
ALPHAS = (0.99999, 0.9999, 0.999, 0.99, 0.9, 0.5, 0.1, 0.01, 0.001, 0.0001, 0.00001, 0.0)
PARTS = {"combined": None, "strict": 1.0, "relaxed": 0.0}  # alpha of every label, where it is not chosen
NOISE = 1e-9  # sums of reciprocal ranks that differ by less are equally good


@dataclass(frozen=True)
class RecurrencySettings:
    decay: float = 1.0001  # lambda of labels without validation facts: half the weight is lost in 1 / lambda snapshots
    alpha: float = 0.99999  # of such labels, the share of the strict part
    part: str = "combined"  # or strict, or relaxed: that part alone

    def __post_init__(self) -> None:
        check_settings(self, choices={"part": tuple(PARTS)})

    @property
    def usual_alpha(self) -> float:
        """The alpha of a label without validation facts."""
        alone = PARTS[self.part]
        return self.alpha if alone is None else alone


@dataclass(frozen=True, eq=False)
class Recurred:
    """The facts that the baseline knows at its windows."""

    strict: Occurrences  # of (s, r, o)
    sums: Tensor  # (E,) see :func:`decayed_counts`
    relaxed: Callable[[Tensor, Tensor], Past]  # of (r, o): label, known -> past
    windows: Windows
    decay: Tensor  # (2R,) for a unit of the data's time
    alpha: Tensor  # (2R,)


class Recurrency(Model):
    r"""The combined recurrency baseline (docs/maths.md, row M43).

    Gastinger, Meilicke, Errica, Sztyler, Schuelke, Stuckenschmidt (2024), History Repeats Itself: A Baseline for
    Temporal Knowledge Graph Forecasting.

    .. math::
        \psi_o = \frac{\sum_{j < q,\, (s, r, o) \in G(t_j)} 2^{\lambda_r t_j}}
                      {\sum_{j \le q_r} 2^{\lambda_r t_j}}, \qquad
        \xi_o = \frac{\sum_{j < q} |\{s' : (s', r, o) \in G(t_j)\}|}
                     {\sum_{j < q} |\{(s', o') : (s', r, o') \in G(t_j)\}|}, \qquad
        x_o = \alpha_r \psi_o + (1 - \alpha_r) \xi_o

    where :math:`q_r` is the last known snapshot with a fact of label r. (The authors' program begins the lower sum at
    the first such snapshot, and leaves :math:`q_r` out.) The strict part is the frequency of the fact for
    :math:`\lambda = 0`; from :math:`\lambda = 1` on the latest occurrence outweighs all before it. Each of the 2R
    labels has its own :math:`\lambda_r` and :math:`\alpha_r`, chosen on validation: first :math:`\lambda_r` by the
    strict part alone, then :math:`\alpha_r`. ``part`` takes the strict or the relaxed part alone. Time counts in usual
    steps, the median gap between training snapshots.

    No time needs to have been seen in training, and the target time itself cancels: what is known decides. Scores are
    float64: in single precision an old fact would tie with one that never happened.
    """

    rows: ClassVar[dict[str, str]] = {"decay": "relation", "alpha": "relation"}
    sparse: ClassVar[bool] = True

    def __init__(self, settings: RecurrencySettings, train: Timeline) -> None:
        super().__init__()
        self.settings = settings
        labels, step = 2 * train.num_relations, float(train.t.diff().median()) if len(train) > 1 else 1.0
        self.register_buffer("decay", torch.full((labels,), settings.decay, dtype=torch.float64))
        self.register_buffer("alpha", torch.full((labels,), settings.usual_alpha, dtype=torch.float64))
        self.register_buffer("step", torch.tensor(step, dtype=torch.float64))
        self.decay: Tensor
        self.alpha: Tensor
        self.step: Tensor

    def choose(self, label: Tensor, judge: Callable[[], Tensor]) -> None:
        self.alpha.fill_(1.0)
        self._pick(self.decay, self.settings.decay, DECAYS, label, judge)
        if self.settings.part == "combined":
            self._pick(self.alpha, self.settings.alpha, ALPHAS, label, judge)
        else:
            self.alpha.fill_(self.settings.usual_alpha)

    @staticmethod
    def _pick(
        chosen: Tensor, default: float, values: tuple[float, ...], label: Tensor, judge: Callable[[], Tensor]
    ) -> None:
        """Set each row of ``chosen`` to the value that ranks the queries of its label best."""
        picked, best = torch.full_like(chosen, default), torch.zeros_like(chosen)  # (2R,)
        for value in values:
            chosen.fill_(value)
            total = torch.zeros_like(chosen).index_add(0, label, judge().to(chosen))
            better = total > (1 + NOISE) * best
            picked, best = torch.where(better, chosen, picked), torch.where(better, total, best)
        chosen.copy_(picked)

    def encode(self, timeline: Timeline, windows: Windows) -> Recurred:
        known = torch.stack([self.decay, self.alpha], dim=1).to(timeline.t)  # (2R, 2)
        new = known.new_tensor([self.settings.decay, self.settings.usual_alpha]).expand(2, 1, 2)
        decay, alpha = grow(known, timeline.num_relations, new).unbind(1)
        decay = decay / self.step.to(decay)
        strict, relaxed = occurrences_of(timeline), timeline.derive(past_of_label)
        return Recurred(strict, _decayed_counts_of(timeline, decay), relaxed, windows, decay, alpha)

    def sight(self) -> Sight:
        return Sight()

    def score(self, encoded: Recurred, queries: Queries) -> Tensor:
        return self.score_sparsely(encoded, queries).dense()

    def score_sparsely(self, encoded: Recurred, queries: Queries) -> SparseScores:
        strict, windows = encoded.strict, encoded.windows
        pair = queries.s * strict.num_labels + queries.r
        distinct, of = torch.unique(queries.window * strict.num_labels + queries.r, return_inverse=True)  # (G,), (B,)
        r, known = distinct % strict.num_labels, windows.known.index_select(0, distinct // strict.num_labels)
        alpha = encoded.alpha.index_select(0, r)  # (G,)
        objects, past = encoded.relaxed(r, known), past_of(strict, pair, known.index_select(0, of))
        last = torch.zeros_like(r).scatter_reduce(0, objects.row, objects.last, "amax")  # (G,)
        times = strict.t if len(strict.t) else strict.t.new_zeros(1)  # without any snapshot nothing is looked up
        age = times.index_select(0, last)[:, None] - times  # (G, T)
        weight = torch.exp2(-encoded.decay.index_select(0, r)[:, None] * age.clamp(min=0))
        weight = weight.clamp(min=torch.finfo(weight.dtype).tiny)  # a fact of long ago is still one that was seen
        factor = alpha / (weight * (age >= 0)).sum(1)  # (G,)
        group = of.index_select(0, past.row)  # (P,)
        psi = encoded.sums.index_select(0, past.at) * weight[group, past.last]  # from a table: equal pasts tie exactly
        single = psi * factor.index_select(0, group)
        total = torch.zeros_like(alpha).index_add_(0, objects.row, objects.count.to(alpha))  # (G,) facts of the label
        shared = objects.count * ((1 - alpha) / total).index_select(0, objects.row)
        return SparseScores(strict.num_entities, of, objects.row, objects.o, shared, past.row, past.o, single)

    def probabilities(self, scores: Tensor) -> Tensor:
        return shares(scores)


def decayed_counts(occurrences: Occurrences, decay: Tensor) -> Tensor:
    r"""(E,) of each occurrence n of a fact, all up to it: :math:`a_n = \sum_{i \le n} 2^{\lambda_r (t_i - t_n)}`.

    This is :math:`a_n = 1 + f_n a_{n-1}` with :math:`f_n = 2^{\lambda_r (t_{n-1} - t_n)}`, and 0 at a fact's first
    occurrence. Maps of this form are joined in pairs, then fours, and so on: no loop over occurrences, and no number
    grows with the length of the past.
    """
    first = occurrences.first
    fact = torch.zeros_like(occurrences.j).index_fill_(0, first, 1).cumsum(0) - 1  # (E,)
    t = occurrences.t.index_select(0, occurrences.j)
    rate = decay.index_select(0, occurrences.pair % occurrences.num_labels).index_select(0, fact)
    exponent, of = torch.unique(rate * -t.diff(prepend=t[:1]), return_inverse=True)  # equal gaps, equal powers
    factor = torch.exp2(exponent).index_select(0, of).index_fill_(0, first, 0)
    total = torch.ones_like(factor)
    reach = 1
    while reach < len(occurrences.t):  # no fact occurs more often than there are snapshots
        total = torch.cat([total[:reach], total[reach:] + factor[reach:] * total[:-reach]])
        factor = torch.cat([factor[:reach], factor[reach:] * factor[:-reach]])
        reach *= 2
    return total


def _last_counts(timeline: Timeline) -> list[tuple[Tensor, Tensor]]:
    """Room for the decayed counts of a timeline under the last decay that was used."""
    return []


def _decayed_counts_of(timeline: Timeline, decay: Tensor) -> Tensor:
    """The decayed counts of a timeline, kept until another decay is used."""
    last = timeline.derive(_last_counts)
    if not last or not torch.equal(last[0][0], decay):
        last[:] = [(decay, decayed_counts(occurrences_of(timeline), decay))]
    return last[0][1]

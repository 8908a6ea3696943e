"""Ranks -> the numbers that are published: mean reciprocal rank and Hits@k, whole and broken down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from tangokg.errors import ConfigError, checked, nearest, offer
from tangokg.rank.ranks import Ranks
from tangokg.showing import html_table, to_frame

HITS = (1, 3, 10)

Direction = Literal["both", "object", "subject"]  # which side of a fact was asked for


@dataclass(frozen=True)
class Summary:
    r"""Figures of one group of queries under one filter, in per cent (docs/maths.md, row M21).

    .. math:: \mathrm{MRR} = \frac{100}{B} \sum_b \frac{1}{\mathrm{rank}_b}, \qquad
        \mathrm{Hits@}k = \frac{100}{B} |\{b : \mathrm{rank}_b \le k\}|

    The rank is the realistic one, so k + 1/2 does not count as within k.
    """

    mrr: float
    hits: dict[int, float]  # k -> Hits@k
    queries: int

    def to_dict(self) -> dict[str, float]:
        return {"mrr": self.mrr} | {f"hits@{k}": value for k, value in self.hits.items()}


@dataclass(frozen=True, eq=False, repr=False)
class Metrics:
    """The rank of every query under every filter, with what it was asked about; the figures follow from these."""

    ranks: Mapping[str, Ranks]  # filter -> ranks of the B queries
    s: Tensor  # (B,) as r, answer and t: the queries, in the order of the ranks
    r: Tensor  # of 2R: r + R asked for the subject
    answer: Tensor
    t: Tensor
    num_relations: int
    relations: tuple[str, ...] = ()  # their names, where they are known
    not_comparable: str = ""  # why: the weights depend on what they are judged by; "": they do not

    @property
    def queries(self) -> int:
        return len(self.r)

    def __repr__(self) -> str:
        lines = (f"{name:12s} {_line(summary.to_dict())}" for name in self.ranks if (summary := self[name]))
        return "\n".join([f"Metrics of {self.queries:,} queries, in per cent{self._mark}", *lines])

    @property
    def _mark(self) -> str:
        return f", not comparable: {self.not_comparable}" if self.not_comparable else ""

    def __getitem__(self, filter_name: str) -> Summary:
        """Figures of all queries: ``metrics["time-aware"].mrr``."""
        self._check(filter_name)
        return _summaries(self.ranks[filter_name].realistic, torch.zeros_like(self.r))[0]

    @checked
    def by_relation(self, filter_name: str, direction: Direction = "both") -> dict[Any, Summary]:
        """Relation -> figures of its queries for objects, for subjects, or of both together.

        The key is the name, or the id (below R) where names are not known.
        """
        self._check(filter_name)
        rank, relation = self.ranks[filter_name].realistic, self.r % self.num_relations
        if direction != "both":
            rows = (self.r < self.num_relations) == (direction == "object")
            rank, relation = rank[rows], relation[rows]
        by_id = {int(r): summary for r, summary in _summaries(rank, relation).items()}
        return {self.relations[r] if self.relations else r: summary for r, summary in by_id.items()}

    @checked
    def by_time(self, filter_name: str) -> dict[float, Summary]:
        """Time of a snapshot -> figures of the queries asked at it."""
        self._check(filter_name)
        return _summaries(self.ranks[filter_name].realistic, self.t)

    def _check(self, filter_name: str) -> None:
        if not isinstance(filter_name, str) or filter_name not in self.ranks:
            known = ", ".join(self.ranks)
            raise ConfigError(
                f"unknown filter {filter_name!r}.{offer(nearest(str(filter_name), self.ranks))} Known: {known}."
            )

    def to_pandas(self) -> Any:
        """A pandas DataFrame with a row for each filter: MRR and Hits@k in per cent, and the number of queries."""
        return to_frame(self._rows())

    def _repr_html_(self) -> str:
        rows = [[f"{v:.2f}" if isinstance(v, float) else v for v in row.values()] for row in self._rows()]
        title = f"{self.queries:,} queries, in per cent{self._mark}"
        return html_table(title, list(self._rows()[0]), rows)

    def _rows(self) -> list[dict[str, Any]]:
        return [{"filter": name, **self[name].to_dict(), "queries": self.queries} for name in self.ranks]

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Filter -> ``mrr``, ``hits@1``, ``hits@3``, ``hits@10``, as result files hold them."""
        return {name: self[name].to_dict() for name in self.ranks}


def _line(figures: dict[str, float]) -> str:
    return "  ".join(f"{name} {value:6.2f}" for name, value in figures.items())


def _summaries(rank: Tensor, group: Tensor) -> dict[float, Summary]:
    """Value of ``group`` (B,) -> figures of its rows of ``rank`` (B,), in ascending order of the values."""
    values, of, count = torch.unique(group, return_inverse=True, return_counts=True)
    columns = torch.stack([1 / rank, *((rank <= k).double() for k in HITS)], dim=1)  # (B, 1 + hits) float64
    total = columns.new_zeros(len(values), columns.shape[1]).index_add_(0, of, columns)
    rows = (100 * total / count[:, None]).tolist()
    return {
        value: Summary(mrr, dict(zip(HITS, hits, strict=True)), queries)
        for value, (mrr, *hits), queries in zip(values.tolist(), rows, count.tolist(), strict=True)
    }

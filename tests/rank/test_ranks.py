"""Ranks are what sorting would give, for every filter, and a damaged score never passes as a good one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tangokg.errors import TrainingError
from tangokg.rank import ranks
from tangokg.rank.ranks import Pairs, rank_answers

NOTHING: Pairs = (torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64))


def random_scores(kind: str, generator: torch.Generator) -> Tensor:
    x = torch.randn(60, 37, generator=generator, dtype=torch.float64)
    if kind == "tied":
        return x.round()
    if kind == "infinite":
        return torch.where(x > 1, torch.inf, torch.where(x < 0, -torch.inf, x))
    return x


def slow_rank(row: Tensor, answer: int, left_out: set[int]) -> tuple[int, float, int]:
    """Sort what is left, best first; the places of all candidates with the answer's score."""
    rest = sorted((float(x) for o, x in enumerate(row) if o == answer or o not in left_out), reverse=True)
    places = [place for place, x in enumerate(rest, start=1) if x == float(row[answer])]
    return places[0], sum(places) / len(places), places[-1]


@pytest.mark.parametrize("kind", ["random", "tied", "infinite"])
@pytest.mark.parametrize("cells", [1, 100, 10**6])
def test_ranks_equal_those_of_sorting(kind: str, cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "CELLS", cells)
    generator = torch.Generator().manual_seed(3)
    scores = random_scores(kind, generator)
    answer = torch.randint(37, (60,), generator=generator)
    mask = torch.rand(60, 37, generator=generator) < 0.3
    mask[:30].scatter_(1, answer[:30, None], True)  # the answer is among the true facts, as it always is in use
    row, o = mask.nonzero(as_tuple=True)
    shuffled = torch.randperm(len(row), generator=generator)
    found = rank_answers(scores, answer, {"none": NOTHING, "some": (row[shuffled], o[shuffled])})
    for name, sets in (("none", [set[int]()] * 60), ("some", [set(m.nonzero()[:, 0].tolist()) for m in mask])):
        slow = [slow_rank(x, int(a), out) for x, a, out in zip(scores, answer, sets, strict=True)]
        optimistic, realistic, pessimistic = zip(*slow, strict=True)
        assert found[name].optimistic.tolist() == list(optimistic)
        assert found[name].realistic.tolist() == list(realistic)
        assert found[name].pessimistic.tolist() == list(pessimistic)


def test_all_tied_scores_give_the_middle_rank_and_the_answer_is_never_masked() -> None:
    scores, answer = torch.zeros(2, 5), torch.tensor([1, 4])
    everything = (torch.arange(2).repeat_interleave(5), torch.arange(5).repeat(2))
    found = rank_answers(scores, answer, {"raw": NOTHING, "all": everything})
    assert found["raw"].realistic.tolist() == [3.0, 3.0]
    assert found["all"].pessimistic.tolist() == [1, 1]


@pytest.mark.parametrize("place", [0, 2], ids=["the answer", "another candidate"])
def test_nan_is_an_error_and_not_a_good_rank(place: int) -> None:
    scores = torch.zeros(3, 4)
    scores[1, place] = torch.nan
    with pytest.raises(TrainingError, match=r"1 of 3 queries have a score that is not a number"):
        rank_answers(scores, torch.zeros(3, dtype=torch.int64), {"raw": NOTHING})


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_counts_are_exact_in_every_precision(dtype: torch.dtype) -> None:
    """3,000 candidates: more than float16 or bfloat16 can count."""
    scores = torch.tensor([1.0, 2.0, 3.0], dtype=dtype).repeat(1, 1000)
    ranks = rank_answers(scores, torch.tensor([1]), {"raw": NOTHING})["raw"]
    assert (int(ranks.optimistic), int(ranks.pessimistic)) == (1001, 2000)
    assert ranks.realistic.tolist() == [1500.5]

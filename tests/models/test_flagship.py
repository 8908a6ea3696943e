"""The default model: branches add up as intensities, and each of them can be left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from conftest import all_queries, equal, facts_like, make_facts, make_timeline
from tangokg.decode import states
from tangokg.errors import ConfigError
from tangokg.history import activity
from tangokg.history.pairs import PairScorer
from tangokg.history.partners import find_partners
from tangokg.models.flagship import Flagship, FlagshipSettings
from tangokg.models.sizes import Size
from tangokg.snapshots import rows
from tangokg.snapshots.timeline import build_timeline
from tangokg.snapshots.windows import windows_at

SMALL = FlagshipSettings(dim=5, width=8, dropout=0.0, pair_dropout=0.0, hops=2)


def test_branches_add_up_as_intensities() -> None:
    timeline = make_timeline(3)
    model = Flagship(SMALL, timeline, torch.Generator().manual_seed(0)).double().eval()
    windows, queries = windows_at(timeline, torch.tensor([4, 7])), all_queries(2)
    with torch.no_grad():
        encoded = model.encode(timeline, windows)
        scores, heads = model.branches(encoded, queries, None)
        assert len(heads) == 3, "pairs, and paths of two and of three steps"
        total = scores.exp()
        for row, o, value in heads:
            assert len(torch.unique(row * timeline.num_entities + o)) == len(row)
            total[row, o] += value.exp()
        assert equal(model.score(encoded, queries), total.log())


def test_a_few_questions_are_answered_from_their_rows_as_from_the_whole_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    timeline = make_timeline(3)
    model = Flagship(SMALL, timeline, torch.Generator().manual_seed(0)).double().eval()
    for weight in model.parameters():  # those that begin as zeros would hide a difference
        weight.data.normal_(0.0, 0.5, generator=torch.Generator().manual_seed(weight.numel()))
    windows, queries = windows_at(timeline, torch.tensor([4, 7])), all_queries(2)
    found, asked = [], []
    for answer in (True, False):

        def few(rows: Tensor, size: int, answer: bool = answer) -> bool:
            asked.append(size)
            return answer

        for module in (states, activity):
            monkeypatch.setattr(module, "few", few)
        with torch.no_grad():
            found.append(model.score(model.encode(timeline, windows), queries))
    assert asked
    assert equal(found[0], found[1])
    assert rows.few(torch.arange(3), 4) is False, "training takes whole tables"
    with torch.no_grad():
        assert [rows.few(torch.arange(n), 4) for n in (3, 4)] == [True, False]


@pytest.mark.parametrize(
    "left_out", [{"heads": ""}, {"subject": False}, {"heads": "pairs"}, {"compete": False}, {"activity": False}]
)
def test_a_branch_can_be_left_out(left_out: dict[str, Any]) -> None:
    timeline = make_timeline(3)
    windows, queries = windows_at(timeline, torch.tensor([4, 7])), all_queries(2)
    model = Flagship(replace(SMALL, **left_out), timeline, torch.Generator().manual_seed(0)).double()
    assert model(timeline, windows, queries, torch.Generator().manual_seed(0)).isfinite()


def test_sizes_follow_from_facts_and_device() -> None:
    size = Size(150_000, 300, 7_000, 200, "cuda")
    assert FlagshipSettings().by_rule(size) == {"dim": 200, "width": 128, "hops": 1, "runs": False}
    small = FlagshipSettings().by_rule(replace(size, device="cpu"))
    assert small == {"dim": 64, "width": 32, "hops": 1, "runs": False}
    lasting = FlagshipSettings().by_rule(replace(size, lasting=0.9))
    assert (lasting["hops"], lasting["runs"]) == (2, True)


def test_the_share_of_facts_that_last_is_counted_by_hand() -> None:
    facts = facts_like(make_facts(), [(0, 0, 1, 0), (0, 0, 1, 3), (1, 0, 0, 3), (0, 0, 1, 7), (2, 0, 0, 7)])
    for size in (Size.of_facts(facts, "cpu"), Size.of(build_timeline(facts))):
        assert size.lasting == 0.5, "of the four facts after the first step, two stood one step before"
    assert Size.of_facts(facts_like(facts, [(0, 0, 1, 0)]), "cpu").lasting == 0


def test_the_best_partners_are_looked_at_once() -> None:
    timeline = make_timeline(3)
    model = Flagship(SMALL, timeline, torch.Generator().manual_seed(0)).double().eval()
    scorer = next(iter(model.heads))
    assert isinstance(scorer, PairScorer)
    torch.nn.init.normal_(scorer.second.out, generator=torch.Generator().manual_seed(1))
    windows, queries = windows_at(timeline, torch.tensor([4, 7])), all_queries(2)
    with torch.no_grad():
        encoded = model.encode(timeline, windows)
        partners = find_partners(timeline, windows, queries, float(model.gap))
        found = scorer.score(partners, encoded.candidates.project, float(model.gap))
        assert equal(model.branches(encoded, queries, None)[1][0][2], found.value)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"width": 12}, "width must be a multiple of 8"),
        ({"stream": 0}, "stream must be at least 1"),
        ({"hops": 3}, "hops must be 1 or 2"),
        ({"auxiliary": -0.1}, "auxiliary must not be negative"),
        ({"smoothing": 1.0}, r"smoothing must lie in \[0, 1\)"),
        ({"pair_dropout": -0.5}, r"pair_dropout must lie in \[0, 1\)"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        FlagshipSettings(**settings)

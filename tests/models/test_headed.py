"""Any model takes any head: what a head says is added to the shares of the model as intensities."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from conftest import all_queries, equal, make_timeline
from tangokg.errors import ConfigError
from tangokg.history.head import Asked
from tangokg.history.heads import HEADS
from tangokg.history.partners import find_partners
from tangokg.models import MODELS
from tangokg.models.headed import Headed, HeadedSettings, no_states
from tangokg.snapshots.windows import windows_at

SMALL = {"dim": 4, "width": 8}


def with_needs(head: str) -> str:
    return ", ".join((*HEADS[head].needs, head))


def build(beside: str, heads: str) -> Headed:
    own = {name: size for name, size in SMALL.items() if hasattr(MODELS[beside].settings, name)}
    settings = HeadedSettings(heads=heads, width=8, beside=beside, own=own)
    model = MODELS["history"].build(settings, make_timeline(3), torch.Generator().manual_seed(0))
    assert isinstance(model, Headed)
    model = model.double()
    model.settle(make_timeline(3))
    return model.eval()


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("beside", [name for name in MODELS if name != "history"])
def test_the_intensities_of_a_head_are_added_to_the_shares_of_any_model(beside: str, head: str) -> None:
    timeline = make_timeline(3)
    model = build(beside, with_needs(head))
    windows, queries = windows_at(timeline, torch.tensor([4, 7])), all_queries(2)
    with torch.no_grad():
        encoded = model.encode(timeline, windows)
        shares = model.beside.probabilities(model.beside.score(encoded.own, queries))
        total = shares.double() + model.anyone.exp()
        partners = find_partners(timeline, windows, queries, float(model.gap))
        heads = model.heads(Asked(partners, no_states, float(model.gap)))
        assert any(len(row) for row, _, _ in heads)
        for row, o, value in heads:
            assert len(torch.unique(row * timeline.num_entities + o)) == len(row), "a candidate is scored once"
            total[row, o] += value.exp()
        assert equal(model.score(encoded, queries), total.log())
    loss = model(timeline, windows, queries, torch.Generator().manual_seed(0))
    loss.backward()
    assert any(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in model.heads.parameters())


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"heads": "pears"}, "unknown head 'pears'. Did you mean pairs"),
        ({"heads": "pairs, pairs"}, "named twice"),
        ({"heads": "paths"}, "comes after pairs"),
    ],
)
def test_impossible_heads_are_refused(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        HeadedSettings(**settings)


def test_an_unknown_model_beside_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown model 'cignet'"):
        MODELS["history"].build(HeadedSettings(beside="cignet"), make_timeline(3), torch.Generator())

"""CompGCN: where its scores begin, and the same on a GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from conftest import make_timeline
from tangokg.models import MODELS
from tangokg.models.compgcn import COMPOSITIONS, CompGCN
from tangokg.snapshots.windows import queries_at


@pytest.mark.parametrize("decoder", ["conve", "distmult"])
@pytest.mark.parametrize("dim", [16, 64, 256])
def test_first_scores_are_near_the_bias_however_many_dimensions(decoder: str, dim: int) -> None:
    """Where they are as large as the root of D, a binary loss has first to lower them all."""
    timeline = make_timeline(2)
    settings = replace(MODELS["compgcn"].settings, dim=dim, filters=4, kernel=3, decoder=decoder)
    model = MODELS["compgcn"].build(settings, timeline, torch.Generator().manual_seed(3)).train()
    assert isinstance(model, CompGCN)
    assert model.bias is not None
    queries = queries_at(timeline, torch.arange(1, 9))
    scores = model._scores(model.tables(None), queries, None)
    assert (scores - model.bias).std() < 1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_states_and_gradients_on_a_gpu_are_those_of_a_cpu(composition: str) -> None:
    found = []
    for device in ("cpu", "cuda"):
        settings = replace(MODELS["compgcn"].settings, dim=20, first_dim=10, filters=4, composition=composition)
        model = MODELS["compgcn"].build(settings, make_timeline(2), torch.Generator().manual_seed(3)).to(device).train()
        assert isinstance(model, CompGCN)
        tables = model.tables(None)
        tables.h.square().sum().add(tables.h_rel.square().sum()).backward()
        gradients = {name: p.grad.cpu() for name, p in model.named_parameters() if p.grad is not None}
        found.append({"h": tables.h.detach().cpu(), "h_rel": tables.h_rel.detach().cpu(), **gradients})
    assert found[0].keys() == found[1].keys()
    size = max(float(expected.abs().max()) for expected in found[0].values())  # a gradient may be zero but for rounding
    for name, expected in found[0].items():
        assert torch.allclose(found[1][name], expected, rtol=1e-4, atol=1e-5 * size), name

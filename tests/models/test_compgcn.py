"""CompGCN: where its scores begin."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from conftest import make_timeline
from tangokg.models import MODELS
from tangokg.models.compgcn import CompGCN
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

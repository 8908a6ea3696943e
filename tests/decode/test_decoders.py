"""Each decoder against its formula, one query at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from conftest import equal
from tangokg.decode import DECODERS, ConvTransE, TuckER
from tangokg.decode.decoders import _in_blocks, _one_by_one, grouped_product

D, B, LABELS = 5, 17, 6


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    h_s = torch.randn(B, D, dtype=torch.float64, generator=generator(1))
    h_rel = torch.randn(LABELS, D, dtype=torch.float64, generator=generator(2))
    return h_s, h_rel, torch.randint(1, LABELS, (B,), generator=generator(3))  # the first label is not asked


def convolved(decoder: ConvTransE, h_s: Tensor, h_r: Tensor) -> Tensor:
    """ConvTransE's query vector (D,), one kernel entry after the other."""
    maps = torch.zeros(decoder.CHANNELS, D, dtype=torch.float64)
    for d in range(D):
        for i, x in enumerate((h_s, h_r)):
            for k in (-1, 0, 1):
                if 0 <= d + k < D:
                    maps[:, d] += decoder.kernel[:, i, k + 1] * x[d + k]
    out = torch.relu(maps).flatten() @ decoder.linear
    out = (out - out.mean()) / (out.var(unbiased=False) + decoder.norm.eps) ** 0.5
    return torch.relu(out * decoder.norm.weight + decoder.norm.bias)


def formula(name: str, decoder: torch.nn.Module, h_s: Tensor, h_rel: Tensor, r: Tensor) -> Tensor:
    """Query vectors in evaluation mode, from the sums of the docstrings."""
    if name == "distmult":
        return torch.stack([h_s[b] * h_rel[r[b]] for b in range(len(r))])
    if isinstance(decoder, ConvTransE):
        return torch.stack([convolved(decoder, h_s[b], h_rel[r[b]]) for b in range(len(r))])
    assert isinstance(decoder, TuckER)

    def norm(x: Tensor, layer: torch.nn.BatchNorm1d) -> Tensor:
        assert layer.running_mean is not None
        assert layer.running_var is not None
        return (x - layer.running_mean) / (layer.running_var + layer.eps) ** 0.5 * layer.weight + layer.bias

    core = decoder.core.view(D, D, D)  # relation, subject, object
    x = norm(h_s, decoder.norm_in)
    rows = [sum(h_rel[r[b], j] * x[b, i] * core[j, i] for i in range(D) for j in range(D)) for b in range(len(r))]
    return norm(torch.stack(rows), decoder.norm_out)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", DECODERS)
def test_the_formula_one_query_at_a_time(name: str) -> None:
    decoder = DECODERS[name](D, 0.4, generator()).double()
    h_s, h_rel, r = inputs()
    for _ in range(3):
        decoder(h_s, h_rel, r, generator())  # moves the running means
    decoder.eval()
    assert equal(decoder(h_s, h_rel, r), formula(name, decoder, h_s, h_rel, r))


@pytest.mark.parametrize("name", DECODERS)
def test_dropout_needs_a_generator_and_is_made_by_it(name: str) -> None:
    decoder = DECODERS[name](D, 0.4, generator()).double()
    same = DECODERS[name](D, 0.4, generator()).double()
    plain = DECODERS[name](D, 0.0, generator()).double()
    h_s, h_rel, r = inputs()
    assert torch.equal(decoder(h_s, h_rel, r), plain(h_s, h_rel, r))
    assert torch.equal(decoder(h_s, h_rel, r, generator(4)), same(h_s, h_rel, r, generator(4)))
    assert not torch.equal(decoder(h_s, h_rel, r, generator(4)), plain(h_s, h_rel, r, generator(4)))


@pytest.mark.parametrize("name", DECODERS)
def test_gradients_reach_every_input_and_parameter(name: str) -> None:
    decoder = DECODERS[name](D, 0.0, generator()).double()
    h_s, h_rel, r = inputs()
    tensors = (h_s.requires_grad_(), h_rel.requires_grad_(), *decoder.parameters())

    def query(*_: Tensor) -> Tensor:
        return decoder(h_s, h_rel, r)  # type: ignore[no-any-return]

    assert torch.autograd.gradcheck(query, tensors, atol=1e-5)


@pytest.mark.parametrize("product", [_one_by_one, partial(_in_blocks, width=2), partial(_in_blocks, width=32)])
def test_a_grouped_product_equals_one_by_one_also_with_empty_groups(
    product: Callable[..., Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tangokg.decode.decoders._one_by_one", product)
    x = torch.randn(B, D, dtype=torch.float64, generator=generator(5), requires_grad=True)
    matrices = torch.randn(4, D, 3, dtype=torch.float64, generator=generator(6), requires_grad=True)
    group = torch.tensor([3, 0, 3, 1] * 5)[:B]  # none in group 2
    expected = torch.stack([x[b] @ matrices[group[b]] for b in range(B)])
    found = grouped_product(x, group, matrices)
    assert equal(found, expected)
    look = torch.randn(B, 3, dtype=torch.float64, generator=generator(7))
    for a, b in zip(
        torch.autograd.grad((found * look).sum(), (x, matrices)),
        torch.autograd.grad((expected * look).sum(), (x, matrices)),
        strict=True,
    ):
        assert equal(a, b)

"""Each decoder against its formula, one query at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from conftest import equal
from tangokg.decode import DECODERS, ConvE, ConvTransE, ConvTransEDecoding, Decoder, TuckER
from tangokg.decode.decoders import _in_blocks, grouped_product
from tangokg.errors import ConfigError

D, B, LABELS = 5, 17, 6


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    h_s = torch.randn(B, D, dtype=torch.float64, generator=generator(1))
    h_rel = torch.randn(LABELS, D, dtype=torch.float64, generator=generator(2))
    return h_s, h_rel, torch.randint(1, LABELS, (B,), generator=generator(3))  # the first label is not asked


def make(name: str, **settings: Any) -> Decoder:
    """A decoder with some settings of its own."""
    decoder = DECODERS[name]
    return decoder(decoder.settings(**settings), D, generator()).double()


def convolved(decoder: ConvTransE, h_s: Tensor, h_r: Tensor) -> Tensor:
    """ConvTransE's query vector (D,), one kernel entry after the other."""
    maps = torch.zeros(len(decoder.kernel), D, dtype=torch.float64)
    for d in range(D):
        for i, x in enumerate((h_s, h_r)):
            for k in range(-(decoder.kernel.shape[2] // 2), decoder.kernel.shape[2] // 2 + 1):
                if 0 <= d + k < D:
                    maps[:, d] += decoder.kernel[:, i, k + decoder.kernel.shape[2] // 2] * x[d + k]
    out = torch.relu(maps).flatten() @ decoder.linear
    out = (out - out.mean()) / (out.var(unbiased=False) + decoder.norm.eps) ** 0.5
    return torch.relu(out * decoder.norm.weight + decoder.norm.bias)


def norm(x: Tensor, layer: torch.nn.Module) -> Tensor:
    """A batch normalisation in evaluation mode, of features in the first dimension or in the last."""
    shape = (-1, *[1] * (x.dim() - 1)) if x.dim() == 3 else (-1,)
    own: dict[str, Tensor] = {name: value.view(shape) for name, value in layer.state_dict().items() if value.dim()}
    scale = own["weight"] / (own["running_var"] + 1e-5) ** 0.5
    return (x - own["running_mean"]) * scale + own["bias"]


def of_image(decoder: ConvE, h_s: Tensor, h_r: Tensor) -> Tensor:
    """ConvE's query vector (D,), one window of the image after the other."""
    image = norm(torch.stack([h_s, h_r], 1).view(1, *decoder.image), decoder.norm_image)[0]
    height, width = decoder.kernels.shape[2:]
    windows = [
        [image[i : i + height, j : j + width] for j in range(decoder.image[1] - width + 1)]
        for i in range(decoder.image[0] - height + 1)
    ]
    maps = torch.stack([torch.stack([(w * k[0]).sum() for row in windows for w in row]) for k in decoder.kernels])
    maps = torch.relu(norm(maps[..., None], decoder.norm_maps))
    return torch.relu(norm(decoder.projection @ maps.flatten() + decoder.shift, decoder.norm_query))


def formula(name: str, decoder: torch.nn.Module, h_s: Tensor, h_rel: Tensor, r: Tensor) -> Tensor:
    """Query vectors in evaluation mode, from the sums of the docstrings."""
    if name == "distmult":
        return torch.stack([h_s[b] * h_rel[r[b]] for b in range(len(r))])
    if isinstance(decoder, ConvTransE):
        return torch.stack([convolved(decoder, h_s[b], h_rel[r[b]]) for b in range(len(r))])
    if isinstance(decoder, ConvE):
        return torch.stack([of_image(decoder, h_s[b], h_rel[r[b]]) for b in range(len(r))])
    assert isinstance(decoder, TuckER)
    core = decoder.core.view(D, D, D)  # relation, subject, object
    x = norm(h_s, decoder.norm_in)
    rows = [sum(h_rel[r[b], j] * x[b, i] * core[j, i] for i in range(D) for j in range(D)) for b in range(len(r))]
    return norm(torch.stack(rows), decoder.norm_out)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", DECODERS)
def test_the_formula_one_query_at_a_time(name: str) -> None:
    decoder = make(name, dropout=0.4)
    h_s, h_rel, r = inputs()
    for _ in range(3):
        decoder(h_s, h_rel, r, generator())  # moves the running means
    decoder.eval()
    assert equal(decoder(h_s, h_rel, r), formula(name, decoder, h_s, h_rel, r))


@pytest.mark.parametrize("name", DECODERS)
def test_dropout_needs_a_generator_and_is_made_by_it(name: str) -> None:
    decoder = make(name, dropout=0.4)
    same = make(name, dropout=0.4)
    plain = make(name)
    h_s, h_rel, r = inputs()
    assert torch.equal(decoder(h_s, h_rel, r), plain(h_s, h_rel, r))
    assert torch.equal(decoder(h_s, h_rel, r, generator(4)), same(h_s, h_rel, r, generator(4)))
    assert not torch.equal(decoder(h_s, h_rel, r, generator(4)), plain(h_s, h_rel, r, generator(4)))


@pytest.mark.parametrize(
    ("name", "setting"), [(n, f.name) for n in DECODERS for f in fields(DECODERS[n].settings) if "dropout" in f.name]
)
def test_each_dropout_acts_by_itself_and_in_training_alone(name: str, setting: str) -> None:
    decoder, plain = make(name, **{setting: 0.5}), make(name)
    h_s, h_rel, r = inputs()
    assert not torch.equal(decoder(h_s, h_rel, r, generator(4)), plain(h_s, h_rel, r, generator(4)))
    plain.load_state_dict(decoder.state_dict())
    assert torch.equal(decoder.eval()(h_s, h_rel, r), plain.eval()(h_s, h_rel, r))


@pytest.mark.parametrize("name", DECODERS)
def test_a_rate_of_its_own_replaces_the_common_one(name: str) -> None:
    rates = [f.name for f in fields(DECODERS[name].settings) if f.name.startswith("dropout_")]
    h_s, h_rel, r = inputs()
    decoder = make(name, dropout=0.5, **dict.fromkeys(rates, 0.0))
    unchanged = torch.equal(decoder(h_s, h_rel, r, generator(4)), make(name)(h_s, h_rel, r, generator(4)))
    assert unchanged == bool(rates)


@pytest.mark.parametrize("name", DECODERS)
def test_sizes_of_a_decoder_are_its_own(name: str) -> None:
    """Each size changes the shape of some weight, and the formula holds for it."""
    shapes = [p.shape for p in make(name).parameters()]
    for size in [f.name for f in fields(DECODERS[name].settings) if isinstance(f.default, int)]:
        decoder = make(name, **{size: 1})
        assert [p.shape for p in decoder.parameters()] != shapes
        h_s, h_rel, r = inputs()
        assert equal(decoder.eval()(h_s, h_rel, r), formula(name, decoder, h_s, h_rel, r))


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        (n, f.name, value)
        for n in DECODERS
        for f in fields(DECODERS[n].settings)
        for value in ((0,) if isinstance(f.default, int) else (-0.1, 1.0))
    ],
)
def test_impossible_settings_are_refused(name: str, setting: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"{setting} must"):
        make(name, **{setting: value})
    with pytest.raises(ConfigError, match="kernel must be an odd number, found 4"):
        ConvTransEDecoding(kernel=4)


@pytest.mark.parametrize("name", DECODERS)
def test_gradients_reach_every_input_and_parameter(name: str) -> None:
    decoder = make(name)
    h_s, h_rel, r = inputs()
    tensors = (h_s.requires_grad_(), h_rel.requires_grad_(), *decoder.parameters())

    def query(*_: Tensor) -> Tensor:
        return decoder(h_s, h_rel, r)  # type: ignore[no-any-return]

    assert torch.autograd.gradcheck(query, tensors, atol=1e-5)


def in_blocks(x: Tensor, group: Tensor, matrices: Tensor, width: int) -> Tensor:
    """As on a GPU, which brings the rows of a group together first."""
    order = torch.argsort(group, stable=True)
    return _in_blocks(x[order], group[order], matrices, width)[torch.argsort(order)]


@pytest.mark.parametrize("product", [grouped_product, partial(in_blocks, width=2), partial(in_blocks, width=32)])
def test_a_grouped_product_equals_one_by_one_also_with_empty_groups(product: Callable[..., Tensor]) -> None:
    x = torch.randn(B, D, dtype=torch.float64, generator=generator(5), requires_grad=True)
    matrices = torch.randn(4, D, 3, dtype=torch.float64, generator=generator(6), requires_grad=True)
    group = torch.tensor([3, 0, 3, 1] * 5)[:B]  # none in group 2
    expected = torch.stack([x[b] @ matrices[group[b]] for b in range(B)])
    found = product(x, group, matrices)
    assert equal(found, expected)
    look = torch.randn(B, 3, dtype=torch.float64, generator=generator(7))
    for a, b in zip(
        torch.autograd.grad((found * look).sum(), (x, matrices)),
        torch.autograd.grad((expected * look).sum(), (x, matrices)),
        strict=True,
    ):
        assert equal(a, b)

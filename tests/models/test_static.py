"""The static baselines against twins that go through facts, edges and queries one at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import batch_norm, binary_cross_entropy_with_logits, cross_entropy

from conftest import N, R, all_queries, equal, facts_like, make_dataset, make_facts, make_timeline, make_vocab
from tangokg.decode import ConvE, ConvEDecoding, TuckER, TuckERDecoding, conve, decoders
from tangokg.errors import ConfigError
from tangokg.models import MODELS, compgcn
from tangokg.models.compgcn import COMPOSITIONS, CompGCN, CompGCNSettings
from tangokg.models.static import (
    DistMultSettings,
    Static,
    StaticDistMult,
    StaticTuckER,
    TuckERSettings,
)
from tangokg.quads.values import concatenate
from tangokg.snapshots.rows import Edges
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import Queries, queries_at, windows_at
from tangokg.train import RunConfig, TrainSettings, fit
from tangokg.train.warmstart import adopt

TARGET = torch.arange(1, 9)
STATIC = ("distmult", "tucker", "compgcn")


def small_settings(name: str, **more: Any) -> Any:
    settings, small = MODELS[name].settings, {"dim": 6, "first_dim": 4, "filters": 3, "kernel": 2} | more
    return replace(settings, **{key: value for key, value in small.items() if hasattr(settings, key)})


def make_model(name: str, timeline: Timeline, **more: Any) -> Static:
    """In float64 and evaluation mode, small."""
    model = MODELS[name].build(small_settings(name, **more), timeline, torch.Generator().manual_seed(3)).double()
    assert isinstance(model, Static)
    return model.eval()


def scores_of(model: Static, timeline: Timeline, queries: Queries) -> Tensor:
    return model.score(model.encode(timeline, windows_at(timeline, TARGET)), queries)


# The loss


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("loss", ["bce", "bce-asked"])
@pytest.mark.parametrize("name", STATIC)
def test_the_binary_losses_are_those_of_targets_for_every_candidate(name: str, loss: str, smoothing: float) -> None:
    timeline = make_timeline(2)
    none = {key: 0.0 for key in vars(MODELS[name].settings) if "drop" in key}
    model = make_model(name, timeline, loss=loss, smoothing=smoothing, **none)
    queries = queries_at(timeline, TARGET)
    scores = scores_of(model, timeline, queries)
    facts = set(zip(timeline.s.tolist(), timeline.r.tolist(), timeline.o.tolist(), strict=True))
    total = 0.0
    asked = zip(scores, queries.s.tolist(), queries.r.tolist(), queries.answer.tolist(), strict=True)
    for x, s, r, answer in asked:
        true = [(s, r, o) in facts if loss == "bce" else o == answer for o in range(N)]
        y = torch.tensor(true, dtype=torch.float64)
        y = (1 - smoothing) * y + 1 / N if smoothing else y
        total += binary_cross_entropy_with_logits(x, y, reduction="sum").item()
    found = model(timeline, windows_at(timeline, TARGET), queries, torch.Generator())
    assert found.item() == pytest.approx(total / len(queries), rel=1e-9)


@pytest.mark.parametrize("name", STATIC)
def test_the_other_loss_is_the_cross_entropy_of_the_answers(name: str) -> None:
    timeline = make_timeline(2)
    model = make_model(name, timeline, loss="ce", **{key: 0.0 for key in vars(MODELS[name].settings) if "drop" in key})
    queries = queries_at(timeline, TARGET)
    scores = scores_of(model, timeline, queries)
    loss = model(timeline, windows_at(timeline, TARGET), queries, torch.Generator())
    assert equal(loss, cross_entropy(scores, queries.answer))
    assert equal(model.probabilities(scores), scores.softmax(1))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("loss", ["bce", "bce-asked"])
def test_scores_begin_at_the_log_odds_of_the_mean_target(loss: str, smoothing: float) -> None:
    timeline = make_timeline(2)
    facts = list(zip(timeline.s.tolist(), timeline.r.tolist(), timeline.o.tolist(), strict=True))
    known = set(facts)
    true = sum((s, r, e) in known if loss == "bce" else e == o for s, r, o in facts for e in range(N))
    mean = (1 - smoothing) * true / (N * len(facts)) + (smoothing > 0) / N
    for name in STATIC:
        bias = make_model(name, timeline, loss=loss, smoothing=smoothing).bias
        assert bias is not None
        assert torch.allclose(bias.sigmoid(), torch.tensor(mean, dtype=bias.dtype))
        assert bias.shape == ((N,) if name == "compgcn" else ())
    assert make_model("distmult", timeline, loss="ce").bias is None


def test_probabilities_are_shares_of_each_candidates_own() -> None:
    model = make_model("distmult", make_timeline(2))
    scores = torch.tensor([[30.0, 2.0, -1.0], [-200.0, -201.0, -200.0]], dtype=torch.float64)
    p = scores.sigmoid()
    assert equal(model.probabilities(scores), p / p.sum(1, keepdim=True))


# Decoders


def test_scores_of_distmult_and_tucker_one_query_at_a_time() -> None:
    timeline, queries = make_timeline(2), all_queries(1)
    generator = torch.Generator().manual_seed(1)
    distmult = StaticDistMult(DistMultSettings(dim=4), timeline, generator).double().eval()
    tucker = StaticTuckER(TuckERSettings(dim=4, loss="bce"), timeline, generator).double().eval()
    core: Any = tucker.decoder.core
    of_distmult: Any = distmult.bias
    of_tucker: Any = tucker.bias
    for i in range(0, len(queries), 5):
        one = queries.select(slice(i, i + 1))
        s, r = int(one.s), int(one.r)
        expected = torch.stack([(distmult.entities[s] * distmult.relations[r] * e).sum() for e in distmult.entities])
        assert equal(scores_of(distmult, timeline, one)[0], expected + of_distmult)
        scale = (1 + 1e-5) ** -0.5  # a batch normalisation that has seen nothing
        matrix = torch.einsum("r,rij->ij", tucker.relations[r], core.view(4, 4, 4))
        expected = tucker.entities @ (tucker.entities[s] * scale @ matrix * scale)
        assert equal(scores_of(tucker, timeline, one)[0], expected + of_tucker)


def test_first_weights_of_distmult_have_the_size_of_the_setting() -> None:
    timeline = make_timeline(2)
    sizes = [make_model("distmult", timeline, dim=200, init_size=size).entities.std().item() for size in (0.0, 0.9)]
    assert sizes == pytest.approx([(2 / (N + 200)) ** 0.5, 0.9], rel=0.1)


def test_a_training_step_of_tucker_is_the_decoder_with_a_matrix_for_each_query() -> None:
    generator = torch.Generator().manual_seed(1)
    h, h_rel = (torch.randn(7, 5, dtype=torch.float64, generator=generator) for _ in range(2))
    r = torch.tensor([3, 0, 3, 3, 1, 0, 3])
    decoder = TuckER(TuckERDecoding(0.0, 0.0, 1e-9, 0.0), 5, generator).double()
    assert equal(decoder(h, h_rel, r, generator), decoder(h, h_rel, r))
    decoder = TuckER(TuckERDecoding(0.0, 0.0, 0.5, 0.0), 5, generator).double()
    same = h[:1].expand(7, -1) + 1e-9 * h  # a normalisation needs some difference
    query = decoder.eval()(same, h_rel, torch.full_like(r, 3), generator)
    assert (query[1:] - query[:1]).abs().max(1).values.min() > 1e-3, "queries share a mask"
    for place in range(3):
        rates = tuple(0.5 if i == place else 0.0 for i in range(3))
        decoder = TuckER(TuckERDecoding(0.0, *rates), 5, torch.Generator().manual_seed(1)).double()
        drawn = [decoder(h, h_rel, r, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
        assert torch.equal(drawn[0], drawn[1])
        assert not equal(drawn[0], drawn[2], 1e-3)


def test_the_core_of_tucker_begins_as_that_of_its_authors() -> None:
    """Uniform between -1 and 1."""
    core: Any = make_model("tucker", make_timeline(2), dim=20).decoder.core
    assert 0.99 < core.max() <= 1
    assert -1 <= core.min() < -0.99
    assert core.square().mean().item() == pytest.approx(1 / 3, rel=0.05)


DROPPED = {  # in the order of a step; CompGCN has a sum of messages for each direction
    "distmult": ["dropout"],
    "tucker": ["dropout_subject", "dropout_matrix", "dropout_query"],
    "compgcn": ["dropout", "dropout", "dropout_states", "dropout_features", "dropout_query"],
}
AXES = {"dropout_matrix": 3, "dropout_features": 4}  # of what the masks fall on; else 2


@pytest.mark.parametrize("name", STATIC)
def test_every_rate_of_dropout_falls_where_its_setting_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    timeline, heard = make_timeline(2), []
    rates = {key: 0.1 * place for place, key in enumerate(dict.fromkeys(DROPPED[name]), 1)}

    def spy(x: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
        heard.append((rate, x.dim()))
        return x

    for module in (compgcn, conve, decoders):
        monkeypatch.setattr(module, "dropout", spy)
    model = make_model(name, timeline, **rates)
    model(timeline, windows_at(timeline, TARGET), queries_at(timeline, TARGET), torch.Generator())
    assert heard == [(rates[key], AXES.get(key, 2)) for key in DROPPED[name]]


def test_conve_equals_sums_over_an_image_of_both_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(1)
    decoder = ConvE(ConvEDecoding(0.4, 3, 2), 6, generator).double().eval()
    h, h_rel = (torch.randn(9, 6, dtype=torch.float64, generator=generator) for _ in range(2))
    r = torch.tensor([3, 0, 3, 3, 1, 0, 3, 8, 7])
    scale = (1 + 1e-5) ** -0.5
    monkeypatch.setattr(conve, "AT_ONCE", 4)
    for query, own, label in zip(decoder(h, h_rel, r), h, r.tolist(), strict=True):
        image = torch.stack([x for pair in zip(own, h_rel[label], strict=True) for x in pair]).view(4, 3) * scale
        maps = [
            torch.relu((image[i : i + 2, j : j + 2] * kernel[0]).sum() * scale)
            for kernel in decoder.kernels
            for i in range(3)
            for j in range(2)
        ]
        expected = decoder.projection @ torch.stack(maps) + decoder.shift
        assert equal(query, torch.relu(expected * scale))


def test_the_published_sizes_of_conve() -> None:
    with torch.device("meta"):
        decoder = ConvE(ConvEDecoding(0.3, 200, 7), 200, torch.Generator())
    assert decoder.image == (20, 20)
    assert decoder.projection.shape == (200, 200 * 14 * 14)


# The convolution


def composed(name: str, h: Tensor, w: Tensor) -> Tensor:
    if name == "corr":
        d = len(h)
        return torch.stack([sum((h[i] * w[(i + k) % d] for i in range(d)), h.new_zeros(())) for k in range(d)])
    return h - w if name == "sub" else h * w


@pytest.mark.parametrize("dim", [4, 5])
@pytest.mark.parametrize("name", COMPOSITIONS)
def test_a_convolution_and_its_gradients_equal_edge_by_edge(name: str, dim: int) -> None:
    timeline = make_timeline(2)
    model = CompGCN(CompGCNSettings(dim=3, first_dim=dim, composition=name), timeline, torch.Generator()).double()
    layer: Any = model.layers[0]
    h, h_rel = model.entities, model.relations
    facts = sorted(set(zip(timeline.s.tolist(), timeline.r.tolist(), timeline.o.tolist(), strict=True)))
    rows = []
    for e in range(N):
        total = composed(name, h[e], layer.loop[0]) @ layer.of_loop
        for half, weight in ((range(R), layer.of_stated), (range(R, 2 * R), layer.of_reciprocal)):
            own = [(s, r, o) for s, r, o in facts if r in half]
            hears = [(r, o) for s, r, o in own if s == e]
            for r, o in hears:
                told = sum(fact[2] == o for fact in own)
                total = total + composed(name, h[o], h_rel[r]) @ weight / (len(hears) * told) ** 0.5
        rows.append(total / 3)
    expected = torch.tanh(batch_norm(torch.stack(rows), None, None, training=True)), h_rel @ layer.of_relation
    found = layer(h, h_rel, model.edges, None)
    assert equal(found[0], expected[0])
    assert equal(found[1], expected[1])
    inputs = [h, h_rel, layer.loop, layer.of_stated, layer.of_reciprocal, layer.of_loop, layer.of_relation]
    grads = [torch.autograd.grad((a**3).sum() + (b**3).sum(), inputs) for a, b in (found, expected)]
    assert all(equal(*pair) for pair in zip(*grads, strict=True))


def test_the_graph_is_the_union_over_time_and_is_not_saved() -> None:
    facts = make_facts(2)
    again = replace(facts, t=facts.t + 100)
    once, twice = (make_model("compgcn", build_timeline(f)) for f in (facts, concatenate([facts, again])))
    assert isinstance(once, CompGCN)
    assert isinstance(twice, CompGCN)
    for name in ("s", "r", "o", "weight"):
        assert torch.equal(getattr(once, name), getattr(twice, name))
        assert name not in once.state_dict()
    edges: Edges = once.edges
    assert edges is once.edges
    assert once.float().edges is not edges, "the graph follows the device and the precision"


def test_dropouts_of_compgcn_are_drawn_from_the_generator_alone() -> None:
    timeline = make_timeline(2)
    windows, queries = windows_at(timeline, TARGET), queries_at(timeline, TARGET)
    rates = ("dropout", "dropout_states", "dropout_features", "dropout_query")
    for only in rates:
        more = dict.fromkeys(rates, 0.0) | {only: 0.5}
        model = make_model("compgcn", timeline, layers=2, **more)
        losses = [model(timeline, windows, queries, torch.Generator().manual_seed(seed)).item() for seed in (1, 1, 2)]
        assert losses[0] == losses[1] != losses[2], only


# Models


@pytest.mark.parametrize(
    "more", [{}, {"decoder": "distmult", "composition": "mult", "layers": 2}, {"composition": "sub"}]
)
def test_every_weight_of_compgcn_is_learned(more: dict[str, Any]) -> None:
    timeline = make_timeline(2)
    model = make_model("compgcn", timeline, **more).train()
    model(timeline, windows_at(timeline, TARGET), queries_at(timeline, TARGET), torch.Generator()).backward()
    still = {name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 1e-9}
    taken_off = {"decoder.norm_image.bias", "decoder.shift"} | ({"layers.0.loop"} if "sub" in more.values() else set())
    assert still <= taken_off, "of what is the same for all rows a normalisation leaves nothing; all else must learn"


@pytest.mark.parametrize("name", STATIC)
def test_new_names_have_the_mean_of_all_and_answers_are_the_same_at_all_times(name: str) -> None:
    timeline, facts = make_timeline(2), make_facts(2)
    model = make_model(name, timeline)
    with torch.no_grad():
        if isinstance(model, CompGCN) and model.bias is not None:
            model.bias.copy_(torch.linspace(-1, 1, N))
    tables, known = model.encode(timeline, windows_at(timeline, TARGET)), model.tables(None)
    more = facts_like(facts, [(N, R, 0, 90)])
    later = build_timeline(replace(concatenate([facts, more]), vocab=make_vocab(N + 1, R + 1)))
    grown = model.encode(later, windows_at(later, torch.tensor([len(later) - 1])))
    assert torch.equal(grown.h[:N], tables.h)
    assert equal(grown.h[N], known.h.mean(0))
    assert equal(grown.h_rel[[R, 2 * R + 1]], known.h_rel.view(2, R, -1).mean(1))
    if isinstance(model, CompGCN) and grown.bias is not None and known.bias is not None:
        assert equal(grown.bias[N], known.bias.mean())


@pytest.mark.parametrize("name", STATIC)
def test_training_by_questions_and_going_on_from_a_run(name: str) -> None:
    dataset = make_dataset(1)
    settings = small_settings(name)
    train = TrainSettings(epochs=2, batch_queries=16, learning_rate=0.01, device="cpu", precision="64-true", clip=0.0)
    model, progress = fit(dataset, RunConfig(name, settings, train))
    assert [row["epoch"] for row in progress.log] == [1, 2]
    other = MODELS[name].build(settings, build_timeline(dataset.valid), torch.Generator().manual_seed(5)).double()
    adopt(other, model, dataset.vocab, dataset.vocab)
    assert all(torch.equal(tensor, other.state_dict()[key]) for key, tensor in model.state_dict().items())


@pytest.mark.parametrize(
    ("settings", "values", "text"),
    [
        (DistMultSettings, {"dim": 0}, "dim must be at least 1"),
        (DistMultSettings, {"loss": "mse"}, "loss 'mse' is unknown; choose one of bce, bce-asked, ce"),
        (TuckERSettings, {"dropout_matrix": 1.0}, r"dropout_matrix must lie in \[0, 1\)"),
        (CompGCNSettings, {"composition": "add"}, "choose one of sub, mult, corr"),
        (CompGCNSettings, {"decoder": "tucker"}, "choose one of conve, distmult"),
        (CompGCNSettings, {"smoothing": -0.1}, "smoothing must lie in"),
    ],
)
def test_impossible_settings_are_refused(settings: Any, values: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        settings(**values)

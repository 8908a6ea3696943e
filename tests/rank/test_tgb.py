"""The protocol of TGB against py-tgb itself: its parts, its negatives, its evaluator, on sets in its layout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import tangokg as tk
from conftest import N, make_timeline
from experiments.tgb_negatives import convert
from tangokg.cli import main
from tangokg.forecast import Forecaster
from tangokg.models.protocol import Model
from tangokg.quads import Dataset, find
from tangokg.rank import Listed, evaluate, horizon, inductive, listed, tgb
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import Queries, Windows
from tgb_layout import SETS, Official, draw_negatives, open_set, write_set

ROUNDING = 2e-6  # py-tgb divides in 32 bits
PARTS = {"valid": "val", "test": "test"}


@pytest.fixture(scope="module", params=SETS)
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Official, Dataset]:
    """A set, as py-tgb reads it and as we do, with negatives."""
    name = request.param
    folder = write_set(tmp_path_factory.mktemp("tgb"), name)
    official = open_set(folder, name)
    draw_negatives(official, folder, name)
    return name, official, find(folder, format="tgb")


def by_name(official: Official, part: str) -> set[tuple[str, str, str, int]]:
    """The facts of a part with names, without the reciprocal ones."""
    entities, relations = official.entities, official.relations
    rows = [row for row in zip(*official.part(part), strict=True) if row[3] < len(relations)]
    return {(entities[s], relations[r], entities[o], int(t)) for s, o, t, r in rows}


def test_the_parts_are_those_of_py_tgb(opened: tuple[str, Official, Dataset]) -> None:
    name, official, dataset = opened
    assert dataset.name == name
    steps = np.unique(dataset.facts.t)
    times = np.unique(official.data.full_data["timestamps"])
    vocab, step = dataset.vocab, dict(zip(times.tolist(), steps.tolist(), strict=True))
    for part, short in {"train": "train", **PARTS}.items():
        own = dataset.parts[part]
        named = {
            (vocab.entities[s], vocab.relations[r], vocab.entities[o], int(t))
            for s, r, o, t in zip(own.s, own.r, own.o, own.t, strict=True)
        }
        assert named == {(s, r, o, step[t]) for s, r, o, t in by_name(official, short)}
        assert len(named) > 20


class Drawn(Model):
    """Scores below ``levels``, drawn for each question, time and candidate: with few levels, nearly all are tied."""

    def __init__(self, levels: int) -> None:
        super().__init__()
        self.levels = levels

    def encode(self, timeline: Timeline, windows: Windows) -> tuple[int, Windows]:
        return timeline.num_entities, windows

    def score(self, encoded: tuple[int, Windows], queries: Queries) -> Tensor:
        size, windows = encoded
        question = 7919 * queries.s + 104729 * queries.r + 31 * windows.t[queries.window].long()
        mixed = (question[:, None] * (torch.arange(size) + 11)) % 1009 * 48271 % 2147483647
        return (mixed % self.levels).float()


def scores_by_question(forecaster: Forecaster, part: str) -> dict[tuple[int, int, float], Tensor]:
    """(s, label, t) -> scores of all entities, of every question of a part."""
    timeline = build_timeline(forecaster.facts)
    target = torch.searchsorted(timeline.t, torch.from_numpy(np.unique(forecaster.dataset.parts[part].t)).double())
    windows, queries = tgb().ask(timeline, target)
    model = forecaster.model
    with torch.inference_mode():
        encoded = model.encode(timeline, windows)
        scores = model.score_sparsely(encoded, queries).dense() if model.sparse else model.score(encoded, queries)
    asked = zip(queries.s.tolist(), queries.r.tolist(), windows.t[queries.window].tolist(), strict=True)
    return dict(zip(asked, scores, strict=True))


def official_figures(official: Official, dataset: Dataset, part: str, scores: dict[Any, Tensor]) -> tuple[float, float]:
    """MRR and Hits@10 as the examples of py-tgb take them: question by question, then the mean."""
    from tgb.linkproppred.evaluate import Evaluator

    vocab, name = dataset.vocab, official.data.name
    entity, relation = (np.array(ids) for ids in vocab.ids_of(official.entities, official.relations))
    step = dict(
        zip(*(np.unique(t).tolist() for t in (official.data.full_data["timestamps"], dataset.facts.t)), strict=True)
    )
    s, o, t, r = official.part(PARTS[part])
    label = relation[r % len(relation)] + len(relation) * (r // len(relation))
    negatives = official.data.negative_sampler.query_batch(s, o, t, r, split_mode=PARTS[part])
    evaluator, reciprocal, hits = Evaluator(name), [], []
    for row, own in enumerate(negatives):
        x = scores[int(entity[s[row]]), int(label[row]), float(step[int(t[row])])].numpy()
        asked = {"y_pred_pos": x[[entity[o[row]]]], "y_pred_neg": x[entity[own]], "eval_metric": ["mrr"]}
        figures = evaluator.eval(asked)
        reciprocal.append(figures["mrr"])
        hits.append(figures["hits@10"])
    return 100 * float(np.mean(reciprocal, dtype=np.float64)), 100 * float(np.mean(hits, dtype=np.float64))


MODELS: dict[str, Callable[[Dataset], Forecaster]] = {
    "many ties": lambda dataset: with_model(Drawn(3), dataset),
    "few ties": lambda dataset: with_model(Drawn(1000), dataset),
    "one score for all": lambda dataset: with_model(Drawn(1), dataset),
    "a trained counter": lambda dataset: tk.fit(dataset, "recurrency", device="cpu", verbose=False),
}


def with_model(model: Model, dataset: Dataset) -> Forecaster:
    counter = tk.fit(dataset, "copy-last", device="cpu", verbose=False)
    return Forecaster(model, dataset, counter.config)


@pytest.mark.parametrize("model", MODELS)
def test_figures_are_those_of_the_official_evaluator(opened: tuple[str, Official, Dataset], model: str) -> None:
    name, official, dataset = opened
    forecaster = MODELS[model](dataset)
    folder = Path(official.data.root)
    lists = dict(zip(PARTS, convert(folder, name), strict=True)) if SETS[name][2] == "dst-time-filtered" else {}
    for part in PARTS:
        metrics = forecaster.evaluate(part, "tgb", candidates=lists.get(part))
        mrr, hits = official_figures(official, dataset, part, scores_by_question(forecaster, part))
        assert metrics["tgb"].mrr == pytest.approx(mrr, rel=ROUNDING)
        assert metrics["tgb"].hits[10] == pytest.approx(hits, rel=ROUNDING)
        assert metrics.queries == 2 * len(dataset.parts[part])
        assert ("raw" if lists else "time-aware") in metrics.ranks


def test_lists_of_any_length_are_ranked_as_the_official_evaluator_ranks_them() -> None:
    """True facts and the answer itself may stand in a list, which may also be empty."""
    from tgb.linkproppred.evaluate import Evaluator

    timeline, model = make_timeline(3), Drawn(4)
    target, rng = torch.arange(4, len(timeline)), np.random.default_rng(0)
    asked: dict[tuple[int, int, float], Tensor] = {}

    def candidates(queries: Queries, t: Tensor) -> Listed:
        """A list for each (s, r, t), whatever its answer."""
        keys = list(zip(queries.s.tolist(), queries.r.tolist(), t.tolist(), strict=True))
        for key in keys:
            asked.setdefault(key, torch.from_numpy(rng.permutation(N)[: rng.integers(N + 1)]))
        sizes = torch.tensor([len(asked[key]) for key in keys])
        return listed(torch.cat([asked[key] for key in keys]), sizes.cumsum(0) - sizes, sizes.cumsum(0))

    metrics = evaluate(model, timeline, target, tgb(), candidates=candidates)
    evaluator, itself = Evaluator("tkgl-wikidata"), 0
    for row in range(metrics.queries):
        s, r, answer, t = (column[row].item() for column in (metrics.s, metrics.r, metrics.answer, metrics.t))
        own = asked[int(s), int(r), t]
        windows = Windows(torch.tensor([1]), torch.tensor([t], dtype=torch.float64))
        x = model.score((N, windows), Queries(*(torch.tensor([v]) for v in (0, s, r, answer))))[0].numpy()
        given = {"y_pred_pos": x[[int(answer)]], "y_pred_neg": x[own.numpy()], "eval_metric": ["mrr"]}
        assert 1 / float(metrics.ranks["tgb"].realistic[row]) == pytest.approx(
            evaluator.eval(given)["mrr"], rel=ROUNDING
        )
        itself += int(answer in own.tolist())
    assert 10 < itself < metrics.queries - 10
    tied = metrics.ranks["tgb"].pessimistic - metrics.ranks["raw"].pessimistic
    assert int(tied.sum()) == itself, "an answer in its own list is its own rival"
    assert {len(own) for own in asked.values()} >= {0, 1, N}


def test_without_lists_the_rank_is_the_time_aware_one_under_every_further_rule() -> None:
    timeline = make_timeline(3)
    target, seen = torch.arange(5, len(timeline)), torch.arange(N) < N - 2
    for protocol in (tgb(), horizon(2.0, tgb()), inductive(seen, tgb())):
        ranks = evaluate(Drawn(4), timeline, target, protocol).ranks
        assert list(ranks) == ["tgb", "raw", "time-aware", "time-unaware"]
        assert torch.equal(ranks["tgb"].realistic, ranks["time-aware"].realistic)


def test_a_set_that_was_imported_has_the_same_parts_and_ids(
    opened: tuple[str, Official, Dataset], tmp_path: Path
) -> None:
    name, official, dataset = opened
    assert main(["-q", "data", "import", str(official.data.root), str(tmp_path / name), "--format", "tgb"]) == 0
    again = find(tmp_path / name)
    assert again.vocab == dataset.vocab
    assert {part: len(own) for part, own in again.parts.items()} == {
        part: len(own) for part, own in dataset.parts.items()
    }
    assert again.before is None, "facts centuries before the others are in the training part, as in TGB"

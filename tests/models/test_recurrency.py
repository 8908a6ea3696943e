"""The recurrency baseline follows its formula, and its parameters are the best of their lists for each label."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from conftest import N, R, all_queries, equal, make_dataset, make_facts, make_timeline, make_vocab
from tangokg.errors import ConfigError
from tangokg.models import MODELS
from tangokg.models.recurrency import DECAYS, Recurrency, RecurrencySettings
from tangokg.quads.clock import Clock
from tangokg.quads.values import Quadruples, concatenate
from tangokg.quads.vocabulary import Vocabulary
from tangokg.rank import examine, prepare
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import Queries, Windows, windows_at
from tangokg.train import RunConfig, RunFolder, TrainSettings, fit
from tangokg.train.warmstart import adopt


def make_model(timeline: Timeline, seed: int = 0) -> Recurrency:
    """Some decay and some share for each label."""
    model = Recurrency(RecurrencySettings(), timeline)
    generator = torch.Generator().manual_seed(seed)
    model.decay.copy_(1.2 * torch.rand(2 * R, generator=generator))
    model.alpha.copy_(torch.rand(2 * R, generator=generator))
    return model


def timeline_of(rows: list[tuple[int, int, int, int]]) -> Timeline:
    s, r, o, t = np.array(rows, dtype=np.int64).T.copy()
    return build_timeline(Quadruples(s, r, o, t, Vocabulary(tuple("abcdef"), ("likes",)), Clock("step")))


def ask(model: Recurrency, timeline: Timeline, s: int, r: int, known: int) -> list[float]:
    windows = Windows(torch.tensor([known]), timeline.t[-1:] + 1)
    query = Queries(*(torch.tensor([v]) for v in (0, s, r, 0)))
    scores: list[float] = model.score(model.encode(timeline, windows), query)[0].tolist()
    return scores


def slow_scores(model: Recurrency, timeline: Timeline, s: int, r: int, known: int) -> list[float]:
    """The formula, edge by edge."""
    psi, xi, times, until = np.zeros(N), np.zeros(N), 0.0, 0.0
    for graph in (timeline[j] for j in range(known)):
        weight = 2 ** (float(model.decay[r]) * graph.t / float(model.step))
        times += weight
        for s_e, r_e, o_e in zip(graph.s.tolist(), graph.r.tolist(), graph.o.tolist(), strict=True):
            psi[o_e] += weight * ((s_e, r_e) == (s, r))
            xi[o_e] += r_e == r
            until = times if r_e == r else until
    alpha = float(model.alpha[r])
    scores: list[float] = (alpha * psi / (until or 1) + (1 - alpha) * xi / (xi.sum() or 1)).tolist()
    return scores


@pytest.mark.parametrize("horizon", [0.0, 3.0])
def test_scores_follow_the_formula(horizon: float) -> None:
    timeline = make_timeline(3)
    assert len(timeline.t.diff().unique()) > 1
    model, target = make_model(timeline), torch.tensor([0, 1, 5, 8])
    windows, queries = windows_at(timeline, target, horizon), all_queries(4)
    scores = model.score(model.encode(timeline, windows), queries)
    for x, w, s, r in zip(scores, queries.window, queries.s, queries.r, strict=True):
        slow = slow_scores(model, timeline, int(s), int(r), int(windows.known[w]))
        assert x.tolist() == pytest.approx(slow, rel=1e-12, abs=1e-15)


def test_scores_by_hand() -> None:
    """(a, likes, ?) after times 0, 1 and 2; twice b, then once c; d liked c too."""
    timeline = timeline_of([(0, 0, 1, 0), (0, 0, 1, 1), (0, 0, 2, 2), (3, 0, 2, 0)])
    for decay, alpha, expected in (
        (0.0, 1.0, [2 / 3, 1 / 3]),
        (1.0, 1.0, [3 / 7, 4 / 7]),
        (0.0, 0.0, [0.5, 0.5]),
        (1.0, 0.5, [3 / 14 + 0.25, 4 / 14 + 0.25]),
    ):
        model = Recurrency(RecurrencySettings(decay, alpha), timeline)
        assert ask(model, timeline, 0, 0, 3) == pytest.approx([0, *expected, 0, 0, 0])


def test_with_the_default_decay_the_latest_occurrence_outweighs_all_before_it() -> None:
    timeline = timeline_of([*((0, 0, 1, t) for t in range(40)), (0, 0, 2, 40)])
    x = ask(Recurrency(RecurrencySettings(), timeline), timeline, 0, 0, 41)
    assert x[2] > x[1] > x[3] == 0


@pytest.mark.parametrize("decay", DECAYS)
def test_the_longest_past_stays_finite_and_apart_from_none(decay: float) -> None:
    timeline = timeline_of([*((0, 0, 1, t) for t in range(3000)), (0, 0, 2, 0), (1, 0, 3, 2999)])
    x = ask(Recurrency(RecurrencySettings(decay, 1.0), timeline), timeline, 0, 0, 3000)
    assert x[1] == pytest.approx(1)
    assert x[2] > x[3] == 0


def test_objects_with_the_same_past_tie_exactly() -> None:
    rows = [(0, 0, o, t) for o in range(6) for t in (1, 4, 5, 11)]
    model = Recurrency(RecurrencySettings(0.3, 0.7), timeline_of(rows))
    assert len(set(ask(model, timeline_of(rows), 0, 0, 4))) == 1


def test_time_counts_in_usual_steps() -> None:
    facts = make_facts(2)
    slow = replace(facts, t=24 * facts.t)
    scores = []
    for timeline in (build_timeline(facts), build_timeline(slow)):
        model = make_model(timeline)
        scores.append(model.score(model.encode(timeline, windows_at(timeline, torch.tensor([8]))), all_queries(1)))
    assert equal(scores[0], scores[1], 1e-14)


def test_a_relation_that_is_new_has_the_default_parameters() -> None:
    timeline, facts = make_timeline(1), make_facts(1)
    longer = build_timeline(replace(facts, r=np.where(facts.r == 0, R, facts.r), vocab=make_vocab(N, R + 1)))
    model, default = make_model(timeline), Recurrency(RecurrencySettings(), timeline)
    for r in (R, 2 * R + 1):  # the new one, both ways
        assert ask(model, longer, 3, r, 8) == ask(default, longer, 3, r, 8)


def test_each_label_takes_the_value_that_is_best_for_it_first_the_decay_and_then_the_share() -> None:
    """Judged by a made-up table; label 5 is never asked, and for label 4 all values are equally good."""
    model, label = Recurrency(RecurrencySettings(), make_timeline(0)), torch.tensor([0, 1, 1, 2, 3, 4])
    decays = torch.tensor([0.5, 0.0, 0.001, 1.0001, 0.0, 0.0], dtype=torch.float64)
    alphas = torch.tensor([0.1, 0.9, 0.0, 0.5, 0.0, 0.0], dtype=torch.float64)
    noise = iter(torch.linspace(0, 1e-12, 30, dtype=torch.float64))

    def judge() -> Tensor:
        strict = bool((model.alpha == 1).all())
        assert strict or torch.equal(model.decay[:4], decays[:4])
        near = 1 / (1 + (model.decay - decays if strict else model.alpha - alphas).abs())
        near[4] = 0.1 + next(noise)
        return near[label]

    model.choose(label, judge)
    assert model.decay.tolist() == [0.5, 0.0, 0.001, 1.0001, 1.0001, 1.0001]
    assert model.alpha.tolist() == [0.1, 0.9, 0.0, 0.5, 0.99999, 0.99999]


@pytest.mark.parametrize(("part", "alpha"), [("strict", 1.0), ("relaxed", 0.0)])
def test_a_part_alone_is_that_of_the_formula_whatever_validation_says(part: str, alpha: float) -> None:
    timeline, label = make_timeline(2), torch.arange(2 * R)
    model = Recurrency(RecurrencySettings(part=part), timeline)
    model.choose(label, lambda: torch.rand(2 * R, generator=torch.Generator().manual_seed(int(1e4 * model.decay[0]))))
    assert model.alpha.tolist() == [alpha] * (2 * R)
    assert len(set(model.decay.tolist())) > 1  # chosen all the same
    assert equal(
        torch.tensor(ask(model, timeline, 3, 1, 8)), torch.tensor(slow_scores(model, timeline, 3, 1, 8)), 1e-12
    )
    with pytest.raises(ConfigError, match="part 'both' is unknown; choose one of combined, strict, relaxed"):
        RecurrencySettings(part="both")


def test_training_chooses_on_the_validation_part_and_a_run_keeps_it(tmp_path: Path) -> None:
    dataset = make_dataset(4, snapshots=24)
    config = RunConfig("recurrency", MODELS["recurrency"].settings, TrainSettings(device="cpu"))
    model, progress = fit(dataset, config)
    timeline = build_timeline(concatenate([dataset.train, dataset.valid]))
    exam = prepare(timeline, torch.arange(len(np.unique(dataset.train.t)), len(timeline)))
    expected = Recurrency(RecurrencySettings(), build_timeline(dataset.train))
    expected.choose(exam.queries.r, lambda: 1 / examine(expected, exam).ranks["time-aware"].realistic)
    default = Recurrency(RecurrencySettings(), build_timeline(dataset.train))
    assert examine(model, exam)["time-aware"].mrr > examine(default, exam)["time-aware"].mrr
    run = RunFolder(tmp_path / "run")
    run.create(dataset, config)
    run.save_model(model, progress)
    for name, value in run.load()[0].state_dict().items():
        assert torch.equal(value, expected.state_dict()[name])


def test_a_run_that_goes_on_takes_the_parameters_over_by_name() -> None:
    timeline, vocab = make_timeline(1), make_vocab()
    old, new = make_model(timeline), Recurrency(RecurrencySettings(), timeline)
    adopt(new, old, replace(vocab, relations=vocab.relations[::-1]), vocab)
    assert torch.equal(new.decay, old.decay.view(2, R).flip(1).flatten())
    assert torch.equal(new.alpha, old.alpha.view(2, R).flip(1).flatten())


def test_without_a_validation_part_the_defaults_stay() -> None:
    dataset = make_dataset(4)
    dataset = replace(dataset, valid=dataset.valid.select(np.zeros(len(dataset.valid), dtype=bool)))
    settings = RecurrencySettings(decay=0.3, alpha=0.6)
    model, _ = fit(dataset, RunConfig("recurrency", settings, TrainSettings(device="cpu")))
    assert model.state_dict()["decay"].unique().tolist() == [0.3]
    assert model.state_dict()["alpha"].unique().tolist() == [0.6]


def test_ranks_from_few_values_are_those_of_all_scores() -> None:
    timeline = make_timeline(5)
    model, exam = make_model(timeline), prepare(timeline, torch.arange(9))
    few = examine(model, exam, cells=40)
    model.sparse = False  # type: ignore[misc]
    whole = examine(model, exam)
    for name, ranks in few.ranks.items():
        assert torch.equal(ranks.optimistic, whole.ranks[name].optimistic)
        assert torch.equal(ranks.pessimistic, whole.ranks[name].pessimistic)


def test_where_nothing_is_known_all_objects_are_alike() -> None:
    """As reasons ask, which take away all facts that speak for an answer."""
    timeline = make_timeline()
    empty = build_timeline(make_facts().select(slice(0)))
    model, query = make_model(timeline), Queries(*(torch.tensor([v]) for v in (0, 1, 2, 0)))
    encoded = model.encode(empty, Windows(torch.tensor([0]), torch.tensor([5.0], dtype=torch.float64)))
    shares = model.probabilities(model.score(encoded, query))
    assert equal(shares, torch.full((1, N), 1 / N, dtype=shares.dtype))

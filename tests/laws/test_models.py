"""What must hold for every model: it sees the past alone, names mean nothing, batches do not mix."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from conftest import (
    N,
    R,
    all_queries,
    equal,
    facts_like,
    make_dataset,
    make_facts,
    make_shared_vocab,
    make_timeline,
    make_vocab,
)
from tangokg.history.heads import HEADS
from tangokg.models import MODELS, Model
from tangokg.models.authors import SWITCHES as AUTHORS_SWITCHES
from tangokg.models.tango import TangoSettings
from tangokg.quads.values import Quadruples, concatenate
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import Queries, Windows, queries_at, windows_at
from tangokg.solve import GRADIENTS, SOLVERS
from tangokg.train import Progress, RunConfig, RunFolder, TrainSettings, fit, loop

SWITCHES: list[tuple[str, dict[str, Any]]] = [
    ("tango", {"ode": False, "hops": 2, "runs": True}),
    ("tango", {"decoder": "tucker", "subject": False, "compete": False}),
    ("tango", {"ode": False}),
    ("tango", {"screen": 3}),
    ("tango", {"names": True}),
    ("tango-tucker", {"names": True, "normalise": True}),
    ("tango", {"graphs": "other"}),
    ("tango", {"transition_of": "next"}),
    *(("history", {"heads": ", ".join((*head.needs, name))}) for name, head in HEADS.items()),
    ("tango-tucker", {"static": True, "transition_of": "next"}),
    ("tango-distmult", {"static": True, "identity": True, "graphs": "other"}),
    ("tango-authors", {"decoder": "tucker", "transition": 0.0}),
    ("tango-authors", {"static": False}),
    ("tango-authors", {name: paper for name, (_, paper) in AUTHORS_SWITCHES.items()}),
    ("ttranse", {"norm": 2, "unseen": "zero"}),
    ("ta-distmult", {"negatives": 6}),
    ("de-simple", {"negatives": 6}),
    ("tucker", {"loss": "bce"}),
    ("tucker", {"loss": "bce-asked"}),
    ("compgcn", {"loss": "ce"}),
    ("recurrency", {"part": "strict"}),
    ("recurrency", {"part": "relaxed"}),
    ("compgcn", {"decoder": "distmult", "composition": "sub", "layers": 2}),
]
SMALL = {
    "width": 8,
    "dim": 5,
    "history": 3,
    "step_time": 0.4,
    "dropout": 0.2,
    "rtol": 1e-3,
    "atol": 1e-4,
    "init_size": 0.5,
    "smoothing": 0.0,
}


def small_settings(name: str, **more: Any) -> Any:
    """The model's settings, made small where it has such settings."""
    settings = MODELS[name].settings
    values = SMALL | more
    return replace(settings, **{key: value for key, value in values.items() if hasattr(settings, key)})


def build(name: str, train: Timeline, **more: Any) -> Model:
    """In float64, settled and in evaluation mode."""
    model = MODELS[name].build(small_settings(name, **more), train, torch.Generator().manual_seed(2)).double()
    model.settle(train)
    return model.eval()


def ask(model: Model, timeline: Timeline, windows: Windows, queries: Queries) -> Tensor:
    with torch.no_grad():
        return model.score(model.encode(timeline, windows), queries)


def variants() -> list[Any]:
    """Every model with its own settings; TANGO also with every solver, every gradient and its switches."""
    cases = [pytest.param(name, {}, id=name) for name in MODELS]
    for name, recipe in MODELS.items():
        if isinstance(recipe.settings, TangoSettings):
            cases += [pytest.param(name, {"solver": s}, id=f"{name}-{s}") for s in SOLVERS if s != "rk4"]
            cases += [pytest.param(name, {"gradient": g}, id=f"{name}-{g}") for g in GRADIENTS if g != "direct"]
            cases += [pytest.param(name, {"normalise": True, "identity": False}, id=f"{name}-of length 1")]
    cases += [pytest.param(name, more, id=f"{name}-{'-'.join(map(str, more.values()))}") for name, more in SWITCHES]
    return cases


VARIANTS = pytest.mark.parametrize(("name", "more"), variants())
EVERY = pytest.mark.parametrize("name", MODELS)


def parts(seed: int = 1) -> tuple[Timeline, Quadruples, Timeline]:
    """The training part as a timeline, and all facts, also as a timeline; names share words."""
    dataset = make_dataset(seed).with_vocab(make_shared_vocab())
    return build_timeline(dataset.train), dataset.facts, build_timeline(dataset.facts)


def disturbed(facts: Quadruples, t: float) -> Quadruples:
    """Other facts at and after ``t``: those there turned round and moved, new times in between, one fact of its own."""
    later = facts.select(facts.t >= t)
    other = replace(later, s=(later.o + 1) % N, o=later.s, r=(later.r + 1) % R, t=later.t + np.arange(len(later)) % 3)
    own = facts_like(facts, [(0, 0, N - 1, int(t))])
    return concatenate([facts.before(t), other, own])


@VARIANTS
def test_no_score_depends_on_a_fact_at_or_after_the_query_time(name: str, more: dict[str, Any]) -> None:
    train, facts, timeline = parts()
    model = build(name, train, **more)
    target = torch.tensor([len(timeline) - 2])
    windows, queries = windows_at(timeline, target), all_queries(1)
    other = build_timeline(disturbed(facts, float(windows.t[0])))
    assert not torch.equal(other[int(target[0])].o, timeline[int(target[0])].o)
    scores = ask(model, timeline, windows, queries)
    assert equal(ask(model, other, windows, queries), scores, 1e-12)
    earlier = build_timeline(disturbed(facts, float(timeline.t[target[0] - 1])))
    later = replace(windows, known=torch.tensor([earlier.before(float(windows.t[0]))]))
    same = equal(ask(model, earlier, later, queries), scores, 1e-6)
    assert same != model.looks_back, "the last known snapshot must matter to a model that looks back, and to no other"


@EVERY
def test_with_a_horizon_no_score_depends_on_what_is_not_known(name: str) -> None:
    train, facts, timeline = parts()
    model = build(name, train)
    windows, queries = windows_at(timeline, torch.tensor([len(timeline) - 1]), horizon=8.0), all_queries(1)
    known = int(windows.known[0])
    assert known < len(timeline) - 2
    other = build_timeline(disturbed(facts, float(timeline.t[known])))
    assert equal(ask(model, other, windows, queries), ask(model, timeline, windows, queries), 1e-12)


@EVERY
def test_no_score_depends_on_another_query(name: str) -> None:
    """Neither on one of its own time nor on its own answer."""
    train, _, timeline = parts()
    model = build(name, train)
    target = torch.tensor([len(timeline) - 1, 3])
    windows, queries = windows_at(timeline, target), queries_at(timeline, target)
    scores = ask(model, timeline, windows, queries)
    for i in range(0, len(queries), 3):
        assert equal(ask(model, timeline, windows, queries.select(slice(i, i + 1))), scores[i : i + 1], 1e-12)
    half = torch.arange(len(queries)) % 2 == 0
    changed = replace(
        queries,
        s=torch.where(half, queries.s, (queries.s + 1) % N),
        r=torch.where(half, queries.r, (queries.r + 1) % (2 * R)),
        answer=torch.zeros_like(queries.answer),
    )
    assert equal(ask(model, timeline, windows, changed)[half], scores[half], 1e-12)


@EVERY
def test_a_batch_of_windows_equals_one_at_a_time(name: str) -> None:
    train, _, timeline = parts()
    model = build(name, train)
    target = torch.tensor([5, 0, 8, 1, 6])
    windows, queries = windows_at(timeline, target), all_queries(len(target))
    together = ask(model, timeline, windows, queries)
    for w in range(len(target)):
        alone = queries.select(queries.window == w)
        one = Windows(windows.known[w : w + 1], windows.t[w : w + 1])
        scores = ask(model, timeline, one, replace(alone, window=torch.zeros_like(alone.window)))
        assert equal(scores, together[queries.window == w])


def renamed(state: dict[str, Tensor], new_id: Tensor) -> dict[str, Tensor]:
    """Weights whose rows are entities, under their new ids; no other size here is N."""
    found = {}
    for name, tensor in state.items():
        found[name] = tensor
        if tensor.dim() and len(tensor) == N:
            found[name] = torch.empty_like(tensor).index_copy(0, new_id, tensor)
    return found


@VARIANTS
def test_renaming_entities_permutes_the_scores(name: str, more: dict[str, Any]) -> None:
    train, facts, timeline = parts()
    new_id = torch.randperm(N, generator=torch.Generator().manual_seed(0))
    under = new_id.numpy()
    names = tuple(facts.vocab.entities[i] for i in under.argsort())
    vocab = replace(facts.vocab, entities=names)
    other_facts = replace(facts, s=under[facts.s], o=under[facts.o], vocab=vocab)
    other = build_timeline(other_facts)
    model = build(name, train, **more)
    same = build(name, build_timeline(other_facts.before(float(train.t[-1]) + 1)), **more)
    same.load_state_dict(renamed(model.state_dict(), new_id))
    target = torch.tensor([8, 2])
    queries = all_queries(2)
    scores = ask(model, timeline, windows_at(timeline, target), queries)
    permuted = ask(same, other, windows_at(other, target), replace(queries, s=new_id[queries.s]))
    tolerance = 1e-8 if more.get("solver") in ("dopri5", "dopri8", "bosh3", "adaptive_heun") else 1e-10
    assert equal(permuted[:, new_id], scores, tolerance)


@EVERY
def test_repeating_a_fact_changes_nothing(name: str) -> None:
    train, facts, timeline = parts()
    twice = build_timeline(concatenate([facts, facts.select(np.arange(0, len(facts), 2)), facts]))
    model = build(name, train)
    target = torch.tensor([8, 2])
    windows, queries = windows_at(timeline, target), all_queries(2)
    assert torch.equal(ask(model, timeline, windows, queries), ask(model, twice, windows_at(twice, target), queries))


@EVERY
def test_probabilities_sum_to_one_and_keep_the_order_of_scores(name: str) -> None:
    train, _, timeline = parts()
    model = build(name, train)
    scores = ask(model, timeline, windows_at(timeline, torch.tensor([7])), all_queries(1))
    p = model.probabilities(scores)
    assert equal(p.double().sum(1), torch.ones(len(p), dtype=torch.float64), 1e-6)
    assert (p >= 0).all()
    assert ((scores[:, 1:] > scores[:, :-1]) <= (p[:, 1:] >= p[:, :-1])).all()


@VARIANTS
def test_the_loss_falls_in_a_few_steps(name: str, more: dict[str, Any]) -> None:
    train, _, _ = parts()
    model = build(name, train, **more).train()
    if not any(True for _ in model.parameters()):
        with pytest.raises(TypeError, match="has nothing to train"):
            model(train, windows_at(train, torch.tensor([1])), queries_at(train, torch.tensor([1])), torch.Generator())
        return
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    target = torch.arange(1, len(train))
    losses = []
    for _ in range(6):
        generator = torch.Generator().manual_seed(0)  # the same masks at each step: the same loss to lower
        loss = model(train, windows_at(train, target), queries_at(train, target), generator)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.95 * losses[0]


@pytest.mark.parametrize("precision", ["32-true", "64-true"])
@EVERY
def test_a_saved_run_gives_the_same_scores(name: str, precision: str, tmp_path: Path) -> None:
    dataset = make_dataset(1)
    train, timeline = build_timeline(dataset.train), build_timeline(dataset.facts)
    model = build(name, train)
    if precision == "32-true":  # times stay in float64
        model = MODELS[name].build(small_settings(name), train, torch.Generator().manual_seed(2)).eval()
        model.settle(train)
    run = RunFolder(tmp_path / "run")
    run.create(dataset, RunConfig(name, small_settings(name), TrainSettings(precision=precision)))
    run.save_model(model, Progress())
    loaded, again, config = run.load()
    assert (config.model, config.settings) == (name, small_settings(name))
    windows, queries = windows_at(timeline, torch.tensor([8, 3])), all_queries(2)
    scores = ask(loaded.eval(), build_timeline(again.facts), windows, queries)
    assert torch.equal(scores, ask(model, timeline, windows, queries))


@EVERY
def test_training_that_was_cut_short_goes_on_to_the_same_weights(name: str, tmp_path: Path) -> None:
    dataset, path, step = make_dataset(1), tmp_path / "state.safetensors", loop.Session._step
    how = {"epochs": 2, "device": "cpu", "batch_windows": 3, "checkpoint_seconds": 0.0}
    questions = {"batch_queries": 20} if MODELS[name].train.get("batch_queries") else {}
    config = RunConfig(name, small_settings(name), TrainSettings(**{**MODELS[name].train, **how, **questions}))
    steps: list[None] = []

    def cut(*given: Any) -> None:
        if len(steps) == 3:  # within the second epoch, or the first
            raise KeyboardInterrupt
        steps.append(step(*given))

    whole, progress = fit(dataset, config)
    if any(True for _ in whole.parameters()):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(loop.Session, "_step", cut)
            with pytest.raises(KeyboardInterrupt):
                fit(dataset, config, path)
    resumed, after = fit(dataset, config, path, resume=True)
    assert (after.epoch, after.best_mrr) == (progress.epoch, progress.best_mrr)
    assert all(torch.equal(tensor, resumed.state_dict()[key]) for key, tensor in whole.state_dict().items())


@EVERY
def test_new_names_without_facts_change_no_score_of_old_ones(name: str) -> None:
    train, facts, timeline = parts()
    model = build(name, train)
    longer = build_timeline(replace(facts, vocab=make_vocab(N + 2, R + 1)))
    target = torch.tensor([8, 2])
    queries = all_queries(2)
    there = replace(queries, r=torch.where(queries.r < R, queries.r, queries.r + 1))  # reciprocals begin at R + 1
    scores = ask(model, longer, windows_at(longer, target), there)
    assert scores.shape[1] == N + 2
    assert equal(scores[:, :N], ask(model, timeline, windows_at(timeline, target), queries), 1e-12)


@EVERY
def test_facts_of_new_entities_and_relations_are_taken(name: str) -> None:
    train, facts, _ = parts()
    model = build(name, train)
    t = int(facts.t.max()) + 2
    more = facts_like(facts, [(N, R, 1, t), (0, R, N, t), (N + 1, 0, N, t)])
    timeline = build_timeline(replace(concatenate([facts, more]), vocab=make_vocab(N + 2, R + 1)))
    windows = Windows(torch.tensor([len(timeline)]), torch.tensor([t + 1.0], dtype=torch.float64))
    scores = ask(model, timeline, windows, all_queries(1, N + 2, R + 1))
    assert scores.isfinite().all()
    before = replace(windows, known=windows.known - 1)
    assert torch.equal(scores, ask(model, timeline, before, all_queries(1, N + 2, R + 1))) != model.looks_back


@EVERY
def test_scores_do_not_depend_on_where_the_answers_are(name: str) -> None:
    timeline = make_timeline(2)
    model = build(name, timeline)
    windows, queries = windows_at(timeline, torch.tensor([4])), all_queries(1)
    hidden = replace(queries, answer=torch.full_like(queries.answer, -1))
    assert torch.equal(ask(model, timeline, windows, hidden), ask(model, timeline, windows, queries))


def test_the_small_facts_are_as_their_docstring_says() -> None:
    facts = make_facts(1)
    rows = list(zip(facts.s, facts.r, facts.o, facts.t, strict=True))
    assert len(set(rows)) < len(rows)
    assert (facts.s == facts.o).any()
    assert len(set(np.diff(np.unique(facts.t)))) > 1
    assert (np.bincount(facts.o[facts.t < np.unique(facts.t)[6]], minlength=N)[-2:] == 0).all()

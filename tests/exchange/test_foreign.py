"""A foreign function is ranked as a model of ours that gives the same scores."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tangokg as tk
from conftest import R, make_dataset, make_forecaster
from tangokg.errors import ConfigError, DataError, RunError
from tangokg.exchange import foreign
from tangokg.quads.values import Quadruples
from tangokg.quads.world import make_world

DATA = make_dataset(4)
N = DATA.vocab.num_entities


def counts(facts: Quadruples, s: Any, r: Any, t: Any) -> Any:
    """How many steps before t held (s, r, o), row by row; r + R asks for the subject."""
    scores = np.zeros((len(s), facts.vocab.num_entities))
    for row, (a, label, time) in enumerate(zip(s, r, t, strict=True)):
        known = facts.before(time)
        ends = (known.s, known.o) if label < R else (known.o, known.s)
        mine = (ends[0] == a) & (known.r == label % R)
        for o, _ in {*zip(ends[1][mine].tolist(), known.t[mine].tolist(), strict=True)}:
            scores[row, o] += 1
    return scores


FORMS: dict[str, Any] = {
    "labels": foreign(DATA, lambda s, r, t: counts(DATA.facts, s, r, t)),
    "tensors": foreign(DATA, lambda s, r, t: torch.from_numpy(counts(DATA.facts, s, r, t)).requires_grad_()),
    "two functions": foreign(
        DATA,
        lambda s, r, t: counts(DATA.facts, s, r, t).tolist(),
        lambda o, r, t: counts(DATA.facts, o, r + R, t),
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_ranks_are_those_of_the_counter_that_it_is(form: str) -> None:
    """Ties included: counts are equal often."""
    found, wanted = FORMS[form].evaluate(), make_forecaster("frequency", DATA).evaluate()
    assert found.queries == wanted.queries
    for name, ranks in wanted.ranks.items():
        for kind in ("optimistic", "realistic", "pessimistic"):
            assert torch.equal(getattr(found.ranks[name], kind), getattr(ranks, kind)), (name, kind)


def test_it_stands_in_a_comparison_and_answers_by_name() -> None:
    model = foreign(DATA, lambda s, r, t: counts(DATA.facts, s, r, t), name="mine")
    comparison = tk.compare(DATA, ["frequency", model], verbose=False)
    assert {row.name for row in comparison.rows} == {"frequency", "mine"}
    assert len({row.figures.mrr for row in comparison.rows}) == 1
    answer = model.forecast(DATA.vocab.entities[0], DATA.vocab.relations[0], top=3)
    assert len(answer.answers) == 3


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (lambda s, r, t: np.zeros((len(s), N - 1)), rf"scores of shape \(\d+, {N - 1}\); expected \(\d+, {N}\)"),
        (lambda s, r, t: np.zeros(N), rf"scores of shape \({N},\); expected"),
        (lambda s, r, t: np.full((len(s), N), np.nan), "gave NaN for a score"),
    ],
)
def test_scores_that_are_none_are_an_error(score: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        foreign(DATA, score).evaluate()


def test_it_has_no_run_folder(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="'theirs' is a foreign model, which has no run folder"):
        foreign(DATA, lambda s, r, t: np.zeros((len(s), N)), name="theirs").save(tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(ConfigError, match=r"foreign\(\): score is 5"):
        foreign(DATA, 5)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_model_of_pykeen_has_the_figures_that_pykeen_gives_it() -> None:
    """Ranks without all that is ever true, in both directions, with their ties; the weights are drawn."""
    pytest.importorskip("pykeen", reason="PyKEEN is not installed")
    from pykeen.evaluation import RankBasedEvaluator
    from pykeen.models import DistMult
    from pykeen.triples import CoreTriplesFactory

    rows = torch.from_numpy(np.stack([DATA.train.s, DATA.train.r, DATA.train.o], axis=1))
    factory = CoreTriplesFactory(rows, num_entities=N, num_relations=R)
    model = DistMult(triples_factory=factory, embedding_dim=8, random_seed=1)
    found = foreign(
        DATA,
        lambda s, r, t: model.predict_t(torch.from_numpy(np.stack([s, r], axis=1))),
        lambda o, r, t: model.predict_h(torch.from_numpy(np.stack([r, o], axis=1))),
    ).evaluate()
    facts = np.unique(np.stack([DATA.test.s, DATA.test.r, DATA.test.o, DATA.test.t], axis=1), axis=0)[:, :3]
    known = torch.from_numpy(np.unique(np.stack([DATA.facts.s, DATA.facts.r, DATA.facts.o], axis=1), axis=0))
    theirs = RankBasedEvaluator(filtered=True).evaluate(
        model, torch.from_numpy(facts), batch_size=8, additional_filter_triples=known, use_tqdm=False
    )
    for kind in ("optimistic", "realistic", "pessimistic"):
        mrr = theirs.get_metric(f"both.{kind}.inverse_harmonic_mean_rank")
        assert float((1 / getattr(found.ranks["time-unaware"], kind)).mean()) == pytest.approx(mrr, rel=1e-5)


@pytest.mark.slow
def test_the_renet_of_pyg_learns_something() -> None:
    """More than who is popular."""
    for package in ("pykeen", "torch_geometric"):  # the example imports both
        pytest.importorskip(package, reason=f"{package} is not installed")
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "foreign_models.py"))
    data = make_world(num_actors=40, num_newcomers=4, num_days=100).dataset
    popular = [np.bincount(ids, minlength=data.vocab.num_entities) for ids in (data.train.o, data.train.s)]
    alone = foreign(data, *(lambda s, r, t, p=p: np.tile(p, (len(s), 1)) for p in popular))
    learned = example["pyg_model"](data).evaluate()
    assert learned["time-aware"].mrr > 1.2 * alone.evaluate()["time-aware"].mrr

"""Going on from a run: rows follow names, old facts stay known, and only new ones are trained on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from conftest import N, R, dated, facts_like, make_dataset, make_forecaster
from tangokg.errors import ConfigError, DataError, RunError
from tangokg.forecast import Forecaster, fit, load
from tangokg.models import MODELS
from tangokg.quads.clock import Clock
from tangokg.quads.splits import split_at
from tangokg.quads.values import Dataset, Quadruples
from tangokg.quads.vocabulary import Vocabulary
from tangokg.snapshots.timeline import build_timeline
from tangokg.train import Material, Progress, RunFolder, TrainSettings, build_model
from tangokg.train.warmstart import adopt, continue_dataset

LEARNED = [name for name, recipe in MODELS.items() if hasattr(recipe.settings, "dim")]
SMALL: dict[str, Any] = {"dim": 4, "history": 2, "step_time": 0.4, "dropout": 0.1, "epochs": 1, "device": "cpu"}
STILL = SMALL | {"learning_rate": 1e-12}  # trains, and moves nothing
LAST = int(make_dataset(1).facts.t.max())


class Silent:
    def step(self, progress: Progress, settings: TrainSettings, snapshots: int) -> None: ...

    def epoch(self, progress: Progress, settings: TrainSettings) -> None: ...


def named(facts: Quadruples) -> list[tuple[str, str, str, str]]:
    e, r = facts.vocab.entities, facts.vocab.relations
    rows = zip(facts.s, facts.r, facts.o, facts.t, strict=True)
    return sorted((e[s], r[p], e[o], facts.clock.format(t)) for s, p, o, t in rows)


def newer(seed: int = 2, shift: int = LAST) -> Dataset:
    """Facts after those of the old data, with ids of their own: names turned round, one entity and relation new."""
    data = make_dataset(seed)
    vocab = Vocabulary(("newborn", *data.vocab.entities[:0:-1]), ("novel", *data.vocab.relations[:0:-1]))
    parts: dict[str, Any] = {name: replace(part, t=part.t + shift) for name, part in data.parts.items()}
    return replace(data, **parts, name="newer").with_vocab(vocab)


@pytest.mark.parametrize("name", LEARNED)
def test_rows_are_taken_over_by_name_although_ids_differ(name: str) -> None:
    old = make_forecaster(name)
    for tensor in old.model.state_dict().values():  # no number may be as it is at first
        if tensor.is_floating_point():
            tensor.add_(torch.rand(tensor.shape, generator=torch.Generator().manual_seed(5), dtype=tensor.dtype))
    data = newer()
    model = make_forecaster(name, data).model
    fresh = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    given = old.model.state_dict()
    adopt(model, old.model, data.vocab, old.dataset.vocab)
    e, r = data.vocab.entities, data.vocab.relations
    for key, tensor in model.state_dict().items():
        kind = model.rows.get(key)
        if kind == "fresh":
            assert torch.equal(tensor, fresh[key]), key
        elif kind is None:
            assert torch.equal(tensor, given[key]), key
        elif kind == "entity":
            for i, entity in enumerate(e):
                there = None if entity == "newborn" else given[key][int(entity[1:])]
                here = fresh[key][i] if there is None else there | fresh[key][i] if key == "seen" else there
                assert torch.equal(tensor[i], here), (key, entity)
        else:
            for i, relation in enumerate(r):
                for half in (0, 1):
                    there = None if relation == "novel" else given[key][int(relation[1:]) + half * R]
                    expected = fresh[key][i + half * R] if there is None else there
                    assert torch.equal(tensor[i + half * R], expected), (key, relation, half)


@pytest.mark.parametrize("name", LEARNED)
def test_every_row_of_a_model_is_declared(name: str) -> None:
    """A state entry as long as a vocabulary is a table of it; else a larger vocabulary could not take it over."""
    data = make_dataset(1)
    config = make_forecaster(name).config
    states = [
        build_model(config, build_timeline(data.train, n, r)).state_dict() for n, r in ((N, R), (N + 1, R), (N, R + 1))
    ]
    model = make_forecaster(name).model
    for key, tensor in states[0].items():
        grows = {
            kind
            for kind, state in zip(("entity", "relation"), states[1:], strict=True)
            if state[key].shape != tensor.shape
        }
        declared = model.rows.get(key)
        assert grows == (set() if declared is None else {declared}) or declared == "fresh", key


def test_another_form_of_the_model_is_refused() -> None:
    old, new = make_forecaster("tango-distmult"), make_forecaster("tango-tucker")
    with pytest.raises(RunError, match=r"has no 'decoder.*' of this form: model and settings must be the same"):
        adopt(new.model, old.model, new.dataset.vocab, old.dataset.vocab)


def test_old_facts_lie_before_and_new_ones_keep_their_parts() -> None:
    old, new = make_dataset(1), newer()
    data = continue_dataset(old, new)
    assert list(data.parts) == ["before", "train", "valid", "test"]
    for part in ("train", "valid", "test"):
        assert named(data.parts[part]) == named(new.parts[part])
    assert named(data.parts["before"]) == named(old.facts)
    assert data.vocab.entities == (*old.vocab.entities, "newborn")
    assert data.vocab.relations == (*old.vocab.relations, "novel")
    assert all(part.vocab == data.vocab for part in data.parts.values())
    assert data.name == "newer"


def test_old_facts_that_do_not_lie_before_the_new_ones_are_left_out() -> None:
    old = make_dataset(1)
    data = continue_dataset(old, newer(shift=5))
    first = data.train.t.min()
    assert named(data.parts["before"]) == [row for row in named(old.facts) if int(row[3]) < first]
    assert "before" not in continue_dataset(old, old).parts


def test_other_clocks_are_converted_and_no_time_stands_in_two_parts() -> None:
    """Hours brought into days: facts of the day on which validation begins are all of validation."""
    old = dated(make_dataset(1))
    hours = replace(
        facts_like(make_dataset(1).facts, [(i % 5, 0, i % 7, 6 * i) for i in range(40)]),
        clock=Clock("hour", "2024-06-01"),
    )
    new = split_at(hours, 6 * 18, 6 * 31)  # at noon of the fifth day, at 18:00 of the eighth
    data = continue_dataset(old, new)
    days = [sorted({row[3] for row in named(data.parts[part])}) for part in ("train", "valid", "test")]
    assert [(d[0], d[-1]) for d in days] == [
        ("2024-06-01", "2024-06-04"), ("2024-06-05", "2024-06-07"), ("2024-06-08", "2024-06-10"),
    ]  # fmt: skip
    assert sum(len(data.parts[part]) for part in ("train", "valid", "test")) == 40
    with pytest.raises(DataError, match="the training part would be empty"):
        continue_dataset(old, split_at(hours, 12, 6 * 31))


def test_parts_that_are_empty_stay_empty() -> None:
    new = newer()
    nothing = new.test.select(slice(0))
    no_test = continue_dataset(make_dataset(1), replace(new, test=nothing))
    assert (named(no_test.valid), len(no_test.test)) == (named(new.valid), 0)
    no_valid = continue_dataset(make_dataset(1), replace(new, valid=nothing))
    assert (named(no_valid.train), len(no_valid.valid), named(no_valid.test)) == (named(new.train), 0, named(new.test))
    only = continue_dataset(make_dataset(1), replace(new, valid=nothing, test=nothing))
    assert (named(only.train), len(only.valid), len(only.test)) == (named(new.train), 0, 0)


def test_old_facts_are_known_in_training_and_not_trained_on() -> None:
    data = continue_dataset(make_dataset(1), newer())
    material = Material.of(data, torch.device("cpu"))
    trained = material.train.t[material.targets].tolist()
    assert trained == sorted(set(data.train.t.tolist())), "the first of them has a history now"
    assert material.train.t[: material.first].tolist() == sorted(set(data.parts["before"].t.tolist()))
    assert material.exam is not None
    assert material.exam.windows.t.tolist() == sorted(set(data.valid.t.tolist()))


def go_on(run: Path, data: Dataset, out: Path | None = None, **settings: Any) -> Forecaster:
    return fit(data, "tango", reporter=Silent(), start_from=run, out=out, **(STILL | settings))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    fit(make_dataset(1), "tango", reporter=Silent(), out=tmp_path / "old", **(SMALL | {"learning_rate": 0.1}))
    return tmp_path / "old"


def test_a_run_goes_on_with_what_it_knew(run: Path, tmp_path: Path) -> None:
    old = load(run)
    found = go_on(run, newer(), tmp_path / "new", seed=9)
    entities, relations = found.model.state_dict()["entities"], found.model.state_dict()["relations"]
    assert torch.allclose(entities[:N], old.model.state_dict()["entities"], atol=1e-6)
    there = old.model.state_dict()["relations"]
    assert torch.allclose(relations.view(2, R + 1, -1)[:, :R], there.view(2, R, -1), atol=1e-6)
    first = build_model(found.config, build_timeline(found.dataset.past)).state_dict()
    assert torch.allclose(entities[N], first["entities"][N], atol=1e-6), "a new entity has a row of its own"
    fact = old.facts.select(slice(0, 1))
    s, r, o = f"e{fact.s[0]}", f"r{fact.r[0]}", f"e{fact.o[0]}"
    answers = {answer.name: answer for answer in found.forecast(s, r, top=N + 1).answers}
    assert answers[o].seen >= 1, "old facts are remembered"
    assert answers.keys() == set(found.facts.vocab.entities)


def test_a_continued_run_is_saved_loaded_and_continued_again(run: Path, tmp_path: Path) -> None:
    second = go_on(run, newer(), tmp_path / "second", learning_rate=0.05)
    loaded = load(tmp_path / "second")
    assert loaded.forecast("newborn", "novel", top=99) == second.forecast("newborn", "novel", top=99)
    assert named(loaded.dataset.parts["before"]) == named(second.dataset.parts["before"])
    assert torch.equal(loaded.seen, second.seen)
    third = go_on(tmp_path / "second", newer(3, int(second.facts.t.max())), tmp_path / "third")
    assert named(third.dataset.parts["before"]) == named(second.facts)
    kept = second.model.state_dict()["entities"]
    assert torch.allclose(third.model.state_dict()["entities"][: len(kept)], kept, atol=1e-6)
    assert load(tmp_path / "third").forecast("newborn", "novel") == third.forecast("newborn", "novel")


def test_a_continued_run_is_resumed(run: Path, tmp_path: Path) -> None:
    first = go_on(run, newer(), tmp_path / "new", learning_rate=0.05)
    (tmp_path / "new" / "weights.safetensors").unlink()
    again = go_on(run, newer(), tmp_path / "new", learning_rate=0.05, resume=True)
    for key, tensor in first.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[key], tensor), key


def test_what_was_observed_since_training_is_part_of_what_is_known(run: Path, tmp_path: Path) -> None:
    """Names observed later have no rows in the old tables, so they begin with fresh ones."""
    old = load(run)
    later = facts_like(old.facts, [(0, 0, 1, LAST + 1), (2, 1, 0, LAST + 1)])
    vocab = Vocabulary(("stranger", "e1", "e2"), ("r0", "welcomes"))
    assert old.observe(replace(later, vocab=vocab)) == 2
    old.save(tmp_path / "grown")
    found = go_on(tmp_path / "grown", newer(shift=LAST + 1), tmp_path / "new")
    assert ("stranger", "r0", "e1", str(LAST + 1)) in named(found.dataset.parts["before"])
    assert found.dataset.vocab.entities == (*make_dataset(1).vocab.entities, "stranger", "newborn")
    state, given = found.model.state_dict(), old.model.state_dict()
    assert torch.allclose(state["entities"][:N], given["entities"], atol=1e-6)
    relations = state["relations"].view(2, R + 2, -1)
    assert torch.allclose(relations[:, :R], given["relations"].view(2, R, -1), atol=1e-6)
    assert found.forecast("stranger", "welcomes", top=3).answers


def test_another_model_or_other_settings_are_refused(run: Path, tmp_path: Path) -> None:
    for other in ({"dim": 5}, {"history": 3}):
        with pytest.raises(ConfigError, match=r"holds tango with other settings \(.* there, .* here\); take the same"):
            go_on(run, newer(), tmp_path / "new", **other)
    with pytest.raises(ConfigError, match="holds tango with other settings"):
        fit(newer(), "tango-tucker", reporter=Silent(), start_from=run, out=tmp_path / "new", **SMALL)
    assert not (tmp_path / "new").exists()
    with pytest.raises(RunError, match="no run is here"):
        go_on(tmp_path / "nowhere", newer())
    RunFolder(run).path.joinpath("weights.safetensors").unlink()
    with pytest.raises(RunError, match="not finished"):
        go_on(run, newer())


def test_training_may_be_set_otherwise_than_in_the_old_run(run: Path) -> None:
    found = go_on(run, newer(), epochs=2, precision="64-true")
    assert found.config.train.epochs == 2
    assert found.model.state_dict()["entities"].dtype == torch.float64


def test_double_precision_is_taken_over_whole(tmp_path: Path) -> None:
    options = STILL | {"precision": "64-true", "learning_rate": 1e-15}
    old = fit(make_dataset(1), "tango", reporter=Silent(), out=tmp_path / "old", **options)
    with torch.no_grad():
        old.model.get_parameter("entities").div_(3)
    old.save(tmp_path / "old", overwrite=True)
    found = go_on(tmp_path / "old", newer(), **options)
    kept, given = (f.model.state_dict()["entities"][:N] for f in (found, old))
    assert torch.allclose(kept, given, rtol=0, atol=1e-12)


def test_counters_go_on_by_remembering(tmp_path: Path) -> None:
    fit(make_dataset(1), "frequency", reporter=Silent(), out=tmp_path / "old")
    found = fit(newer(), "frequency", reporter=Silent(), start_from=tmp_path / "old")
    assert len(found.facts) == len(make_dataset(1).facts) + len(newer().facts)
    assert np.isfinite(found.evaluate()["time-aware"].mrr)


def test_rows_that_stand_alone_stay_known() -> None:
    old, new = (dated(data) for data in (make_dataset(1), newer()))
    facts = new.facts
    many = facts.select(np.concatenate([np.tile(np.arange(len(facts)), 20), [0, 1]]))
    many.t[-2:] += np.array([-60, 60]) * 365
    data = replace(many, notes=("two rows stand alone",)).split()
    assert data.before is not None
    assert data.after is not None
    joined = continue_dataset(old, data)
    assert named(joined.train) == named(data.train)
    assert joined.before is not None
    assert joined.after is not None
    assert set(named(data.before)) <= set(named(joined.before))
    assert set(named(old.facts)) <= set(named(joined.before))
    assert named(joined.after) == named(data.after)
    assert joined.notes == data.notes

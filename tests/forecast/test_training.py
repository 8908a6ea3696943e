"""From whatever people hold to a forecaster, and a run folder that can be read, resumed and refused."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from conftest import dated, make_dataset, make_facts
from tangokg.errors import ConfigError, RunError, TangoError, TrainingError
from tangokg.forecast import Forecaster, as_dataset, fit, load
from tangokg.models import MODELS
from tangokg.models.tango import TangoSettings
from tangokg.quads.splits import split
from tangokg.quads.values import Dataset, Quadruples, concatenate
from tangokg.quads.world import make_world
from tangokg.rank import FILTERS
from tangokg.train import Progress, RunConfig, RunFolder, TrainSettings

SMALL: dict[str, Any] = {"dim": 4, "history": 2, "step_time": 0.4, "epochs": 1, "device": "cpu"}


class Listener:
    """A reporter that remembers."""

    def __init__(self) -> None:
        self.epochs: list[int] = []
        self.steps = 0

    def step(self, progress: Progress, settings: TrainSettings, snapshots: int) -> None:
        self.steps += 1

    def epoch(self, progress: Progress, settings: TrainSettings) -> None:
        self.epochs.append(progress.epoch)


def quick(data: Any, model: str = "tango", **options: Any) -> Forecaster:
    return fit(data, model, reporter=Listener(), **(SMALL | options))


def same_weights(a: Forecaster, b: Forecaster) -> bool:
    first, second = a.model.state_dict(), b.model.state_dict()
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def same_facts(a: Dataset, b: Dataset) -> bool:
    """By names and formatted times, part by part."""

    def named(facts: Quadruples) -> set[tuple[str, ...]]:
        e, r, rows = facts.vocab.entities, facts.vocab.relations, zip(facts.s, facts.r, facts.o, facts.t, strict=True)
        return {(e[s], r[p], e[o], facts.clock.format(t)) for s, p, o, t in rows}

    return {n: named(p) for n, p in a.parts.items()} == {n: named(p) for n, p in b.parts.items()}


def columns(facts: Quadruples) -> dict[str, list[Any]]:
    e, r = facts.vocab.entities, facts.vocab.relations
    names = {"subject": [e[i] for i in facts.s], "relation": [r[i] for i in facts.r], "object": [e[i] for i in facts.o]}
    return names | {"time": facts.t.tolist()}


def test_every_form_of_data_is_the_same_data(tmp_path: Path) -> None:
    facts = make_facts(1)
    table = pd.DataFrame(columns(facts))
    table.to_csv(tmp_path / "events.csv", index=False)
    expected = split(facts)
    forms = (expected, facts, table, pa.table(columns(facts)), tmp_path / "events.csv", str(tmp_path / "events.csv"))
    for data in forms:
        assert same_facts(as_dataset(data), expected)
        forecaster = quick(data)
        assert same_facts(forecaster.dataset, expected)
        assert forecaster.forecast("e3", "r1", top=2).answers
    assert as_dataset(tmp_path / "events.csv").name == "events"


def test_a_folder_keeps_its_own_parts(tmp_path: Path) -> None:
    data = make_dataset(1)
    for name, part in data.parts.items():
        np.savetxt(tmp_path / f"{name}.txt", np.stack([part.s, part.r, part.o, part.t], 1), "%d")
    found = as_dataset(tmp_path)
    assert [len(part) for part in found.parts.values()] == [len(part) for part in data.parts.values()]


@pytest.mark.parametrize("model", MODELS)
def test_every_model_is_fitted_kept_and_loaded(model: str, tmp_path: Path) -> None:
    own = {key: SMALL[key] for key in SMALL if hasattr(MODELS[model].settings, key) or hasattr(TrainSettings(), key)}
    forecaster = fit(make_dataset(1), model, out=tmp_path / "run", reporter=Listener(), **own)
    loaded = load(tmp_path / "run")
    assert (loaded.config, loaded.config.model) == (forecaster.config, model)
    assert same_weights(loaded, forecaster)
    for question in (
        {"subject": "e3", "relation": "r1"},
        {"relation": "r0", "object": "e11"},
        {"subject": "e3", "object": "e3"},
    ):
        assert loaded.forecast(**question, top=99) == forecaster.forecast(**question, top=99)  # type: ignore[arg-type]
    assert loaded.evaluate().to_dict() == forecaster.evaluate().to_dict()


def test_settings_by_keyword_are_the_models_or_those_of_training() -> None:
    data = make_dataset(1)
    config = quick(data, layers=3, learning_rate=0.5, clip=0, seed=7).config
    assert config.settings == replace(
        MODELS["tango"].settings, dim=4, width=32, hops=1, runs=False, history=2, step_time=0.4, layers=3
    )
    own = {**MODELS["tango"].train, "epochs": 1}
    rule: dict[str, Any] = {"batch_windows": 2, "score_memory": 2.0}
    assert config.train == TrainSettings(**own, **rule, budget=-1, device="cpu", learning_rate=0.5, clip=0.0)
    assert config.seed == 7
    train = TrainSettings(epochs=1, budget=9, device="cpu", learning_rate=0.1, batch_windows=3, score_memory=1)
    whole = RunConfig("tango-distmult", TangoSettings("distmult", dim=3), train, seed=5)
    assert fit(data, whole, reporter=Listener()).config == whole
    changed = fit(data, whole, reporter=Listener(), seed=6, history=1, batch_windows=4).config
    assert changed.settings == replace(whole.settings, history=1)
    assert (changed.train, changed.seed) == (replace(whole.train, batch_windows=4), 6)
    decoded = fit(data, whole, reporter=Listener(), decoder="convtranse", decoding={"channels": 3})
    assert decoded.config.settings.decoding == {"channels": 3}
    assert len(decoded.model.get_parameter("decoder.kernel")) == 3


@pytest.mark.parametrize(
    ("model", "settings", "message"),
    [
        ("tango", {"histroy": 3}, r"unknown setting 'histroy'. Did you mean history"),
        ("tango", {"learning_rat": 3}, r"unknown setting 'learning_rat'. Did you mean learning_rate"),
        ("frequency", {"dim": 3}, r"unknown setting 'dim'.*Known: epochs"),
        ("tango", {"dim": "large"}, r"dim must be int, found 'large'"),
        ("tango", {"epochs": -1}, r"epochs must not be negative"),
        ("tangoo", {}, r"unknown model 'tangoo'. Did you mean tango"),
    ],
)
def test_wrong_settings_are_named_before_anything_is_done(
    model: str, settings: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        fit(make_dataset(1), model, out=tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()


def test_the_seed_decides_the_weights() -> None:
    data = make_dataset(1)
    first, again, other = quick(data, seed=1), quick(data, seed=1), quick(data, seed=2)
    assert same_weights(first, again)
    assert not same_weights(first, other)


def test_a_run_folder_holds_the_results(tmp_path: Path) -> None:
    forecaster = quick(make_dataset(1), out=tmp_path / "run", epochs=2)
    found = json.loads((tmp_path / "run" / "metrics.json").read_text())
    expected = {"model", "dataset", "seed", "config", "valid", "test", "queries", "epochs", "train_seconds", "device"}
    assert expected | {"versions", "commit"} <= found.keys()
    assert (found["model"], found["dataset"], found["seed"], found["epochs"]) == ("tango", "small", 0, 2)
    assert found["config"]["settings"] | {"decoding": {}} == asdict(forecaster.config.settings)  # which is empty
    for part in ("valid", "test"):
        assert found[part].keys() == set(FILTERS) == {"raw", "time-aware", "time-unaware"}
        assert all(v.keys() == {"mrr", "hits@1", "hits@3", "hits@10"} for v in found[part].values())
        assert all(0 < v["mrr"] <= 100 for v in found[part].values())
        assert found[part] == forecaster.evaluate(getattr(forecaster.dataset, part)).to_dict()
        assert found["queries"][part] == forecaster.evaluate(getattr(forecaster.dataset, part)).queries
    assert len((tmp_path / "run" / "log.csv").read_text().splitlines()) == 3


def test_parts_that_are_empty_have_no_results(tmp_path: Path) -> None:
    data = make_dataset(1)
    nothing = data.test.select(slice(0))
    quick(replace(data, valid=nothing, test=nothing), out=tmp_path / "run")
    found = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert not {"valid", "test"} & found.keys()
    assert found["queries"] == {}


def test_the_reporter_hears_of_every_epoch() -> None:
    listener = Listener()
    fit(make_dataset(1), "tango", reporter=listener, **(SMALL | {"epochs": 3, "patience": 0}))
    assert listener.epochs == [1, 2, 3]
    assert listener.steps >= 1


def test_without_a_reporter_progress_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    fit(make_dataset(1), "tango", **SMALL)
    shown = capsys.readouterr()
    assert "1" in shown.err
    assert shown.out == "", "what a program prints is its own"


def test_a_finished_run_is_resumed_by_reading_it(tmp_path: Path) -> None:
    first = quick(make_dataset(1), out=tmp_path / "run")
    files = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    listener = Listener()
    again = fit(make_dataset(1), "tango", out=tmp_path / "run", resume=True, reporter=listener, **SMALL)
    assert same_weights(first, again)
    assert not listener.epochs
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == files


def test_a_run_without_weights_is_trained_to_the_same_end(tmp_path: Path) -> None:
    first = quick(make_dataset(1), out=tmp_path / "run", epochs=2)
    (tmp_path / "run" / "weights.safetensors").unlink()
    again = quick(make_dataset(1), out=tmp_path / "run", epochs=2, resume=True)
    assert same_weights(first, again)
    assert RunFolder(tmp_path / "run").finished
    assert same_weights(quick(make_dataset(1), out=tmp_path / "new", epochs=2, resume=True), first), "nothing there yet"


def test_resuming_with_other_settings_is_refused(tmp_path: Path) -> None:
    quick(make_dataset(1), out=tmp_path / "run")
    for other in ({"dim": 5}, {"clip": 2}, {"seed": 1}, {"model": "tango-tucker"}):
        with pytest.raises(RunError, match=r"was made with other settings \(.* there, .* here\).*--overwrite"):
            quick(make_dataset(1), out=tmp_path / "run", resume=True, **other)


def changed_data() -> dict[str, Dataset]:
    data = make_dataset(1)
    train = data.train
    objects = train.o.copy()
    objects[0] = (objects[0] + 1) % 5
    border = train.t.max()
    valid = concatenate([train.select(train.t == border), data.valid])
    return {
        "another set": make_dataset(2),
        "one object changed": replace(data, train=replace(train, o=objects)),
        "one fact fewer": replace(data, test=data.test.select(slice(1, None))),
        "another border": replace(data, train=train.select(train.t < border), valid=valid),
        "another clock": dated(data),
        "another name": data.with_vocab(replace(data.vocab, entities=("zero", *data.vocab.entities[1:]))),
    }


@pytest.mark.parametrize("case", changed_data())
def test_resuming_with_other_data_is_refused(case: str, tmp_path: Path) -> None:
    fit(make_dataset(1), "frequency", out=tmp_path / "run", reporter=Listener())
    with pytest.raises(RunError, match=r"was made with other data \(.+\); resume with the same, or use --overwrite"):
        fit(changed_data()[case], "frequency", out=tmp_path / "run", resume=True, reporter=Listener())


def test_a_folder_that_exists_is_replaced_only_when_asked(tmp_path: Path) -> None:
    first = quick(make_dataset(1), out=tmp_path / "run")
    with pytest.raises(RunError, match=r"exists; resume it .--resume., replace it .--overwrite"):
        quick(make_dataset(1), out=tmp_path / "run", seed=1)
    assert same_weights(load(tmp_path / "run"), first)
    second = quick(make_dataset(1), out=tmp_path / "run", seed=1, overwrite=True)
    assert same_weights(load(tmp_path / "run"), second)
    assert not same_weights(first, second)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "text.txt").write_text("years of work")
    with pytest.raises(RunError, match="not a run folder"):
        quick(make_dataset(1), out=tmp_path / "thesis", overwrite=True)
    assert (tmp_path / "thesis" / "text.txt").exists()


def test_a_failed_start_leaves_the_disk_as_it_was(tmp_path: Path) -> None:
    """Also from Python: the run to replace is back, an empty folder stays empty, and no folder is left behind."""
    first = quick(make_dataset(1), out=tmp_path / "run")
    (tmp_path / "empty").mkdir()
    diverging: dict[str, Any] = {"learning_rate": 1e30, "clip": 0.0, "epochs": 9}
    for out in ("run", "empty", "some/where/new"):
        with pytest.raises(TrainingError, match="learning_rate"):
            quick(make_dataset(1), out=tmp_path / out, overwrite=True, **diverging)
    assert same_weights(load(tmp_path / "run"), first)
    assert {path.name for path in tmp_path.iterdir()} == {"run", "empty"}
    assert not any((tmp_path / "empty").iterdir())


def test_a_run_that_cannot_be_saved_leaves_the_one_to_replace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = quick(make_dataset(1), out=tmp_path / "run")
    second = quick(make_dataset(1), seed=1)

    def full(*_: Any) -> None:
        raise RunError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "save_model", full)
        with pytest.raises(RunError, match="full"):
            second.save(tmp_path / "run", overwrite=True)
    assert same_weights(load(tmp_path / "run"), first)
    second.save(tmp_path / "run", overwrite=True)
    assert same_weights(load(tmp_path / "run"), second)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_small_world_is_learned_from_better_than_by_chance() -> None:
    """The whole way, with dates: a trained model beats the one it started from."""
    data = make_world(0, num_actors=30, num_newcomers=3, num_days=90).dataset
    options: dict[str, Any] = {"dim": 16, "history": 3, "device": "cpu", "learning_rate": 0.01, "batch_windows": 4}
    trained = fit(data, "tango-tucker", reporter=Listener(), epochs=6, patience=0, **options)
    untrained = fit(data, "tango-tucker", reporter=Listener(), epochs=1, **(options | {"learning_rate": 1e-12}))
    assert trained.evaluate()["time-aware"].mrr > 1.5 * untrained.evaluate()["time-aware"].mrr
    assert trained.forecast(data.vocab.entities[0], "visits", at="2024-05-01").at == "2024-05-01"


def test_a_start_that_fails_leaves_no_folder(tmp_path: Path) -> None:
    data = make_dataset(1)
    one_time = replace(data, train=data.train.select(data.train.t == data.train.t.min()))
    with pytest.raises(TangoError, match="learning from history takes two"):
        fit(one_time, "tango-distmult", dim=4, out=tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_a_run_is_resumed_with_what_a_rule_chose_for_it(tmp_path: Path) -> None:
    """Another device would choose otherwise; what the run began with counts."""
    out = tmp_path / "run"
    first = quick(make_dataset(1), out=out, batch_windows=3, learning_rate=0.02)
    again = quick(make_dataset(1), out=out, resume=True)
    assert again.config == first.config
    with pytest.raises(RunError, match="batch_windows: 3 there, 4 here"):
        quick(make_dataset(1), out=out, resume=True, batch_windows=4)

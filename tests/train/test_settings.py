"""A run is one TOML file: what stands in it, what is refused, and what wins."""

from __future__ import annotations

import tomllib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from conftest import dated, make_dataset, make_timeline
from tangokg.config import to_toml
from tangokg.decode import DECODERS, TuckERDecoding, make_decoding
from tangokg.errors import ConfigError
from tangokg.models import MODELS
from tangokg.models.sizes import Size, fill_by_rule, is_left
from tangokg.models.tango import TangoSettings
from tangokg.quads.world import make_world
from tangokg.train import RunConfig, TrainSettings, load_config, make_config, resolve
from tangokg.train.settings import (
    BUDGET,
    EPOCH_STEPS,
    FEW_FACTS,
    FEW_RATE,
    NO_LIMIT,
    RUN_EPOCHS,
    RUN_QUERIES,
    SCORE_MEMORY,
    STEP_SCORES,
    by_rule,
    inherit,
)

FACTS = (0, 1, 100, 2_000, 20_000, 10**6, 10**8)


@pytest.mark.parametrize("name", MODELS)
def test_every_models_config_is_read_back_from_its_toml(name: str, tmp_path: Path) -> None:
    train = TrainSettings(learning_rate=3e-7, checkpoint_seconds=1e9, device="cpu", precision="64-true")
    config = RunConfig(name, MODELS[name].settings, train, seed=7)
    path = tmp_path / "run.toml"
    path.write_text(to_toml(config.to_tables()))
    assert load_config(path) == config
    assert make_config(tables=tomllib.loads(path.read_text())) == config


def test_the_later_is_the_stronger() -> None:
    tables = {"model": "tango-distmult", "seed": 3, "settings": {"dim": 7, "layers": 1}, "train": {"epochs": 5}}
    texts = ["dim=9", "learning_rate=0.5", "train.patience=1", "settings.dropout=0", "solver=euler"]
    config = make_config(tables=tables, assignments=texts, seed=4)
    expected = TangoSettings(decoder="distmult", dim=9, layers=1, dropout=0.0, solver="euler")
    assert config == RunConfig(
        "tango-distmult", expected, TrainSettings(epochs=5, budget=-1, learning_rate=0.5, patience=1), seed=4
    )
    assert make_config(tables=tables).seed == 3
    assert make_config().model == "tango"


@pytest.mark.parametrize("model", [name for name, recipe in MODELS.items() if hasattr(recipe.settings, "decoding")])
@pytest.mark.parametrize("decoder", DECODERS)
def test_a_decoder_has_settings_of_its_own_in_every_model_that_takes_one(
    model: str, decoder: str, tmp_path: Path
) -> None:
    sizes = [f.name for f in fields(DECODERS[decoder].settings) if isinstance(f.default, int)]
    given = [f"decoding.{size}=5" for size in sizes] + ["settings.decoding.dropout=0.25"]
    config = make_config(model, assignments=["dim=6", *given, f"decoder={decoder}"])  # in any order
    found = make_decoding(config.settings)
    assert found == DECODERS[decoder].settings(0.25, **dict.fromkeys(sizes, 5))
    expected = DECODERS[decoder](found, 6, torch.Generator()).state_dict()
    built: Any = MODELS[model].build(config.settings, make_timeline(), torch.Generator())
    assert {k: v.shape for k, v in built.decoder.state_dict().items()} == {k: v.shape for k, v in expected.items()}
    path = tmp_path / "run.toml"
    path.write_text(to_toml(config.to_tables()))
    assert load_config(path) == config
    changed = load_config(path, assignments=["decoding.dropout=0.5"])
    assert changed.settings.decoding == config.settings.decoding | {"dropout": 0.5}


def test_a_model_hands_its_dropout_to_the_decoder() -> None:
    tables = {"model": "tango-tucker", "settings": {"decoder": "tucker", "dropout": 0.3}}
    config = make_config(tables=tables)
    assert make_decoding(config.settings) == TuckERDecoding(dropout=0.3)
    assert "decoding" not in tomllib.loads(to_toml(config.to_tables()))["settings"]


def test_the_data_and_the_clock_of_a_run_may_stand_in_a_config() -> None:
    tables: dict[str, Any] = {"model": "frequency", "data": {"name": "ICEWS18"}, "clock": {}}
    assert make_config(tables=tables).model == "frequency"


def test_another_models_settings_are_left_behind(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('model = "tango-tucker"\n[settings]\ndecoder = "tucker"\ndim = 7\n[train]\nepochs = 3\n')
    config = load_config(path, model="recurrence")
    assert (config.model, config.settings, config.train.epochs) == ("recurrence", MODELS["recurrence"].settings, 3)
    assert load_config(path, model="tango-tucker").settings.dim == 7


@pytest.mark.parametrize(
    ("tables", "text"),
    [
        ({"model": "tango-tuker"}, r"unknown model 'tango-tuker'\. Did you mean .*tango-tucker"),
        ({"model": ["x"]}, "unknown model"),
        ({"model": 3}, "unknown model 3"),
        ({"schema": 2}, r"schema 2 is not the one this version reads \(1\)"),
        ({"trian": {}}, "unknown table or key 'trian'; expected model"),
        ({"settings": 3}, r"\[settings\] must be a table, found 3"),
        ({"train": "fast"}, r"\[train\] must be a table, found 'fast'"),
        ({"train": {"epoch": 3}}, r"config \[train\]: unknown setting 'epoch'\. Did you mean epochs"),
        ({"settings": {"dims": 3}}, r"config \[settings\]: unknown setting 'dims'\. Did you mean dim"),
        ({"settings": {"dim": "200"}}, "dim must be int, found '200'"),
        ({"train": {"learning_rate": "high"}}, "learning_rate must be float, found 'high'"),
        ({"seed": 1.5}, "seed must be a whole number .*found 1.5"),
        ({"seed": True}, "seed must be a whole number"),
    ],
)
def test_a_config_that_is_wrong_says_where(tables: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        make_config(tables=tables)


@pytest.mark.parametrize(
    ("assignment", "text"),
    [
        ("learning_rat=1", r"unknown setting 'learning_rat'\. Did you mean learning_rate\?"),
        ("dimm=1", r"unknown setting 'dimm'\. Did you mean dim\?"),
        ("zzz=1", r"unknown setting 'zzz'\. Known: decoder, .*epochs"),
        ("train.dim=1", "unknown setting 'dim'"),
        ("decoding.dropot=0.1", r"decoding \(tucker\): unknown setting 'dropot'\. Did you mean dropout"),
        ("decoding.channels=3", r"decoding \(tucker\): unknown setting 'channels'"),
        ("decoding.dropout=1", "dropout must lie in"),
        ("decoding.dropout=big", "dropout must be float, found 'big'"),
        ("decoding=3", "decoding must be a table, found 3"),
        ("other.dim=1", "unknown table 'other'; expected settings or train"),
        ("dim=big", "dim must be int, found 'big'"),
        ("dim=2024-01-01", "dim must be int"),
        ("epochs=-1", "epochs must not be negative"),
        ("dim", "expected key=value"),
    ],
)
def test_an_assignment_that_is_wrong_says_why(assignment: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        make_config("tango-tucker", assignments=[assignment])


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"epochs": -1}, "epochs must not be negative, found -1"),
        ({"batch_windows": -1}, "batch_windows must not be negative"),
        ({"learning_rate": -0.1}, "learning_rate must not be negative"),
        ({"patience": -1}, "patience must not be negative"),
        ({"horizons": 0}, "horizons must be at least 1"),
        ({"horizons": 2, "batch_queries": 5}, "horizons must be at least 1"),
        ({"rate_decay": 0.0}, "rate_decay must lie in"),
        ({"rate_decay": 1.5}, "rate_decay must lie in"),
        ({"clip": -0.1}, "clip must not be negative"),
        ({"weight_decay": -1.0}, "weight_decay must not be negative"),
        ({"checkpoint_seconds": -1.0}, "checkpoint_seconds must not be negative"),
        ({"device": "gpu"}, "device 'gpu' is unknown; choose one of auto, cpu, cuda"),
        ({"precision": "8"}, "precision '8' is unknown; choose one of 32-true"),
    ],
)
def test_impossible_training_settings_are_refused(values: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        replace(TrainSettings(), **values)


def chosen(queries: int, snapshots: int, device: str, num_entities: int = 100, **given: Any) -> tuple[int, float]:
    train = by_rule(TrainSettings(**given), queries, snapshots, num_entities, device)
    return train.batch_windows, train.learning_rate


def test_a_step_by_rule_is_two_windows_on_a_cpu_and_what_keeps_a_gpu_busy() -> None:
    assert {chosen(queries, 100, "cpu") for queries in (2 * FEW_FACTS, 10**4, 5 * 10**5)} == {(2, 1e-3)}
    assert chosen(10**9, 100, "cpu") == (1, 1e-3)
    windows, rate = chosen(227 * 3243, 3243, "cuda")
    assert abs(windows * 227 - TrainSettings().step_queries) <= 227 / 2
    assert rate == 2e-3
    assert chosen(10**9, 100, "cuda") == (1, 1e-3)
    assert chosen(10**9, 100, "cuda", batch_windows=7) == (7, 2e-3)
    assert chosen(10**9, 100, "cuda", batch_windows=7, learning_rate=0.5) == (7, 0.5)


def test_a_step_by_rule_leaves_some_steps_to_an_epoch_and_room_for_the_scores() -> None:
    for snapshots in (1, 10, 144, 1000):
        windows, _ = chosen(snapshots, snapshots, "cuda")
        assert windows == 1 or snapshots / windows >= EPOCH_STEPS * 0.9
    windows, _ = chosen(100 * 1000, 1000, "cuda", num_entities=10**6)
    assert windows * 100 * 10**6 <= STEP_SCORES * 1.2


def test_a_batch_that_is_given_stays() -> None:
    data = make_world(num_actors=36, num_days=60).dataset
    given, left = (make_config("tango", assignments=[f"batch_windows={n}", "device=cpu"]) for n in (7, 0))
    assert resolve(given, data).train.batch_windows == 7
    chosen = replace(left.train, epochs=RUN_EPOCHS[1], batch_windows=2, learning_rate=FEW_RATE, budget=BUDGET)
    assert resolve(left, data).train == replace(chosen, score_memory=SCORE_MEMORY["cpu"])


@pytest.mark.parametrize("name", [name for name, recipe in MODELS.items() if hasattr(recipe.settings, "unit")])
def test_a_model_that_reads_the_calendar_is_given_that_of_the_data(name: str) -> None:
    left, data = make_config(name), dated(make_dataset(1), "day", "2014-01-01")
    assert resolve(left, data).settings == replace(left.settings, unit="day", origin="2014-01-01")
    given = replace(left, settings=replace(left.settings, unit="week", origin="2020-01-06"))
    assert resolve(given, data).settings == given.settings
    assert resolve(left, make_dataset(1)).settings == replace(left.settings, unit="step", origin="")


def test_few_facts_get_a_larger_rate() -> None:
    for device in ("cpu", "cuda"):
        assert chosen(2 * FEW_FACTS - 1, 100, device)[1] == FEW_RATE
        assert chosen(2 * FEW_FACTS - 1, 100, device, learning_rate=0.5)[1] == 0.5
        assert chosen(2 * FEW_FACTS, 100, device)[1] < FEW_RATE


def test_epochs_by_rule_ask_enough_questions() -> None:
    epochs = [
        by_rule(TrainSettings(epochs=0), queries, 100, 10**4, "cpu").epochs for queries in (0, 10**4, 10**5, 10**9)
    ]
    assert epochs == [RUN_EPOCHS[1], RUN_EPOCHS[1], RUN_QUERIES // 10**5, RUN_EPOCHS[0]]
    assert by_rule(TrainSettings(epochs=3), 10**6, 100, 10**4, "cpu").epochs == 3


def test_a_cpu_has_a_limit_of_time_and_a_gpu_has_none() -> None:
    budgets = {device: by_rule(TrainSettings(), 10**6, 100, 10**4, device).budget for device in ("cpu", "cuda")}
    assert budgets == {"cpu": BUDGET, "cuda": NO_LIMIT}
    for given in (NO_LIMIT, 5.0):
        assert by_rule(TrainSettings(budget=given), 10**6, 100, 10**4, "cpu").budget == given


RULED = [name for name, recipe in MODELS.items() if getattr(recipe.settings, "ruled", ())]


def left_to_the_rule(name: str) -> Any:
    settings = MODELS[name].settings
    return replace(settings, **dict.fromkeys(settings.ruled, 0))


@pytest.mark.parametrize("name", RULED)
def test_sizes_by_rule_grow_with_the_facts_and_with_the_device(name: str) -> None:
    left = left_to_the_rule(name)
    for setting in left.ruled:
        values = {
            device: [getattr(fill_by_rule(left, Size(facts, 100, 50, 5, device)), setting) for facts in FACTS]
            for device in ("cpu", "cuda")
        }
        assert not any(is_left(value) for row in values.values() for value in row)
        assert all(row == sorted(row) for row in values.values())
        assert all(cpu <= gpu for cpu, gpu in zip(*values.values(), strict=True))


@pytest.mark.parametrize("name", RULED)
def test_what_is_given_is_not_left_to_the_rule(name: str) -> None:
    given = replace(left_to_the_rule(name), **left_to_the_rule(name).by_rule(Size(10, 2, 5, 1, lasting=1.0)))
    assert fill_by_rule(given, Size(10**6, 100, 50, 5)) == given


@pytest.mark.parametrize("name", RULED)
def test_a_run_that_has_begun_keeps_what_the_rule_chose(name: str) -> None:
    left = RunConfig(name, left_to_the_rule(name), TrainSettings(device="cpu"))
    begun = resolve(left, make_dataset(1))
    assert inherit(left, begun) == begun
    assert not any(is_left(getattr(begun.settings, setting)) for setting in left.settings.ruled)
    elsewhere = left.settings.by_rule(Size(10**6, 100, 50, 5, "cuda", lasting=1.0))
    other = replace(begun, settings=replace(begun.settings, **elsewhere))
    assert inherit(left, other).settings == other.settings
    assert inherit(begun, other) == begun

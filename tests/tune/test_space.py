"""What a search chooses from: the paper's grid, time scales, what is fixed by hand, the config that comes out."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from conftest import make_dataset
from tangokg.config import to_toml
from tangokg.errors import ConfigError, DataError
from tangokg.train import TrainSettings, load_config
from tangokg.tune.space import PRESETS, Choice, Plan, Range, make_plan


def points(plan: Plan) -> list[dict[str, object]]:
    choices = [choice.values for choice in plan.space.values() if isinstance(choice, Choice)]
    return [dict(zip(plan.space, values, strict=True)) for values in itertools.product(*choices)]


def test_the_grid_is_the_papers_and_every_point_is_a_config_of_its_own() -> None:
    plan = make_plan(make_dataset(), "paper-grid")
    assert plan.size == len(points(plan)) == 432
    configs = [plan.config(point) for point in points(plan)[::5]]
    assert len(set(configs)) == len(configs)
    assert all(c.settings.identity and c.train.epochs == 20 and c.train.patience == 0 for c in configs)
    found = {(c.settings.decoder, c.settings.dim, c.settings.layers, c.settings.dropout) for c in configs}
    assert found == set(itertools.product(("tucker", "distmult"), (200, 300), (2, 3), (0.3, 0.5)))
    assert {(c.settings.history, c.settings.transition) for c in configs} == set(
        itertools.product((4, 6, 10), (0.01, 0.1, 1.0))
    )


def test_the_search_holds_the_papers_space_and_goes_somewhat_beyond_it_in_few_trials() -> None:
    grid, search = PRESETS["paper-grid"].space, PRESETS["search"].space
    assert {"step_time", "learning_rate", "batch_windows"} == set(search) - set(grid)
    for name in set(grid) - {"scale"}:  # which is step_time there
        assert all(search[name].clip(value) == value for value in grid[name].values), name  # type: ignore[union-attr]
    assert PRESETS["search"].trials <= 24 < PRESETS["paper-grid"].trials == 432
    assert PRESETS["search"].sampler != PRESETS["paper-grid"].sampler == "grid"


def test_a_scale_is_the_solver_time_from_the_first_fact_to_the_last_of_validation() -> None:
    dataset = make_dataset(3)
    plan = make_plan(dataset, "paper-grid", assignments=["scale=0.1"])
    settings = plan.config({"model": "tango-tucker"}).settings
    t = np.unique(np.concatenate([dataset.train.t, dataset.valid.t]))
    gaps = np.sort(np.diff(np.unique(dataset.train.t)))
    unit = settings.step_time / gaps[(len(gaps) - 1) // 2]  # of solver time for one of the data, as in the model
    assert sum(np.diff(t) * unit) == pytest.approx(0.1)


def test_what_is_given_by_hand_is_fixed_or_chosen_from() -> None:
    plan = make_plan(make_dataset(), "paper-grid", "tango-distmult", ["dim=8", "train.epochs=3", "history=[1, 2]"])
    assert plan.size == 2 * 3 * 3 * 2 * 2
    assert {"model", "dim"}.isdisjoint(plan.space)
    config = plan.config(points(plan)[0])
    assert (config.model, config.settings.dim, config.settings.history, config.train.epochs) == (
        "tango-distmult",
        8,
        1,
        3,
    )
    searched = make_plan(make_dataset(), "search", assignments=["scale=[0.01, 0.1]", "clip=[0.5, 1.0]"])
    assert "step_time" not in searched.space
    assert searched.space["clip"] == Choice((0.5, 1.0))
    assert searched.size is None


def test_settings_of_the_decoder_are_searched_as_any_other() -> None:
    given = ["model=tango", "decoding.channels=[20, 60]", "settings.decoding.kernel=5"]
    plan = make_plan(make_dataset(), "search", assignments=given)
    assert plan.space["decoding.channels"] == Choice((20, 60))
    usual = plan.usual(make_dataset())
    assert usual["decoding.channels"] == 20, "the first choice: the default, 50, is none of them"
    assert plan.config(usual).settings.decoding == {"kernel": 5, "channels": 20}


@pytest.mark.parametrize("preset", PRESETS)
def test_the_usual_point_lies_in_the_space(preset: str) -> None:
    dataset = make_dataset()
    plan = make_plan(dataset, preset)
    usual = plan.usual(dataset)
    assert list(usual) == list(plan.space)
    for name, choice in plan.space.items():
        inside = (
            usual[name] in choice.values if isinstance(choice, Choice) else choice.low <= usual[name] <= choice.high
        )
        assert inside, name
    assert Range(1, 3).clip(7) == 3


def test_the_final_config_is_read_back_and_trains_until_it_converges(tmp_path: Path) -> None:
    dataset = make_dataset()
    plan = make_plan(dataset, "search", assignments=["epochs=2", "patience=1", "device=cpu"], seed=7)
    final = plan.final(plan.usual(dataset))
    path = tmp_path / "best.toml"
    path.write_text(to_toml(final.to_tables() | {"data": {"name": "small"}}))
    assert load_config(path) == final
    usual = TrainSettings()
    assert (final.train.epochs, final.train.patience, final.train.device) == (usual.epochs, usual.patience, "auto")
    assert final.seed == 7


@pytest.mark.parametrize(
    ("preset", "model", "given", "message"),
    [
        ("papergrid", None, [], "unknown preset 'papergrid'. Did you mean paper-grid"),
        ("search", "recurrence", [], "recurrence has no dim, .* choose one of tango"),
        ("search", None, ["dmi=[1, 2]"], "unknown setting 'dmi'. Did you mean dim"),
        ("search", None, ["dim=[]"], "expected one value at least"),
        ("search", None, ["history=[4, 0]"], "history must be at least 1"),
        ("search", None, ["train.dim=3"], "there is no such setting"),
        (
            "search",
            None,
            ["model=tango", *(f"{k}=1" for k in PRESETS["search"].space if k != "model")],
            "nothing is left",
        ),
    ],
)
def test_mistakes_are_told(preset: str, model: str | None, given: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_plan(make_dataset(), preset, model, given)


def test_a_search_needs_a_validation_part() -> None:
    dataset = make_dataset()
    with pytest.raises(DataError, match="needs a validation part"):
        make_plan(replace(dataset, valid=dataset.valid.select(slice(0))), "search")

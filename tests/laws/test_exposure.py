"""Weights never saw what they are judged by: a run that starts from another, and one that is trained on everything."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest
import torch

from conftest import make_dataset, make_facts
from tangokg.cli import main
from tangokg.errors import RunError, TangoError
from tangokg.forecast import Forecaster, fit, load
from tangokg.forecast.comparing import compare
from tangokg.models import MODELS
from tangokg.quads.splits import split_at
from tangokg.quads.values import Dataset
from tangokg.rank.metrics import Summary
from tangokg.train import Interrupted, Progress, RunFolder, TrainSettings, loop, validating
from tangokg.train.checkpoint import load_tensors, save_tensors
from tangokg.train.exposure import Exposure, everything, seen_before
from tangokg.train.stopping import STOPPED

SMALL: dict[str, Any] = {"dim": 4, "history": 2, "step_time": 0.4, "epochs": 2, "device": "cpu", "batch_windows": 2}
TIMES = np.unique(make_facts(1, 12).t)


class Silent:
    def step(self, progress: Progress, settings: TrainSettings, snapshots: int) -> None: ...

    def epoch(self, progress: Progress, settings: TrainSettings) -> None: ...


def cut(valid: int, test: int) -> Dataset:
    """The same facts, validated and tested from these snapshots on."""
    return split_at(make_facts(1, 12), int(TIMES[valid]), int(TIMES[test]))


def own(name: str) -> dict[str, Any]:
    known = {*vars(TrainSettings()), *vars(MODELS[name].settings)}
    return {key: value for key, value in SMALL.items() if key in known}


def train(data: Dataset, name: str = "tango", **options: Any) -> Forecaster:
    return fit(data, name, reporter=Silent(), **(own(name) | options))


STARTS = [("tango", border) for border in range(2, 11)] + [(name, border) for name in MODELS for border in (7, 8)]


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a model's run, trained and validated on the snapshots before 8; made once."""

    @cache
    def run(name: str) -> Path:
        path = tmp_path_factory.mktemp("earlier") / name
        train(cut(6, 8), name, out=path, **({"epochs": 1} if "epochs" in own(name) else {}))
        return path

    return run


@pytest.mark.parametrize(("name", "border"), dict.fromkeys(STARTS))
def test_a_start_from_a_run_that_saw_what_is_held_back_is_refused(
    name: str, border: int, earlier: Callable[[str], Path], tmp_path: Path
) -> None:
    copytree(earlier(name), tmp_path / "old")
    new = cut(border, 11)
    if border < 8:
        with pytest.raises(RunError, match=r"depends on facts up to \d+, but its .* facts begin at \d+"):
            train(new, name, start_from=tmp_path / "old", out=tmp_path / "new")
        assert not (tmp_path / "new").exists()
        marked = train(new, name, start_from=tmp_path / "old", out=tmp_path / "new", allow_seen=True)
        assert marked.evaluate().not_comparable
        assert "not comparable" in repr(marked.evaluate())
        assert json.loads((tmp_path / "new" / "metrics.json").read_text())["not_comparable"]
        assert load(tmp_path / "new").evaluate().not_comparable == marked.exposure.seen
    else:
        fair = train(new, name, start_from=tmp_path / "old", out=tmp_path / "new")
        assert not fair.evaluate().not_comparable
        assert "not_comparable" not in json.loads((tmp_path / "new" / "metrics.json").read_text())


def test_marked_and_refitted_models_are_not_compared_from_python(tmp_path: Path) -> None:
    train(cut(6, 8), out=tmp_path / "old")
    new = cut(4, 5)
    train(new, out=tmp_path / "new", start_from=tmp_path / "old", allow_seen=True)
    marked = load(tmp_path / "new")
    with pytest.raises(RunError, match="is not comparable: the run it starts from depends on"):
        compare(marked.dataset, ["frequency", marked], verbose=False)
    found = compare(marked.dataset, ["frequency", marked], verbose=False, allow_seen=True)
    assert {row.name for row in found.rows} == {"frequency", "tango (not comparable)"}
    assert found.test is None
    with pytest.raises(TangoError, match="refit"):
        compare(new, ["tango"], refit=True, verbose=False, **own("tango"))
    with pytest.raises(RunError, match="--refit"):
        compare(new, [train(new, refit=True)], verbose=False)


def test_what_was_seen_is_handed_down(tmp_path: Path) -> None:
    """A marked run depends on all that the first one saw, and so does whatever starts from it."""
    train(cut(9, 11), out=tmp_path / "first")
    train(cut(4, 5), out=tmp_path / "second", start_from=tmp_path / "first", allow_seen=True)
    assert RunFolder(tmp_path / "second").exposure().until == RunFolder(tmp_path / "first").exposure().until
    with pytest.raises(RunError, match="--allow-seen"):
        train(cut(9, 10), start_from=tmp_path / "second")
    third = train(cut(11, 11), start_from=tmp_path / "second")
    assert third.exposure.seen, "weights that were chosen by a look ahead stay marked"


def test_the_mark_stays_when_a_run_is_stopped_and_resumed(tmp_path: Path) -> None:
    train(cut(9, 11), out=tmp_path / "old")
    options: dict[str, Any] = {"out": tmp_path / "new", "start_from": tmp_path / "old", "allow_seen": True}
    with pytest.raises(Interrupted):
        train(cut(4, 5), stop=lambda _: STOPPED, **options)
    assert load(tmp_path / "new").exposure.seen
    resumed = fit(RunFolder(tmp_path / "new").dataset(), load(tmp_path / "new").config, out=tmp_path / "new",
                  resume=True, reporter=Silent())  # fmt: skip
    assert resumed.exposure == load(tmp_path / "new").exposure
    assert resumed.exposure.seen
    assert resumed.exposure.until == RunFolder(tmp_path / "old").exposure().until


def test_parts_that_are_empty_hold_nothing_back() -> None:
    data = make_dataset(1)
    nothing = data.test.select(slice(0))
    everything_seen = Exposure(float(data.facts.t.max()))
    assert seen_before(everything_seen, data)
    assert seen_before(everything_seen, replace(data, valid=nothing))
    assert seen_before(everything_seen, replace(data, valid=nothing, test=nothing)) == ""


@pytest.mark.parametrize("name", MODELS)
def test_a_refitted_run_is_not_measured_on_what_it_was_trained_on(name: str, tmp_path: Path) -> None:
    data = make_dataset(1)
    plain = train(data, name, out=tmp_path / "plain")
    refitted = train(data, name, out=tmp_path / "run", refit=True)
    loaded = load(tmp_path / "run")
    figures = [json.loads((tmp_path / run / "metrics.json").read_text()) for run in ("plain", "run")]
    for part in ("valid", "test", "queries", "epochs", "best_epoch"):
        assert figures[0][part] == figures[1][part], "figures are those before the refit"
    assert loaded.forecast("e3", "r1", top=99) == refitted.forecast("e3", "r1", top=99)
    if not any(True for _ in plain.model.parameters()):
        assert refitted.evaluate().to_dict() == plain.evaluate().to_dict(), "nothing was trained on them"
        return
    before = {kind: one.to_dict() for kind, one in plain.calibration().items()}
    assert figures[1]["reliability"] == json.loads(json.dumps(before)), "and so is the calibration"
    for forecaster in (refitted, loaded):
        assert forecaster.exposure.refit
        assert forecaster.seen.all(), "every entity was trained on"
        for facts in (data.train, data.valid, data.test, None):
            with pytest.raises(RunError, match=r"trained on everything up to \d+ \(--refit\)"):
                forecaster.evaluate(facts)
            with pytest.raises(RunError, match=r"trained on everything up to \d+ \(--refit\)"):
                forecaster.calibration(facts)
        same = zip(forecaster.chances.tensors().values(), plain.chances.tensors().values(), strict=True)
        assert all(torch.equal(a, b) for a, b in same), "chances are those before the refit"
    later = replace(data.test, t=data.test.t + int(data.facts.t.max()))
    assert loaded.evaluate(later).queries
    with pytest.raises(RunError, match="--allow-seen"):
        train(data, name, start_from=tmp_path / "run")
    state, other = loaded.model.state_dict(), plain.model.state_dict()
    assert any(state[key].shape != other[key].shape or not torch.equal(state[key], other[key]) for key in state)


def test_a_refit_takes_all_parts_the_best_number_of_epochs_and_the_same_rates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trained: list[tuple[int, int, float]] = []
    values, epoch = iter((3.0, 5.0, 4.0, 1.0)), loop.Session.epoch

    def spy(session: loop.Session, stop: Any) -> str:
        ended = epoch(session, stop)
        trained.append((session.progress.epoch, len(session.order), session.optimizer.param_groups[0]["lr"]))
        return ended

    monkeypatch.setattr(loop.Session, "epoch", spy)
    monkeypatch.setattr(validating, "examine", lambda *_: {"time-aware": Summary(next(values), {}, 0)})
    data = make_dataset(1)
    options: dict[str, Any] = {
        "epochs": 4,
        "patience": 1,
        "rate_decay": 0.5,
        "learning_rate": 0.01,
        "schedule": "plateau",
    }
    chosen = train(data, refit=True, **options)
    assert chosen.progress.best_epoch == 2
    first, second = trained[: chosen.progress.epoch], trained[chosen.progress.epoch :]
    assert [row[0] for row in second] == [0, 1]
    assert [row[2] for row in second] == [row[2] for row in first[:2]]
    assert {row[1] for row in second} == {len(np.unique(data.facts.t)) - 1}
    assert len(everything(data).train) == len(data.facts)


def test_a_refit_that_was_stopped_leaves_the_chosen_weights_and_goes_on(tmp_path: Path) -> None:
    data = make_dataset(1)
    whole = train(data, refit=True)
    first = train(data)
    asked: list[None] = []

    def stop(progress: Progress) -> str:
        asked.append(None)
        return STOPPED if len(asked) > 2 * 4 + 1 else ""  # three steps and the end of an epoch, twice

    with pytest.raises(Interrupted) as raised:
        train(data, refit=True, out=tmp_path / "run", stop=stop)
    folder = RunFolder(tmp_path / "run")
    assert folder.refit_checkpoint.exists()
    assert folder.usable
    assert not folder.finished
    for kept in (raised.value.forecaster, load(tmp_path / "run")):
        assert kept.evaluate().to_dict() == first.evaluate().to_dict()
    resumed = train(data, refit=True, out=tmp_path / "run", resume=True)
    assert folder.finished
    assert all(torch.equal(v, whole.model.state_dict()[k]) for k, v in resumed.model.state_dict().items())
    assert load(tmp_path / "run").exposure.refit


def test_a_finished_run_is_refitted_later(tmp_path: Path) -> None:
    data = make_dataset(1)
    train(data, out=tmp_path / "run")
    later = train(data, out=tmp_path / "run", resume=True, refit=True)
    whole = train(data, refit=True)
    assert all(torch.equal(v, whole.model.state_dict()[k]) for k, v in later.model.state_dict().items())
    more = train(data, out=tmp_path / "run", resume=True, refit=True, epochs=3)
    assert more.exposure.refit
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["epochs"] == 3


def test_the_refit_of_a_continued_run_starts_from_the_same_weights_when_it_is_resumed(tmp_path: Path) -> None:
    train(cut(6, 8), out=tmp_path / "old")
    whole = train(cut(8, 10), start_from=tmp_path / "old", refit=True)
    with pytest.raises(Interrupted):
        train(cut(8, 10), start_from=tmp_path / "old", refit=True, out=tmp_path / "new", stop=lambda _: STOPPED)
    dataset = RunFolder(tmp_path / "new").dataset()  # as the command line reads it
    resumed = train(dataset, refit=True, out=tmp_path / "new", resume=True)
    assert all(torch.equal(v, whole.model.state_dict()[k]) for k, v in resumed.model.state_dict().items())


@pytest.mark.parametrize("how", ["lost", "of another version"])
def test_chances_of_a_refitted_run_are_never_fitted_anew(
    how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They would be fitted on a validation part that the weights have learned."""
    data, run = make_dataset(1), tmp_path / "run"
    train(data, out=run, refit=True)
    kept = load(run).forecast("e3", "r1", top=99)
    for part in ("test", "valid"):
        assert main(["evaluate", str(run), "--calibration", "--split", part]) == 2
        assert "trained on everything up to" in capsys.readouterr().err, "its figures are those before the refit"
    assert load(run).forecast("e3", "r1", top=99) == kept
    chances = run / "chances.safetensors"
    if how == "lost":
        chances.unlink()
    else:
        save_tensors(chances, load_tensors(chances)[0], {"schema": -1})
    for words in (["forecast", str(run), "e3", "r1"], ["forecast", str(run), "e3", "--by", "99"]):
        assert main(words) == 2
        assert "chances.safetensors" in capsys.readouterr().err
    uses: list[Callable[[Forecaster], object]] = [lambda f: f.chances, lambda f: f.save(tmp_path / "saved")]
    for use in uses:
        with pytest.raises(RunError, match="refit"):
            use(load(run))
    assert not (tmp_path / "saved").exists()
    later = replace(data.test, t=data.test.t + int(data.facts.t.max()))
    assert load(run).evaluate(later).queries, "ranks need none"

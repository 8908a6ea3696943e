"""Training ends by its limits, by callbacks and by signals: it says why, and what was learned is usable."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from conftest import make_dataset
from tangokg.errors import ConfigError, TrainingError
from tangokg.forecast import fit, load
from tangokg.models.ttranse import TTransESettings
from tangokg.rank.metrics import Summary
from tangokg.train import (
    Interrupted,
    Progress,
    RunConfig,
    RunFolder,
    TrainSettings,
    build_model,
    loop,
    make_config,
    material,
    validating,
)
from tangokg.train.settings import NO_LIMIT
from tangokg.train.signals import Watch, watching
from tangokg.train.stopping import ENDINGS, STOPPED, Budget, duration, first_of, why_ended

SMALL: dict[str, Any] = {
    "dim": 4,
    "width": 8,
    "history": 2,
    "step_time": 0.4,
    "device": "cpu",
    "batch_windows": 1,
    "schedule": "plateau",  # a cosine over more epochs has other rates from the start
}
STEPS = 5  # of an epoch


class Silent:
    def step(self, progress: Progress, settings: TrainSettings, snapshots: int) -> None: ...

    def epoch(self, progress: Progress, settings: TrainSettings) -> None: ...


def after(steps: int) -> Callable[[Progress], str]:
    """A callback that stops after so many steps."""
    asked: list[None] = []

    def stop(progress: Progress) -> str:
        asked.append(None)
        return STOPPED if len(asked) >= steps else ""

    return stop


def train(out: Path | None = None, **options: Any) -> Any:
    return fit(make_dataset(1), "tango", out=out, reporter=Silent(), **(SMALL | options))


def same_weights(a: Any, b: Any) -> bool:
    first, second = a.model.state_dict(), b.model.state_dict()
    return all(torch.equal(first[name], second[name]) for name in first)


def test_each_end_has_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    assert train(epochs=2).progress.ended == "epochs"
    values = iter(range(99, 0, -1))
    with monkeypatch.context() as patched:
        patched.setattr(validating, "examine", lambda *_: {"time-aware": Summary(next(values), {}, 0)})
        assert train(epochs=9, patience=2).progress.ended == "patience"
    assert train(budget=1e-6).progress.ended == "budget"
    for ended in ENDINGS:
        assert why_ended(Progress(ended=ended), TrainSettings(budget=480))
    assert why_ended(Progress(), TrainSettings()) == ""
    assert why_ended(Progress(ended="budget"), TrainSettings(budget=480)) == "the time budget of 8 min is spent"
    assert [duration(s) for s in (0.5, 90, 60, 600, 7200)] == ["0.5 s", "90 s", "1 min", "10 min", "2 h"]


def test_a_budget_counts_all_sessions_and_keeps_time_for_a_validation() -> None:
    budget = Budget(100)
    assert budget(Progress(seconds=99)) == ""
    assert budget(Progress(seconds=101)) == "budget"
    assert budget(Progress(seconds=95, check_seconds=6)) == "budget"
    assert Budget(NO_LIMIT)(Progress(seconds=1e9)) == ""
    assert first_of(lambda _: "", lambda _: "a", lambda _: "b")(Progress()) == "a"


def test_a_budget_that_ends_within_an_epoch_gives_validated_weights_and_can_be_raised(tmp_path: Path) -> None:
    short = train(tmp_path / "run", budget=1e-6)
    assert (short.progress.epoch, short.progress.best_epoch) == (1, 1)
    assert short.progress.best_mrr > 0
    assert RunFolder(tmp_path / "run").finished
    longer = train(tmp_path / "run", resume=True, epochs=2)
    assert same_weights(longer, train(epochs=2)), "it goes on from the step where it ended"
    assert RunFolder(tmp_path / "run").config() == longer.config


def test_the_time_of_the_first_validation_is_guessed() -> None:
    guessed: list[float] = []

    def listen(progress: Progress) -> str:
        if not progress.epoch:
            guessed.append(progress.check_seconds / progress.seconds)
        return ""

    train(epochs=1, stop=listen)
    assert len(guessed) == STEPS
    assert guessed == sorted(guessed, reverse=True), "the more was asked, the smaller a part a validation is"
    assert guessed[-1] > 0


@pytest.mark.parametrize("text", ["10m", "600s", "600", 600, 600.0])
def test_a_budget_is_a_time(text: Any) -> None:
    assert train(epochs=1, budget=text).config.train.budget == 600


def test_limits_that_are_wrong_or_left_out() -> None:
    for wrong in ("soon", "-3m", "0", "nan"):
        with pytest.raises(ConfigError, match="expected a time such as 90s, 8m or 1h"):
            train(budget=wrong)
    assert train(epochs=1, budget="none").config.train.budget == NO_LIMIT
    assert make_config("tango", assignments=["epochs=3"]).train.budget == NO_LIMIT
    assert make_config("tango", {"train": {"epochs": 3}}).train.budget == NO_LIMIT
    assert make_config("tango", assignments=["epochs=3", "budget=5"]).train.budget == 5
    assert make_config("cygnet").train.budget == 0, "what a model usually takes is no wish"
    with pytest.raises(ConfigError, match="budget must be seconds, 0"):
        TrainSettings(budget=-5)


@pytest.mark.parametrize("steps", [1, STEPS, STEPS + 3, 2 * STEPS + 1])
def test_a_stop_keeps_the_best_weights_as_a_usable_run(steps: int, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(Interrupted) as raised:
        train(out, epochs=3, stop=after(steps))
    kept = raised.value.forecaster
    assert isinstance(raised.value, KeyboardInterrupt)
    assert kept.forecast("e3", "r1").answers
    assert kept.progress.ended == STOPPED
    folder = RunFolder(out)
    assert folder.usable
    assert not folder.finished
    assert folder.checkpoint.exists()
    loaded = load(out)
    assert same_weights(loaded, kept)
    assert loaded.progress.ended == STOPPED
    assert loaded.evaluate().queries
    assert same_weights(train(out, epochs=3, resume=True), train(epochs=3)), "resuming loses nothing"
    assert folder.finished


def test_a_stop_keeps_the_best_of_the_epochs_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = iter((9.0, 1.0, 1.0))
    monkeypatch.setattr(validating, "examine", lambda *_: {"time-aware": Summary(next(values), {}, 0)})
    first = train(epochs=1)
    values = iter((9.0, 1.0, 1.0))
    with pytest.raises(Interrupted, match=r"best weights are those of epoch 1 \(validation MRR 9\.00\)") as raised:
        train(epochs=3, stop=after(2 * (STEPS + 1) + 2))
    assert same_weights(raised.value.forecaster, first)


def test_a_keyboard_interrupt_within_a_step_keeps_the_best_weights_without_a_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step, calls = loop.Session._step, []

    def deadly(*given: Any) -> None:
        calls.append(1)
        if len(calls) == STEPS + 2:
            raise KeyboardInterrupt
        step(*given)

    with monkeypatch.context() as patched:
        patched.setattr(loop.Session, "_step", deadly)
        with pytest.raises(Interrupted) as raised:
            train(epochs=3)
    assert same_weights(raised.value.forecaster, train(epochs=1))
    assert raised.value.status == 130


def test_an_interruption_while_measuring_keeps_what_was_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("tangokg.forecast.training.results", interrupted)
        with pytest.raises(Interrupted) as raised:
            train(tmp_path / "run", epochs=1)
    assert same_weights(load(tmp_path / "run"), raised.value.forecaster)
    assert not RunFolder(tmp_path / "run").finished
    train(tmp_path / "run", epochs=1, resume=True)
    assert (tmp_path / "run" / "metrics.json").exists()


def test_a_finished_run_goes_on_with_more_epochs_to_the_same_weights(tmp_path: Path) -> None:
    train(tmp_path / "run", epochs=1)
    assert same_weights(train(tmp_path / "run", epochs=3, resume=True), train(epochs=3))
    with pytest.raises(Interrupted):
        train(tmp_path / "run", epochs=5, resume=True, stop=after(1))
    assert not RunFolder(tmp_path / "run").finished
    assert RunFolder(tmp_path / "run").usable
    assert same_weights(train(tmp_path / "run", epochs=5, resume=True), train(epochs=5))


def test_a_signal_before_the_loop_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a handler raises in a destructor is ignored by Python; it is remembered, and the loop stops."""
    build = build_model

    class Swallows:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000):
                pass

    def built(*given: Any) -> Any:
        Swallows()
        return build(*given)

    monkeypatch.setattr(material, "build_model", built)
    monkeypatch.setattr("sys.unraisablehook", lambda lost: None)
    with pytest.raises(Interrupted):
        train(epochs=3)


def test_a_second_signal_raises_and_an_outer_memory_is_taken_over() -> None:
    with watching() as watch, watch.patiently():
        os.kill(os.getpid(), signal.SIGINT)
        assert watch.stop(Progress()) == STOPPED
        with watching() as inner:
            assert inner is watch
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    before = signal.getsignal(signal.SIGINT)
    remembering = Watch(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, lambda *_: None)

        class Outer:
            received = signal.SIGINT

            def __call__(self, *_: Any) -> None: ...

        signal.signal(signal.SIGINT, Outer())
        with watching() as watch:
            assert watch.received == remembering.received
    finally:
        signal.signal(signal.SIGINT, before)


def test_weights_that_are_no_numbers_are_noticed_without_a_validation_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last step of an epoch can spoil them after its loss was fine."""
    dataset, step = make_dataset(1), loop.Session._step
    dataset = replace(dataset, valid=dataset.valid.select(slice(0)))

    def poisoned(session: loop.Session, *given: Any) -> None:
        step(session, *given)
        next(session.plain.parameters()).data[0] = float("nan")

    monkeypatch.setattr(loop.Session, "_step", poisoned)
    train = TrainSettings(epochs=1, device="cpu", batch_queries=10_000)
    with pytest.raises(TrainingError, match=r"the weights .* became NaN or infinite \(epoch 1\).*learning_rate"):
        loop.fit(dataset, RunConfig("ttranse", TTransESettings(dim=4), train))

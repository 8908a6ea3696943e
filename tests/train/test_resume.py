"""A run that was killed at any moment and resumed ends with the same weights, bit for bit, as one that was not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from conftest import make_dataset
from tangokg.models.tango import TangoSettings
from tangokg.rank.metrics import Summary
from tangokg.train import Interrupted, Progress, RunConfig, TrainSettings, fit, loop, validating

EPOCHS, STEPS = 3, 5  # steps in an epoch: six training snapshots, the first without history


class Killed(BaseException):
    """Passes every ``except Exception`` and ``except OSError``, as a kill would."""


def make_config(**train: Any) -> RunConfig:
    values: dict[str, Any] = {"epochs": EPOCHS, "device": "cpu", "checkpoint_seconds": 0.0, "learning_rate": 0.02}
    values |= {"batch_windows": 1}
    settings = TangoSettings(decoder="tucker", dim=4, history=2, dropout=0.3, step_time=0.3)
    return RunConfig("tango-tucker", settings, TrainSettings(**(values | train)), seed=3)


def train(path: Path | None, resume: bool = False, **more: Any) -> tuple[dict[str, Tensor], Progress]:
    model, progress = fit(make_dataset(1), make_config(**more), path, resume=resume)
    return dict(model.state_dict()), progress


@cache
def undisturbed(**more: Any) -> tuple[dict[str, Tensor], Progress]:
    return train(None, **more)


def check_same(found: tuple[dict[str, Tensor], Progress], expected: tuple[dict[str, Tensor], Progress]) -> None:
    assert found[0].keys() == expected[0].keys()
    for name, tensor in expected[0].items():
        assert torch.equal(found[0][name], tensor), name
    assert (found[1].epoch, found[1].best_epoch, found[1].best_mrr) == (
        expected[1].epoch,
        expected[1].best_epoch,
        expected[1].best_mrr,
    )
    for a, b in zip(found[1].log, expected[1].log, strict=True):
        assert a["valid_mrr"] == b["valid_mrr"]
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-6)


def killing(function: Callable[..., Any], call: int, after: bool) -> Callable[..., Any]:
    """``function``, but the ``call``-th call of it does not come back."""
    calls = 0

    def deadly(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call and not after:
            raise Killed
        result = function(*args, **kwargs)
        if calls == call:
            raise Killed
        return result

    return deadly


MOMENTS = {
    "before a step": (loop.Session, "_step", False),
    "after a step": (loop.Session, "_step", True),
    "within the write of a checkpoint": (os, "fsync", False),
    "before a checkpoint has its name": (os, "replace", False),
    "after a checkpoint has its name": (os, "replace", True),
    "before validation": (validating, "examine", False),
    "after validation": (validating, "examine", True),
    "at the end of an epoch": (loop.Session, "_close_epoch", True),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_kill_leaves_what_resuming_needs(moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, name, after = MOMENTS[moment]
    last = EPOCHS if name in ("examine", "_close_epoch") else EPOCHS * STEPS
    for call in {1, 2, last // 2 + 1, last}:
        path = tmp_path / f"{call}.safetensors"
        with monkeypatch.context() as patched:
            patched.setattr(home, name, killing(getattr(home, name), call, after))
            with pytest.raises(Killed):
                train(path)
        check_same(train(path, resume=True), undisturbed())


def test_a_run_killed_again_and_again_still_arrives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, lives = tmp_path / "state.safetensors", 0
    while True:
        lives += 1
        try:
            with monkeypatch.context() as patched:
                step = loop.Session._step
                patched.setattr(loop.Session, "_step", killing(step, 4, after=False))
                found = train(path, resume=True)
            break
        except Killed:
            continue
    assert lives == EPOCHS * STEPS // 3  # three steps in each life
    check_same(found, undisturbed())


def test_rare_checkpoints_and_several_windows_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a checkpoint yet, resuming is starting; the last one is written at the end, whatever the interval."""
    path = tmp_path / "state.safetensors"
    more: dict[str, Any] = {"checkpoint_seconds": 1e9, "batch_windows": 2}
    with monkeypatch.context() as patched:
        patched.setattr(loop.Session, "_step", killing(loop.Session._step, 5, after=True))
        with pytest.raises(Killed):
            train(path, **more)
    assert not path.exists()
    check_same(train(path, resume=True, **more), undisturbed(**more))
    check_same(train(path, resume=True, **more), undisturbed(**more))  # a finished run is finished


def test_drawn_horizons_go_on_where_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.safetensors"
    with monkeypatch.context() as patched:
        patched.setattr(loop.Session, "_step", killing(loop.Session._step, 7, after=True))
        with pytest.raises(Killed):
            train(path, horizons=3)
    check_same(train(path, resume=True, horizons=3), undisturbed(horizons=3))


def test_the_best_weights_survive_when_they_are_older_than_the_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scripted(*mrrs: float) -> Callable[..., Any]:
        values = iter(mrrs)
        return lambda *_, **__: {"time-aware": Summary(next(values), {}, 0)}

    monkeypatch.setattr(validating, "examine", scripted(9.0, 1.0, 1.0))
    expected = train(None)
    path = tmp_path / "state.safetensors"
    monkeypatch.setattr(validating, "examine", scripted(9.0, 1.0))
    with monkeypatch.context() as patched:
        patched.setattr(loop.Session, "_step", killing(loop.Session._step, 2 * STEPS + 2, after=True))
        with pytest.raises(Killed):
            train(path)
    monkeypatch.setattr(validating, "examine", scripted(1.0))
    found = train(path, resume=True)
    assert found[1].best_epoch == 1
    check_same(found, expected)


def test_a_finished_run_goes_on_when_more_epochs_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    train(path, epochs=1)
    check_same(train(path, resume=True), undisturbed())


def test_without_resume_a_checkpoint_is_not_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    train(path, epochs=1)
    check_same(train(path), undisturbed())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_signal_writes_a_checkpoint_and_says_so(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.safetensors"
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    step, calls = loop.Session._step, []

    def interrupted(self: Any, *args: Any) -> None:
        calls.append(1)
        if len(calls) == STEPS + 2:
            os.kill(os.getpid(), number)
        step(self, *args)

    with monkeypatch.context() as patched:
        patched.setattr(loop.Session, "_step", interrupted)
        with pytest.raises(Interrupted, match="a checkpoint is in") as raised:
            train(path, checkpoint_seconds=1e9)
    assert raised.value.status == 128 + number == {signal.SIGINT: 130, signal.SIGTERM: 143}[number]
    assert len(calls) == STEPS + 2, "the step under way is finished, and no other begun"
    assert str(tmp_path) in str(raised.value)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers
    assert [p.name for p in tmp_path.iterdir()] == ["state.safetensors"]
    check_same(train(path, resume=True, checkpoint_seconds=1e9), undisturbed())


def test_a_signal_without_a_folder_keeps_the_weights_of_the_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    step = loop.Session._step

    def interrupted(self: Any, *args: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        step(self, *args)

    monkeypatch.setattr(loop.Session, "_step", interrupted)
    with pytest.raises(Interrupted, match=r"interrupted in epoch 1\.") as raised:
        train(None)
    assert raised.value.model is not None
    assert all(tensor.isfinite().all() for tensor in raised.value.model.state_dict().values())
    assert raised.value.progress is not None
    assert raised.value.progress.ended == "stopped"


def test_a_second_signal_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = loop.Session._step

    def interrupted(self: Any, *args: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        step(self, *args)

    monkeypatch.setattr(loop.Session, "_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "state.safetensors")


SCRIPT = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
import test_resume
count, fsync = 0, os.fsync
def deadly(file):
    global count
    count += 1
    if count == 8:  # within the write of a checkpoint, in the middle of the second epoch
        os.truncate(file, 100)
        os.kill(os.getpid(), signal.SIGKILL)
    fsync(file)
os.fsync = deadly
test_resume.train(Path(sys.argv[1]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_real_kill_within_the_write_of_a_checkpoint(tmp_path: Path) -> None:
    path, here = tmp_path / "state.safetensors", Path(__file__).parent
    command = [sys.executable, "-c", SCRIPT, str(path), str(here), str(here.parent)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert (tmp_path / "state.safetensors.tmp").stat().st_size == 100
    check_same(train(path, resume=True), undisturbed())
    assert [p.name for p in tmp_path.iterdir()] == ["state.safetensors"]

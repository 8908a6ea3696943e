"""What people see of training: a live bar on a terminal, plain lines elsewhere, nothing that was not measured."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from conftest import make_dataset
from tangokg.models.tango import TangoSettings
from tangokg.train import Progress, RunConfig, TrainSettings, fit
from tangokg.train.display import Display

SETTINGS = TrainSettings(epochs=9)
WITH = {"epoch": 3.0, "loss": 1.23456, "valid_mrr": 41.204, "seconds": 7.4}
WITHOUT = {"epoch": 3.0, "loss": 1.23456, "seconds": 7.4}


def console(live: bool) -> Console:
    return Console(file=StringIO(), force_terminal=live, width=160, color_system=None, legacy_windows=False)


def shown(console: Console) -> str:
    """All that was printed, without the codes that move a cursor."""
    assert isinstance(console.file, StringIO)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize(
    ("row", "best_epoch", "line"),
    [
        (WITH, 3, "epoch   3/9  loss 1.2346  valid MRR 41.20  7 s  best so far"),
        (WITH, 2, "epoch   3/9  loss 1.2346  valid MRR 41.20  7 s"),
        (WITHOUT, 3, "epoch   3/9  loss 1.2346  7 s"),
    ],
)
def test_each_epoch_leaves_a_line(row: dict[str, float], best_epoch: int, line: str, live: bool) -> None:
    place = console(live)
    with Display(place) as display:
        display.epoch(Progress(epoch=3, best_mrr=50.0, best_epoch=best_epoch, log=[row]), SETTINGS)
    assert line in [text.strip() for text in re.split(r"[\r\n]+", shown(place))]


def test_a_terminal_shows_the_step_under_way() -> None:
    place = console(live=True)
    with Display(place) as display:
        under_way = Progress(epoch=2, position=5, loss_sum=30.0, queries=20, best_mrr=41.0, best_epoch=2)
        display.step(under_way, SETTINGS, snapshots=10)
        display.bar.refresh()
        assert "epoch 3/9  loss 1.500  best MRR 41.00 (epoch 2)" in shown(place)
        assert f"{(2 + 5 / 10) / 9:4.0%}" in shown(place)
        assert display.bar.tasks[0].completed == 2.5


def test_before_the_first_validation_there_is_no_best() -> None:
    place = console(live=True)
    with Display(place) as display:
        display.step(Progress(position=1, loss_sum=2.0, queries=1), SETTINGS, snapshots=10)
        display.bar.refresh()
    assert "epoch 1/9  loss 2.000" in shown(place)
    assert "MRR" not in shown(place)


def test_without_a_terminal_steps_are_silent_and_lines_are_plain() -> None:
    place = console(live=False)
    with Display(place) as display:
        display.step(Progress(position=1, loss_sum=2.0, queries=1), SETTINGS, snapshots=10)
        assert shown(place) == ""
        display.epoch(Progress(epoch=3, log=[WITH]), SETTINGS)
    assert isinstance(place.file, StringIO)
    assert "\x1b" not in place.file.getvalue()
    assert place.file.getvalue().count("\n") == 1


def test_without_a_terminal_a_long_epoch_has_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("tangokg.train.display.monotonic", lambda: now[0])
    place = console(live=False)
    with Display(place) as display:
        for second in range(0, 100, 5):
            now[0] = second
            display.step(Progress(epoch=2, position=second // 5, loss_sum=2.0, queries=1), SETTINGS, snapshots=20)
        lines = shown(place).splitlines()
        assert lines == [
            f"epoch   3/9  {share}%  loss 2.0000  after {s} s" for s, share in ((30, 30), (60, 60), (90, 90))
        ]
        now[0] = 119
        display.epoch(Progress(epoch=3, log=[WITH]), SETTINGS)
        now[0] = 140
        display.step(Progress(epoch=3, position=1, loss_sum=2.0, queries=1), SETTINGS, snapshots=20)
        assert len(shown(place).splitlines()) == 4, "30 seconds after the last line, whatever it said"
    live = console(live=True)
    with Display(live) as display:
        now[0] = 1000
        display.step(Progress(epoch=2, position=5, loss_sum=2.0, queries=1), SETTINGS, snapshots=20)
    assert "after" not in shown(live), "a bar is enough"


def test_epochs_can_be_left_out() -> None:
    place = console(live=False)
    with Display(place, each_epoch=False) as display:
        display.epoch(Progress(epoch=3, log=[WITH]), SETTINGS)
    assert shown(place) == ""


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("validated", [True, False])
def test_a_run_shows_an_mrr_only_where_there_is_a_validation_part(
    validated: bool, live: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tangokg.train.loop.REPORT_SECONDS", 0.0)
    dataset = make_dataset(1)
    dataset = dataset if validated else replace(dataset, valid=dataset.valid.before(-1))
    config = RunConfig(
        "tango-distmult", TangoSettings(decoder="distmult", dim=4, history=2), TrainSettings(epochs=3, device="cpu")
    )
    place = console(live)
    with Display(place) as display:
        _, progress = fit(dataset, config, reporter=display)
        display.step(progress, config.train, snapshots=10)
        display.bar.refresh()
    text = shown(place)
    assert [f"epoch   {i}/3" in text for i in (1, 2, 3)] == [True] * 3
    assert ("valid MRR" in text) == validated
    assert ("best" in text) == validated
    assert (progress.best_mrr == -1) == (not validated)

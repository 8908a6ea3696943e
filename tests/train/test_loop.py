"""The loop: what it keeps, when it stops, and how it says that it cannot go on."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.fabric import Fabric
from torch import Tensor

from conftest import equal, make_dataset
from tangokg.errors import RunError, TrainingError
from tangokg.models import MODELS, Model
from tangokg.models.tango import Tango, TangoSettings
from tangokg.models.ttranse import TTransESettings
from tangokg.quads.values import Dataset
from tangokg.rank import evaluate
from tangokg.rank.metrics import Summary
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import Queries, Windows, draw_windows, queries_of
from tangokg.train import Material, Progress, RunConfig, Stop, TrainSettings, build_model, fit, loop, memory, validating
from tangokg.train.checkpoint import load_tensors


def make_config(decoder: str = "distmult", **train: Any) -> RunConfig:
    values: dict[str, Any] = {"epochs": 2, "device": "cpu", "patience": 0}
    settings = TangoSettings(decoder=decoder, dim=4, history=2, dropout=0.1, step_time=0.3)
    return RunConfig(f"tango-{decoder}", settings, TrainSettings(**(values | train)), seed=1)


def without_validation() -> Dataset:
    dataset = make_dataset(1)
    return replace(dataset, valid=dataset.valid.before(-1))


class Heard:
    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []
        self.epochs: list[int] = []

    def step(self, progress: Progress, settings: TrainSettings, snapshots: int) -> None:
        self.steps.append((progress.position, snapshots))

    def epoch(self, progress: Progress, settings: TrainSettings) -> None:
        self.epochs.append(progress.epoch)


class Scripted:
    """Stands for evaluation: gives the MRRs one after the other."""

    def __init__(self, *mrrs: float) -> None:
        self.mrrs = iter(mrrs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return {"time-aware": Summary(next(self.mrrs), {}, 0)}


def test_a_run_is_decided_by_its_seed() -> None:
    weights = [fit(make_dataset(1), make_config("tucker"))[0].state_dict() for _ in range(2)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    other, _ = fit(make_dataset(1), replace(make_config("tucker"), seed=2))
    assert not torch.equal(other.state_dict()["entities"], weights[0]["entities"])


def test_training_asks_at_drawn_horizons(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def kept(timeline: Timeline, target: Tensor, horizons: int, generator: torch.Generator) -> Windows:
        asked.append(horizons)
        return draw_windows(timeline, target, horizons, generator)

    monkeypatch.setattr("tangokg.train.material.draw_windows", kept)
    fit(make_dataset(1), make_config("tucker", horizons=4))
    assert set(asked) == {4}


def test_the_global_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    fit(make_dataset(1), make_config("tucker"))
    assert torch.equal(torch.get_rng_state(), before)


def test_early_stopping_keeps_the_best_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validating, "examine", Scripted(5.0, 6.0, 4.0, 6.0))
    model, progress = fit(make_dataset(1), make_config(epochs=9, patience=2))
    assert (progress.epoch, progress.best_epoch, progress.best_mrr) == (4, 2, 6.0)
    assert [row["valid_mrr"] for row in progress.log] == [5.0, 6.0, 4.0, 6.0]
    monkeypatch.setattr(validating, "examine", Scripted(5.0, 6.0))
    best, _ = fit(make_dataset(1), make_config(epochs=2))
    for name, tensor in best.state_dict().items():
        assert torch.equal(tensor, model.state_dict()[name]), name


def test_training_does_not_stop_before_twice_the_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validating, "examine", Scripted(*range(9, 0, -1)))
    assert fit(make_dataset(1), make_config(epochs=8, patience=3))[1].epoch == 6


def test_the_learning_rate_falls_with_each_epoch_that_is_no_better(monkeypatch: pytest.MonkeyPatch) -> None:
    rates, epoch = [], loop.Session.epoch

    def spy(session: loop.Session, stop: Stop) -> str:
        ended = epoch(session, stop)
        rates.append(session.optimizer.param_groups[0]["lr"])
        return ended

    monkeypatch.setattr(loop.Session, "epoch", spy)
    monkeypatch.setattr(validating, "examine", Scripted(5.0, 4.0, 5.0, 6.0, 6.0, 7.0, 1.0))
    fit(make_dataset(1), make_config(epochs=7, patience=2, learning_rate=0.1, rate_decay=0.5))
    assert rates == [0.1, 0.1, 0.1, 0.05, 0.05, 0.025, 0.025]
    rates.clear()
    fit(without_validation(), make_config(epochs=3, learning_rate=0.1, rate_decay=0.5))
    assert rates == [0.1, 0.1, 0.1], "nothing tells whether an epoch is better"


def test_patience_zero_never_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validating, "examine", Scripted(*range(9, 0, -1)))
    assert fit(make_dataset(1), make_config(epochs=8))[1].epoch == 8


def test_without_a_validation_part_the_last_weights_are_kept() -> None:
    model, progress = fit(without_validation(), make_config(epochs=3, patience=1))
    assert (progress.epoch, progress.best_epoch) == (3, 3)
    assert [set(row) for row in progress.log] == [{"epoch", "loss", "learning_rate", "seconds"}] * 3
    assert isinstance(model, Tango)
    prior = model.prior.clone()
    model.settle(build_timeline(without_validation().train))
    assert torch.equal(model.prior, prior), "the weights that are kept are settled"


@pytest.mark.parametrize("name", MODELS)
def test_every_model_comes_back_from_fit_ready_to_answer(name: str) -> None:
    settings = MODELS[name].settings
    small = {"dim": 4, "history": 2}
    settings = replace(settings, **{key: value for key, value in small.items() if hasattr(settings, key)})
    train = {**MODELS[name].train, "epochs": 1, "device": "cpu"}
    config = RunConfig(name, settings, TrainSettings(**train))
    model, progress = fit(make_dataset(1), config)
    assert progress.epoch == (1 if any(True for _ in model.parameters()) else 0)
    dataset = make_dataset(1)
    timeline = build_timeline(dataset.facts)
    assert 0 < evaluate(model, timeline, torch.tensor([len(timeline) - 1]))["time-aware"].mrr <= 100


def test_the_loss_of_the_log_is_the_mean_over_queries_and_falls() -> None:
    _, progress = fit(make_dataset(1), make_config(epochs=12, learning_rate=0.03))
    losses = [row["loss"] for row in progress.log]
    assert losses[-1] < losses[0]
    assert 0 < losses[-1] < losses[0] < 5
    assert [row["epoch"] for row in progress.log] == list(range(1, 13))


def test_reporters_hear_of_steps_and_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tangokg.train.loop.REPORT_SECONDS", 0.0)  # otherwise a few times a second
    heard = Heard()
    fit(make_dataset(1, snapshots=51), make_config(batch_windows=5), reporter=heard)
    assert heard.epochs == [1, 2]
    assert heard.steps == [(done, 33) for done in (5, 10, 15, 20, 25, 30, 33)] * 2


def test_a_poisoned_weight_is_an_error_that_names_the_epoch() -> None:
    def poison(model: Model) -> None:
        next(model.parameters()).data[0] = float("nan")

    with pytest.raises(TrainingError, match=r"became NaN or infinite \(epoch 1, 5 of 5 done\).*learning_rate"):
        fit(make_dataset(1), make_config(), start=poison)


def test_a_huge_learning_rate_is_an_error_and_the_checkpoint_before_it_can_be_loaded(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    config = make_config(learning_rate=1e25, checkpoint_seconds=0.0)
    with pytest.raises(TrainingError, match="became NaN"):
        fit(make_dataset(1), config, path)
    assert [p.name for p in tmp_path.iterdir()] == ["state.safetensors"]
    tensors, _ = load_tensors(path)
    assert all(tensor.isfinite().all() for name, tensor in tensors.items() if name.startswith("model."))


def test_steps_are_those_of_adam() -> None:
    """Each epoch is one step over all questions, both ways; the formula, weight by weight."""
    dataset, rate, decay = without_validation(), 0.02, 0.1
    how: dict[str, Any] = {
        "epochs": 4,
        "batch_queries": 10_000,
        "learning_rate": rate,
        "weight_decay": decay,
        "clip": 0.0,
    }
    train = TrainSettings(device="cpu", precision="64-true", patience=0, **how)
    config = RunConfig("ttranse", TTransESettings(dim=4), train, seed=1)
    model, _ = fit(dataset, config)
    timeline = build_timeline(dataset.train)
    twin, generator = build_model(config, timeline), torch.Generator().manual_seed(1)
    rows = torch.arange(int(timeline.offset[1]), len(timeline.s))  # without the first, which has no history
    weights = list(twin.parameters())
    first, second = ([torch.zeros_like(w) for w in weights] for _ in range(2))
    for k in range(1, 5):
        found = torch.autograd.grad(twin(timeline, *queries_of(timeline, rows), generator), weights)
        with torch.no_grad():
            for w, g, m, v in zip(weights, found, first, second, strict=True):
                g = g + decay * w
                m.mul_(0.9).add_(0.1 * g)
                v.mul_(0.999).add_(0.001 * g * g)
                w.sub_(rate * (m / (1 - 0.9**k)) / ((v / (1 - 0.999**k)).sqrt() + 1e-8))
    assert all(equal(a, b, 1e-9) for a, b in zip(model.parameters(), weights, strict=True))


def test_clipping_bounds_the_step_that_a_gradient_can_make() -> None:
    """Adam divides by the size of the gradient, so what is compared is that both runs differ and stay finite."""
    clipped, _ = fit(make_dataset(1), make_config(clip=1e-3))
    free, _ = fit(make_dataset(1), make_config(clip=0.0))
    assert not torch.equal(clipped.state_dict()["entities"], free.state_dict()["entities"])


@pytest.mark.parametrize("precision", ["64-true", "bf16-mixed"])
@pytest.mark.parametrize("decoder", ["distmult", "tucker"])
def test_other_precisions(decoder: str, precision: str) -> None:
    model, progress = fit(make_dataset(1), make_config(decoder, precision=precision))
    assert next(model.parameters()).dtype == (torch.float64 if precision == "64-true" else torch.float32)
    assert progress.epoch == 2


@pytest.mark.parametrize("precision", ["tf32", "32-true"])
def test_the_precision_of_products_is_that_of_the_settings_and_restored_after_training(
    precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a GPU that only the choice of device sees; everything is computed on the CPU."""
    matmul, inside, fabric = torch.backends.cuda.matmul, list[bool](), Fabric

    class Noted(Heard):
        def epoch(self, progress: Progress, settings: TrainSettings) -> None:
            inside.append(matmul.allow_tf32)

    monkeypatch.setattr("tangokg.train.devices.choose_device", lambda name: torch.device("cuda"))
    monkeypatch.setattr("lightning.fabric.Fabric", lambda **named: fabric(**named | {"accelerator": "cpu"}))
    own = matmul.allow_tf32
    try:
        for before in (False, True):
            matmul.allow_tf32 = before
            fit(make_dataset(1), make_config(precision=precision), reporter=Noted())
            assert matmul.allow_tf32 == before
    finally:
        matmul.allow_tf32 = own
    assert inside == [precision == "tf32"] * 4


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc has such a switch")
def test_training_leaves_the_allocator_of_the_process_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*name: object) -> object:
        raise AssertionError("a library call asks for the C library")

    monkeypatch.setattr("tangokg.train.memory._meminfo", lambda name: None)
    monkeypatch.setattr("ctypes.CDLL", refuse)
    fit(make_dataset(1), make_config(epochs=1))


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there")
def test_no_gpu_where_one_was_asked_for() -> None:
    with pytest.raises(TrainingError, match=r"device 'cuda' is not available here; use 'cpu'"):
        fit(make_dataset(1), make_config(device="cuda"))


def test_one_time_is_not_enough() -> None:
    dataset = make_dataset(1)
    first = replace(dataset, train=dataset.train.before(int(dataset.train.t.min()) + 1))
    with pytest.raises(TrainingError, match=r"has 1 distinct time\(s\).*two at least"):
        fit(first, make_config())


def test_too_little_memory_is_told_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda device: 1000)
    with pytest.raises(TrainingError, match=r"needs about .* GiB on cpu, and 0\.0 GiB are free.*dim=100"):
        fit(make_dataset(1), make_config())


def test_training_works_outside_the_main_thread() -> None:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(fit(make_dataset(1), make_config())[1].epoch))
    thread.start()
    thread.join()
    assert found == [2]


def test_first_weights_may_be_given() -> None:
    trained, _ = fit(make_dataset(1), make_config(epochs=4, learning_rate=0.05))
    state = {name: tensor.clone() for name, tensor in trained.state_dict().items()}

    def start(model: Model) -> None:
        model.load_state_dict(state)

    _, progress = fit(make_dataset(1), make_config(epochs=1, learning_rate=1e-9), start=start)
    _, fresh = fit(make_dataset(1), make_config(epochs=1, learning_rate=1e-9))
    assert progress.log[0]["loss"] < fresh.log[0]["loss"] - 0.01


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    fit(make_dataset(1), make_config("tucker"), path)
    with pytest.raises(RunError, match=r"state\.safetensors.*does not fit this run"):
        fit(make_dataset(1), make_config("distmult"), path, resume=True)


def test_validation_targets_follow_the_training_part() -> None:
    dataset = make_dataset(1)
    material = Material.of(dataset, torch.device("cpu"))
    assert material.exam is not None
    assert material.exam.windows.t.tolist() == sorted(set(dataset.valid.t.tolist()))
    assert material.train.t.tolist() == sorted(set(dataset.train.t.tolist()))
    assert material.targets.tolist() == list(range(1, len(material.train)))


def test_steps_of_some_questions_ask_every_edge_once_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = make_dataset(1)
    material, seen = Material.of(dataset, torch.device("cpu")), []

    def heard(train: Timeline, rows: Tensor) -> tuple[Windows, Queries]:
        seen.append(rows)
        return queries_of(train, rows)

    monkeypatch.setattr("tangokg.train.material.queries_of", heard)
    _, progress = fit(dataset, make_config(epochs=1, batch_queries=7))
    assert [len(rows) for rows in seen[:-1]] == [7] * (len(seen) - 1)
    assert sorted(torch.cat(seen).tolist()) == material.edges.tolist()
    assert len(material.edges) == material.train.num_edges[1:].sum()
    assert progress.log[0]["loss"] > 0


def test_training_for_several_steps_ahead_is_judged_near_and_far_and_knows_what_was_trained_on() -> None:
    dataset = make_dataset(1, snapshots=18)
    near, both = (Material.of(dataset, torch.device("cpu"), horizons) for horizons in (1, 3))
    assert near.exam is not None
    assert both.exam is not None
    assert len(both.exam) == 2 * len(near.exam)
    known, t = near.exam.windows.known, near.exam.windows.t
    assert torch.equal(both.exam.windows.t, t.repeat_interleave(2))
    assert torch.equal(both.exam.windows.known[::2], known)
    assert both.exam.windows.known[1::2].tolist() == [max(int(k) - 2, len(near.train)) for k in known]

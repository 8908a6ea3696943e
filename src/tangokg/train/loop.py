"""The one training loop: any model with parameters, windows in batches, the best weights by validation MRR."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from tangokg.errors import RunError, TrainingError
from tangokg.models import MODELS, Model
from tangokg.quads.values import Dataset, concatenate
from tangokg.rank import Exam, examine, prepare
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import queries_at, queries_of, windows_at
from tangokg.train.checkpoint import Progress, load_tensors, pack, save_tensors, unpack, write_log
from tangokg.train.choosing import choose
from tangokg.train.devices import choose_device, make_fabric
from tangokg.train.memory import check_memory, keep_freed_memory
from tangokg.train.settings import OPTIMIZERS, RunConfig, TrainSettings, by_rule
from tangokg.train.signals import Interrupted, stopping

LEAST_RATE = 0.02  # of the learning rate, at the end of a cosine schedule
REPORT_SECONDS = 0.25  # at least this long between two reports within an epoch


class Reporter(Protocol):
    """Who hears how training goes."""

    def step(self, progress: Progress, settings: TrainSettings, snapshots: int) -> None: ...
    def epoch(self, progress: Progress, settings: TrainSettings) -> None: ...


@dataclass(frozen=True, eq=False)
class Material:
    """What training looks at: the training snapshots, and what is asked of validation."""

    train: Timeline  # and the snapshots before the training part, where there are some
    first: int  # index of the first training snapshot
    exam: Exam | None  # the queries of the validation part, where there is one

    @classmethod
    def of(cls, dataset: Dataset, device: torch.device) -> Material:
        train = build_timeline(dataset.past).to(device)
        first = train.before(float(dataset.train.t.min())) if len(dataset.train) else len(train)
        if not len(dataset.valid):
            return cls(train, first, None)
        valid = build_timeline(concatenate([dataset.past, dataset.valid])).to(device)
        return cls(train, first, prepare(valid, torch.arange(len(train), len(valid))))

    @property
    def targets(self) -> Tensor:
        """Training snapshots that have a history."""
        return torch.arange(max(self.first, 1), len(self.train))

    @property
    def edges(self) -> Tensor:
        """The edges of these snapshots, by their rows in the timeline."""
        ends = np.concatenate([[0], np.cumsum(self.train.num_edges)])
        return torch.arange(int(ends[max(self.first, 1)]), int(ends[-1]))


def resolve(config: RunConfig, dataset: Dataset) -> RunConfig:
    """The config with every setting that is left to a rule replaced by its value for this data and device."""
    size = 2 * len(dataset.train), len(np.unique(dataset.train.t)), dataset.vocab.num_entities
    settings, clock = config.settings, dataset.clock
    if getattr(settings, "unit", None) == "":  # a model that reads the calendar
        settings = replace(settings, unit=clock.unit, origin=clock.origin or "")
    train = by_rule(config.train, *size, choose_device(config.train.device).type)
    return replace(config, settings=settings, train=train)


def build_model(config: RunConfig, train: Timeline) -> Model:
    """The model of a config with its first weights, drawn from the config's seed."""
    generator = torch.Generator().manual_seed(config.seed)
    model = MODELS[config.model].build(config.settings, train, generator)
    return model.double() if config.train.precision == "64-true" else model


def fit(
    dataset: Dataset,
    config: RunConfig,
    checkpoint: Path | None = None,
    resume: bool = False,
    start: Callable[[Model], None] | None = None,
    reporter: Reporter | None = None,
    log: Path | None = None,
) -> tuple[Model, Progress]:
    """Train ``config`` on the training part, keeping the weights that rank the validation part best.

    ``checkpoint`` is the file in which the state is kept; with ``resume`` training goes on from it and ends with the
    same weights as a run that was not interrupted (on a GPU dropout draws others). ``start`` may set the first weights.
    ``log`` is a CSV file with a row for each epoch. Without a validation part the weights are those of the last epoch.
    """
    config = resolve(config, dataset)
    fabric = make_fabric(config.train)
    keep_freed_memory()
    material = Material.of(dataset, fabric.device)
    own = build_timeline(dataset.train)  # what the model is made from: earlier facts are known, not trained on
    with torch.device("meta"):  # sizes without memory
        sized = build_model(config, own)
    if not any(True for _ in sized.parameters()):
        model = build_model(config, own)
        if start is not None:
            start(model)
        return choose(model.to(fabric.device), material.exam)
    if not len(material.targets):
        raise TrainingError(
            f"the training part has {len(own)} distinct time(s); learning from history takes two at least. "
            f"Give more data, or a finer time unit."
        )
    check_memory(sized, material.train, config.train.batch_windows, fabric.device, config.train.batch_queries)
    model = build_model(config, own)
    if start is not None:
        start(model)
    session = Session(config, material, model, fabric, checkpoint, reporter, log)
    if resume and checkpoint is not None and checkpoint.exists():
        session.load()
    elif start is not None:
        session.save()  # a run resumed from here has these first weights too
    exact = torch.backends.cuda.matmul.allow_tf32
    try:
        with stopping() as asked:
            session.run(asked)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = exact
    return session.finish(), session.progress


class _Loss(nn.Module):
    """What Fabric wraps. It is given a function, because Fabric would cast, or refuse, the frozen data themselves."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, loss_of: Callable[[Model], Tensor]) -> Tensor:
        return loss_of(self.model)


class Session:
    """One call of :func:`fit`: the parts that a step needs, and the progress."""

    def __init__(
        self,
        config: RunConfig,
        material: Material,
        model: Model,
        fabric: Any,
        checkpoint: Path | None,
        reporter: Reporter | None,
        log: Path | None,
    ) -> None:
        self.settings, self.material, self.fabric = config.train, material, fabric
        self.checkpoint, self.reporter, self.log = checkpoint, reporter, log
        optimizer = OPTIMIZERS[self.settings.optimizer](
            model.parameters(),
            lr=self.settings.learning_rate,
            weight_decay=self.settings.weight_decay,
            fused=fabric.device.type in ("cpu", "cuda"),
        )
        self.plain = model
        model.cuda_graphs = self.settings.cuda_graphs
        self.loss, self.optimizer = fabric.setup(_Loss(model), optimizer)
        self.generators = {
            "order": torch.Generator().manual_seed(config.seed),
            "masks": torch.Generator(fabric.device).manual_seed(config.seed),
        }
        self.progress = Progress()
        self.order = torch.empty(0, dtype=torch.int64)  # target snapshots, or edges, of the epoch under way
        self.best: dict[str, Tensor] = {}
        self.clock = time.monotonic()  # when seconds were last added up
        self.saved = time.monotonic()
        self.reported = 0.0

    def load(self) -> None:
        assert self.checkpoint is not None
        tensors, note = load_tensors(self.checkpoint)
        try:
            self.order, self.best, self.progress = unpack(tensors, note, self.plain, self.optimizer, self.generators)
        except RunError as error:
            raise RunError(f"{self.checkpoint}: {error}") from None

    def save(self) -> None:
        if self.checkpoint is not None:
            self._count_seconds()
            state = pack(self.plain, self.optimizer, self.generators, self.order, self.best, self.progress)
            save_tensors(self.checkpoint, *state)
            self.saved = time.monotonic()

    def run(self, asked: Callable[[], int]) -> None:
        """Epoch after epoch until the settings or ``asked`` (a signal number, 0 for none) say stop."""
        if not self.progress.epoch and not self.progress.position:
            self.plain.settle(self.material.train)
        while not self.done():
            if not self.progress.position:
                asked_of = self.material.edges if self.settings.batch_queries else self.material.targets
                self.order = asked_of[torch.randperm(len(asked_of), generator=self.generators["order"])]
            self.epoch(asked)
            self._close_epoch()
            if asked() or self.done() or time.monotonic() - self.saved > self.settings.checkpoint_seconds:
                self.save()
            if asked():
                raise Interrupted(asked(), self.checkpoint)

    def done(self) -> bool:
        behind, patience = self.progress.epoch - self.progress.best_epoch, self.settings.patience
        impatient = 0 < patience <= min(behind, self.progress.epoch - patience) and self.material.exam is not None
        return self.progress.epoch >= self.settings.epochs or impatient

    def learning_rate(self) -> float:
        """Of the step under way, as the settings' schedule says."""
        if self.settings.schedule == "cosine":
            done = (self.progress.epoch + self.progress.position / max(1, len(self.order))) / self.settings.epochs
            rise = done / self.settings.warmup if done < self.settings.warmup else 1.0
            fall = (done - self.settings.warmup) / (1 - self.settings.warmup)
            least = LEAST_RATE + (1 - LEAST_RATE) * (1 + math.cos(math.pi * max(0.0, fall))) / 2
            return self.settings.learning_rate * (rise if rise < 1 else least)
        marks = [row["valid_mrr"] for row in self.progress.log if "valid_mrr" in row]
        behind = sum(marks[i] <= max(marks[:i]) for i in range(max(1, self.settings.patience), len(marks)))
        return self.settings.learning_rate * self.settings.rate_decay**behind

    def epoch(self, asked: Callable[[], int]) -> None:
        """What is left of an epoch, step by step."""
        self.plain.train()
        device = self.fabric.device
        totals = torch.zeros(2, dtype=torch.float64, device=device)  # loss over queries, queries; read rarely
        left = self.order[self.progress.position :]
        for some in left.split(self.settings.batch_queries or self.settings.batch_windows) if len(left) else ():
            self._step(some, totals)
            self.progress.position += len(some)
            if self.reporter is not None and time.monotonic() - self.reported > REPORT_SECONDS:
                self._read(totals)
                self.reporter.step(self.progress, self.settings, len(self.order))
                self.reported = time.monotonic()
            if asked():
                self._read(totals)
                self.save()
                raise Interrupted(asked(), self.checkpoint)
            if time.monotonic() - self.saved > self.settings.checkpoint_seconds:
                self._read(totals)
                self.save()
        self._read(totals)

    def _step(self, some: Tensor, totals: Tensor) -> None:
        """One step over some target snapshots, or over some edges of all of them."""
        train = self.material.train
        if self.settings.batch_queries:
            windows, queries = queries_of(train, some)
        else:
            windows, queries = windows_at(train, some), queries_at(train, some)
        loss = self.loss(lambda model: model(train, windows, queries, self.generators["masks"]))
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate()
        self.optimizer.zero_grad()
        self.fabric.backward(loss)
        if self.settings.clip:
            self.fabric.clip_gradients(self.loss, self.optimizer, max_norm=self.settings.clip, error_if_nonfinite=False)
        self.optimizer.step()
        totals[0] += loss.detach() * len(queries)
        totals[1] += len(queries)

    def _read(self, totals: Tensor) -> None:
        """Add what the device has summed up to the progress; a loss that is not a number ends the run."""
        loss, queries = totals.tolist()
        totals.zero_()
        if not math.isfinite(loss):
            raise TrainingError(
                f"the loss is not a number any more (epoch {self.progress.epoch + 1}, "
                f"{self.progress.position} of {len(self.order)} done). Take a smaller learning "
                f"rate (--set learning_rate={self.settings.learning_rate / 3:.1g}) or shorter intervals "
                f"(--set step_time=...)."
            )
        self.progress.loss_sum += loss
        self.progress.queries += int(queries)

    def _close_epoch(self) -> None:
        """Validate, keep the weights where they are the best so far, and log the epoch."""
        p = self.progress
        self.plain.settle(self.material.train)
        row: dict[str, float] = {"epoch": p.epoch + 1, "loss": p.loss_sum / max(p.queries, 1)}
        p.epoch, p.position, p.loss_sum, p.queries = p.epoch + 1, 0, 0.0, 0
        if self.material.exam is not None:
            row["valid_mrr"] = examine(self.plain, self.material.exam)["time-aware"].mrr
        if row.get("valid_mrr", math.inf) > p.best_mrr:  # without validation every epoch is the best so far
            p.best_mrr, p.best_epoch = row.get("valid_mrr", p.best_mrr), p.epoch
            self.best = {name: tensor.detach().cpu().clone() for name, tensor in self.plain.state_dict().items()}
        self._count_seconds()
        p.log.append(row | {"seconds": p.seconds})
        if self.log is not None:
            write_log(self.log, p)
        if self.reporter is not None:
            self.reporter.epoch(p, self.settings)

    def _count_seconds(self) -> None:
        now = time.monotonic()
        self.progress.seconds += now - self.clock
        self.clock = now

    def finish(self) -> Model:
        """The model with its best weights, without what only training needs."""
        self.plain.release()
        if self.best:
            self.plain.load_state_dict(self.best)
        return self.plain

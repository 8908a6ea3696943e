"""The one training loop: any model with parameters, windows in batches, the best weights by validation MRR."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tangokg.errors import RunError
from tangokg.models import Model
from tangokg.quads.values import Dataset
from tangokg.train.checkpoint import Progress, check_place, load_tensors, pack, save_tensors, unpack, write_log
from tangokg.train.choosing import choose
from tangokg.train.devices import Loss, make_fabric, product_precision
from tangokg.train.dividing import clip_divided, cut, divide, put_together, unite
from tangokg.train.finite import check_finite, diverged
from tangokg.train.material import Material, can_learn, first_model, resolve
from tangokg.train.memory import give_memory_back
from tangokg.train.processes import ALONE, Group, share_batch_norms
from tangokg.train.rates import learning_rate
from tangokg.train.settings import OPTIMIZERS, RunConfig
from tangokg.train.signals import Interrupted, watching
from tangokg.train.stopping import ENDINGS, STOPPED, Budget, Reporter, Stop, first_of, never
from tangokg.train.validating import validate

REPORT_SECONDS = 0.25  # at least this long between two reports within an epoch


def fit(
    dataset: Dataset,
    config: RunConfig,
    checkpoint: Path | None = None,
    resume: bool = False,
    start: Callable[[Model], None] | None = None,
    reporter: Reporter | None = None,
    log: Path | None = None,
    stop: Stop = never,
    like: Progress | None = None,
    group: Group = ALONE,
) -> tuple[Model, Progress]:
    """Train ``config`` on the training part, keeping the weights that rank the validation part best.

    ``checkpoint`` is the file in which the state is kept; with ``resume`` training continues from it and ends with the
    same weights as a run that was not interrupted (on a GPU dropout draws others). ``start`` may set the first weights.
    ``log`` is a CSV file with a row for each epoch. Without a validation part the weights are those of the last epoch.
    ``stop`` is called after each step; if it, Ctrl-C or SIGTERM asks to stop, :class:`Interrupted` has the best
    weights so far. ``like`` is an earlier training, whose best number of epochs and learning rates are reused.
    ``group`` says which of several processes this is; all call this function with the same data and settings.
    """
    config = resolve(config, dataset)
    fabric = make_fabric(config.train)
    with product_precision(config.train):
        material = Material.of(dataset, fabric.device, config.train.horizons)
        learns, model = can_learn(config, material, group.size), first_model(config, material.source, start)
        if not learns:
            return choose(model.to(fabric.device), material.exam)
        session = Session(config, material, model, fabric, checkpoint, reporter, log, like, group)
        if resume and checkpoint is not None and checkpoint.exists():
            session.load()
        elif start is not None:
            session.save()  # a run resumed from here has these first weights too
        _run(session, stop)
    return session.finish(), session.progress


def _run(session: Session, stop: Stop) -> None:
    """Train to the end, or raise :class:`Interrupted` with the best weights so far; a second signal ends at once."""
    with watching() as watch, watch.patiently():
        try:
            session.run(first_of(watch.stop, stop, Budget(session.settings.budget)))
        except KeyboardInterrupt:
            if watch.count > 1 or not session.best or session.group.divides_entities:
                raise  # weights that are divided are put together by all processes, and this one is out of step
            session.progress.ended = STOPPED  # within a step: the last checkpoint and the best weights are whole
        if session.progress.ended == STOPPED:
            number = watch.received or signal.SIGINT
            kept = session.checkpoint if session.checkpoint is not None and session.checkpoint.exists() else None
            raise Interrupted(number, kept, session.finish(), session.progress)


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
        like: Progress | None = None,
        group: Group = ALONE,
    ) -> None:
        self.settings, self.material, self.fabric = config.train, material, fabric
        self.seed, self.group = config.seed, divide(model, group, config)
        self.checkpoint, self.reporter, self.log, self.like = checkpoint, reporter, log, like
        optimizer = OPTIMIZERS[self.settings.optimizer](
            model.parameters(),
            lr=self.settings.learning_rate,
            weight_decay=self.settings.weight_decay,
            fused=fabric.device.type in ("cpu", "cuda"),
        )
        self.plain = model
        self.shared = [p for name, p in model.named_parameters() if model.shard.whole or name not in model.divided]
        self.norms = share_batch_norms(model, self.group)
        model.cuda_graphs, model.score_bytes = self.settings.cuda_graphs, int(self.settings.score_memory * 2**30)
        self.loss, self.optimizer = fabric.setup(Loss(model), optimizer)
        self.generators = {
            "order": torch.Generator().manual_seed(config.seed),
            "masks": torch.Generator(fabric.device).manual_seed(config.seed),
        }
        self.progress = Progress()
        self.order = torch.empty(0, dtype=torch.int64)  # target snapshots, or edges, of the current epoch
        self.questions = max(1, len(material.edges))  # of an epoch
        self.best: dict[str, Tensor] = {}
        self.clock = time.monotonic()  # when seconds were last added up
        self.saved = time.monotonic()
        self.reported = 0.0

    def load(self) -> None:
        assert self.checkpoint is not None
        tensors, note = load_tensors(self.checkpoint)
        try:
            tensors = cut(self.plain, tensors)
            self.order, self.best, self.progress = unpack(tensors, note, self.plain, self.optimizer, self.generators)
            check_place(self.progress, self.order, self._targets())
        except RunError as error:
            raise RunError(f"{self.checkpoint}: {error}") from None

    def save(self) -> None:
        if self.checkpoint is None or not (self.group.first or self.group.divides_entities):
            return
        self._count_seconds()
        tensors, note = pack(self.plain, self.optimizer, self.generators, self.order, self.best, self.progress)
        tensors = put_together(self.plain, tensors)
        if self.group.first:
            save_tensors(self.checkpoint, tensors, note)
        self.saved = time.monotonic()

    def _due(self) -> bool:
        """Whether it is time for a checkpoint; if all processes take part in it, all agree."""
        late = time.monotonic() - self.saved > self.settings.checkpoint_seconds
        return bool(self.group.largest(int(late))) if self.group.divides_entities else late

    def run(self, stop: Stop) -> None:
        """Train epoch by epoch until the settings or ``stop`` end it; the progress records which."""
        p = self.progress
        if not p.epoch and not p.position:
            self.plain.settle(self.material.train)
        p.ended = self.done()
        while not p.ended:
            if not p.position:
                self.order = self._targets()[torch.randperm(len(self._targets()), generator=self.generators["order"])]
            p.ended = self.epoch(stop)
            if not p.ended:
                self._close_epoch()
                p.ended = self._ending(stop)
            if p.ended or self._due():
                self.save()
        if p.position and p.ended != STOPPED:
            self._close_epoch()  # the checkpoint stays within the epoch, and may go on from there
        elif not self.best:
            self.plain.settle(self.material.train)
            self._keep_weights()

    def _targets(self) -> Tensor:
        """All targets of an epoch: target snapshots, or edges."""
        return self.material.edges if self.settings.batch_queries else self.material.targets

    def _ending(self, stop: Stop) -> str:
        """Why to end after an epoch, or ""; a request to stop comes first."""
        ending = self._agree(stop)
        return ending if ending == STOPPED else self.done() or ending

    def _agree(self, stop: Stop) -> str:
        """The answer of ``stop`` in any of the processes, so that all end at the same step."""
        ending, reasons = stop(self.progress), ("", *ENDINGS)
        return ending if self.group.size == 1 else reasons[self.group.largest(reasons.index(ending))]

    def done(self) -> str:
        """Which limit of the settings is reached, if any."""
        epoch, patience = self.progress.epoch, self.settings.patience
        if epoch >= (self.settings.epochs if self.like is None else self.like.best_epoch):
            return "epochs"
        behind = min(epoch - self.progress.best_epoch, epoch - patience)
        return "patience" if 0 < patience <= behind and self.material.exam is not None else ""

    def learning_rate(self) -> float:
        """The rate of the current step, by the schedule of the settings."""
        done = self.progress.epoch + self.progress.position / max(1, len(self.order))
        log = self.progress.log if self.like is None else self.like.log[: self.progress.epoch]
        return learning_rate(self.settings, done, log)

    def epoch(self, stop: Stop) -> str:
        """Run the rest of an epoch step by step; returns why it ended early, or ""."""
        self.plain.train()
        device = self.fabric.device
        totals = torch.zeros(2, dtype=torch.float64, device=device)  # loss over queries, queries; read rarely
        rest = self.order[self.progress.position :]
        for targets in rest.split(self.settings.batch_queries or self.settings.batch_windows) if len(rest) else ():
            self._step(targets, totals)
            give_memory_back(device)
            self.progress.position += len(targets)
            if self.reporter is not None and self.group.first and time.monotonic() - self.reported > REPORT_SECONDS:
                self._read(totals)
                self.reporter.step(self.progress, self.settings, len(self.order))
                self.reported = time.monotonic()
            self._count_seconds()
            self._expect_check()
            if ended := self._agree(stop):
                self._read(totals)
                return ended
            if self._due():
                self._read(totals)
                self.save()
        self._read(totals)
        return ""

    def _step(self, targets: Tensor, totals: Tensor) -> None:
        """One step over some target snapshots or edges; each process takes its share."""
        train, group, rows = self.material.train, self.group, len(targets)
        share = group.share(rows)
        windows, queries, count = self.material.draw(targets, share, self.settings, self.generators["order"])
        if group.rank and group.divides_windows:  # reseeded each step: only the first process's state is kept
            place = (self.seed, group.rank, self.progress.epoch, self.progress.position)
            self.generators["masks"].manual_seed(hash(place) % 2**63)
        for norm in self.norms:
            norm.per_process = share == slice(None)
        loss = self.loss(lambda model: model(train, windows, queries, self.generators["masks"]))
        if group.divides_windows:
            loss = loss * group.weight(rows, len(queries), count)
        for options in self.optimizer.param_groups:
            options["lr"] = self.learning_rate()
        self.optimizer.zero_grad()
        self.fabric.backward(loss)
        mean = group.add_gradients(self.shared, loss.detach())
        if self.settings.clip and group.divides_entities:
            clip_divided(self.plain, self.settings.clip)
        elif self.settings.clip:
            self.fabric.clip_gradients(self.loss, self.optimizer, max_norm=self.settings.clip, error_if_nonfinite=False)
        self.optimizer.step()
        totals[0] += mean * count
        totals[1] += count

    def _read(self, totals: Tensor) -> None:
        """Add the sums on the device to the progress; a NaN or infinite loss ends the run."""
        loss, queries = totals.tolist()
        totals.zero_()
        if not math.isfinite(loss):
            place = f"epoch {self.progress.epoch + 1}, {self.progress.position} of {len(self.order)} done"
            raise diverged(f"the loss became NaN or infinite ({place})", self.settings)
        self.progress.loss_sum += loss
        self.progress.queries += int(queries)

    def _close_epoch(self) -> None:
        """Validate, keep the weights if they are the best so far, and log the epoch."""
        p = self.progress
        check_finite(self.plain, p.epoch + 1, self.settings)
        row: dict[str, float] = {"epoch": p.epoch + 1, "loss": p.loss_sum / max(p.queries, 1)}
        row["learning_rate"] = self.learning_rate()
        p.epoch, p.position, p.loss_sum, p.queries = p.epoch + 1, 0, 0.0, 0
        self.plain.settle(self.material.train)
        if self.material.exam is not None:
            began = time.monotonic()
            row |= {
                f"valid_{name}": value for name, value in validate(self.plain, self.material.exam, self.group).items()
            }
            p.check_seconds = time.monotonic() - began
        if row.get("valid_mrr", math.inf) > p.best_mrr:  # without validation every epoch is the best so far
            p.best_mrr, p.best_epoch = row.get("valid_mrr", p.best_mrr), p.epoch
            self._keep_weights()
        self._count_seconds()
        p.log.append(row | {"seconds": p.seconds})
        if self.log is not None and self.group.first:
            write_log(self.log, p)
        if self.reporter is not None and self.group.first:
            self.reporter.epoch(p, self.settings)

    def _keep_weights(self) -> None:
        """Keep the current weights as the best so far."""
        self.best = {name: tensor.detach().cpu().clone() for name, tensor in self.plain.state_dict().items()}

    def _count_seconds(self) -> None:
        now = time.monotonic()
        self.progress.seconds += now - self.clock
        self.clock = now

    def _expect_check(self) -> None:
        """Before the first validation, estimate its time: half of what training takes for as many questions."""
        if self.material.exam is not None and not self.progress.epoch:
            trained = self.progress.position / len(self.order) * self.questions
            self.progress.check_seconds = 0.5 * self.progress.seconds * len(self.material.exam) / trained

    def finish(self) -> Model:
        """The model with its best weights; memory that only training needs is released."""
        self.plain.release()
        if self.best:
            self.plain.load_state_dict(self.best)
        unite(self.plain)
        return self.plain

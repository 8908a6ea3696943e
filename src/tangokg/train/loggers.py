"""Trackers of training: every epoch, the settings and the test metrics go to loggers of Lightning, as they are made."""

from __future__ import annotations

import json
import logging
import os
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tangokg.errors import ConfigError, RunError, nearest, offer
from tangokg.quads.values import Dataset
from tangokg.train.checkpoint import Progress, write_atomically
from tangokg.train.settings import RunConfig, TrainSettings
from tangokg.train.stopping import Reporter

logger = logging.getLogger("tangokg")

FILE = "trackers.json"  # in the run folder: which run of each tracker is ours, and which epochs it has
FOLDER = "logs"  # in the run folder: what csv and tensorboard write
PROJECT = "tangokg"  # of W&B, and the experiment of MLflow, unless their environment variables name another
RETRIES = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"  # its own default waits for minutes, and training with it
SUCCESS, FAILED, ABORTED = "success", "failed", "aborted"


@dataclass
class Tracker:
    """A Lightning logger, and the epochs that it already has."""

    name: str
    logger: Any
    close: Callable[[str], None]
    sent: int | None = 0  # epochs that it has; None: all before the first one that it is given
    new: bool = True  # it does not have the settings yet


# Lightning's logger of each name, for a run folder (or the name of a run without one) and the run to continue.


def _csv(run: Path, version: str) -> Tracker:
    """Each session writes a new file: Lightning's logger deletes the rows of an earlier session."""
    from lightning.fabric.loggers.csv_logs import CSVLogger

    (run / FOLDER / "csv" / "metrics.csv").unlink(missing_ok=True)
    lightning = CSVLogger(run, FOLDER, "csv")
    return Tracker("csv", lightning, lightning.finalize)


def _tensorboard(run: Path, version: str) -> Tracker:
    from lightning.fabric.loggers.tensorboard import TensorBoardLogger

    lightning = TensorBoardLogger(run, FOLDER, "tensorboard")
    return Tracker("tensorboard", lightning, lightning.finalize)


def _mlflow(run: Path, version: str) -> Tracker:
    os.environ.setdefault(RETRIES, "2")
    import mlflow
    from lightning.pytorch.loggers import MLFlowLogger

    experiment = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
    lightning = MLFlowLogger(experiment, run.name, mlflow.get_tracking_uri(), run_id=version or None)
    if version:
        lightning.experiment.update_run(version, status="RUNNING")
    return Tracker("mlflow", lightning, lambda status: lightning.finalize("KILLED" if status == ABORTED else status))


def _wandb(run: Path, version: str) -> Tracker:
    """No command line, source or output is sent: they may hold a password."""
    import wandb
    from lightning.pytorch.loggers import WandbLogger

    ours = wandb.run is None  # else the one that is open is used, and left open
    options = wandb.Settings(console="off", disable_git=True, save_code=False, x_disable_meta=True)
    project, place = os.environ.get("WANDB_PROJECT", PROJECT), os.environ.get("WANDB_DIR", ".")
    lightning: Any = WandbLogger(
        name=run.name, project=project, id=version or uuid.uuid4().hex[:8], save_dir=place, settings=options
    )

    def close(status: str) -> None:
        lightning.finalize(status)
        if ours:
            lightning.experiment.finish(exit_code=int(status == FAILED))

    return Tracker("wandb", lightning, close)


LOGGERS: dict[str, Callable[[Path, str], Tracker]] = {
    "csv": _csv,
    "tensorboard": _tensorboard,
    "wandb": _wandb,
    "mlflow": _mlflow,
}
CORE = ("csv",)  # needs no extra
LOCAL = ("csv", "tensorboard")  # write into the run folder


def choose_loggers(loggers: str | Sequence[Any] | None, kept: bool = True) -> list[Any]:
    """Check the given names and objects before anything is read; ``kept`` says whether there is a run folder."""
    listed = loggers.split(",") if isinstance(loggers, str) else loggers or ()
    chosen = list(dict.fromkeys(item.strip() if isinstance(item, str) else item for item in listed))
    for item in chosen:
        if not isinstance(item, str):
            if not (callable(getattr(item, "log_metrics", None)) and callable(getattr(item, "log_hyperparams", None))):
                known = ", ".join(LOGGERS)
                raise ConfigError(f"loggers: {item!r:.60} is neither one of {known} nor a Lightning logger.")
        elif item not in LOGGERS:
            raise ConfigError(f"unknown tracker {item!r}.{offer(nearest(item, LOGGERS))} Known: {', '.join(LOGGERS)}.")
        elif item not in CORE and find_spec(item) is None:
            raise ConfigError(
                f"the tracker {item!r} needs the extra {item!r} ({item} is missing): pip install 'tangokg[{item}]'."
            )
        elif item in LOCAL and not kept:
            raise ConfigError(f"the tracker {item!r} writes into the run folder: give out=, or a Lightning logger.")
    return chosen


class Tracking:
    """A reporter that forwards everything to ``shown``, and epochs to trackers; a tracker that fails is left out.

    Nothing is sent to a tracker twice: a resumed run continues the same run of the tracker.
    """

    def __init__(self, shown: Reporter, trackers: Sequence[Tracker] = (), file: Path | None = None) -> None:
        self.shown, self.trackers, self.file = shown, list(trackers), file

    def step(self, progress: Progress, settings: TrainSettings, snapshots: int) -> None:
        self.shown.step(progress, settings, snapshots)

    def epoch(self, progress: Progress, settings: TrainSettings) -> None:
        self.shown.epoch(progress, settings)
        self._each(lambda tracker: _send_epochs(tracker, progress.log))
        self._remember()

    def begin(self, settings: Mapping[str, Any]) -> None:
        """Send the settings to those that do not have them."""
        self._each(lambda tracker: _send_settings(tracker, settings))
        self._remember()

    def end(self, metrics: Mapping[str, Any], progress: Progress) -> None:
        """Send the test metrics, in the form of ``metrics.json``."""
        test = metrics.get("test", {}).get("time-aware", {})
        final = {_name(f"test_{name}"): value for name, value in test.items()} | {"best_epoch": progress.best_epoch}

        def send(tracker: Tracker) -> None:
            # The figure by which TensorBoard compares settings; Lightning sets it to -1 at the start.
            compared = {"hp_metric": progress.best_mrr} if tracker.name == "tensorboard" else {}
            tracker.logger.log_metrics(final | compared, step=progress.epoch)
            tracker.logger.save()

        self._each(send)

    def close(self, status: str) -> None:
        self._each(lambda tracker: tracker.close(status))

    def _each(self, call: Callable[[Tracker], None]) -> None:
        """Call every tracker; if one fails, warn once and continue without it."""
        for tracker in tuple(self.trackers):
            try:
                call(tracker)
            except Exception as error:
                self.trackers.remove(tracker)
                logger.warning(f"The tracker {tracker.name} failed ({_reason(error)}); training goes on without it.")

    def _remember(self) -> None:
        """Store what a resumed run needs; no server address, which may contain a password."""
        notes = {tracker.name: _note(tracker) for tracker in self.trackers if tracker.name in LOGGERS}
        if self.file is not None and notes:
            with suppress(RunError):  # a full disk: the checkpoint will say so
                write_atomically(self.file, json.dumps(_notes(self.file) | notes).encode())


@contextmanager
def tracking(
    chosen: Sequence[Any], run: Path | None, name: str, shown: Reporter, dataset: Dataset, config: RunConfig
) -> Iterator[Tracking]:
    """Start the trackers of :func:`choose_loggers`, and end them with the outcome of training.

    ``run`` is the run folder, ``name`` replaces it if there is none. A tracker that cannot be started is an error.
    """
    file = None if run is None else run / FILE
    notes = {} if file is None else _notes(file)
    tracked, status = Tracking(shown, (), file), FAILED
    try:
        for item in chosen:
            tracked.trackers.append(
                _start(item, run or Path(name), notes.get(item, {}) if isinstance(item, str) else {})
            )
        tracked.begin(_settings(dataset, config))
        yield tracked
        status = SUCCESS
    except KeyboardInterrupt:
        status = ABORTED
        raise
    finally:
        tracked.close(status)


def _start(chosen: Any, run: Path, note: Mapping[str, Any]) -> Tracker:
    """The tracker for a name or a logger, with its run opened."""
    if not isinstance(chosen, str):
        return Tracker(type(chosen).__name__, chosen, getattr(chosen, "finalize", lambda status: None), sent=None)
    try:
        tracker = LOGGERS[chosen](run, note.get("run", ""))
        _ = tracker.logger.experiment  # opened now
    except Exception as error:
        raise ConfigError(
            f"the tracker {chosen!r} cannot be started: {_reason(error)}. Check its settings (docs/trackers.md), or "
            f"train without it."
        ) from None
    if note and chosen != "csv":
        tracker.sent, tracker.new = note["epochs"], False
    return tracker


def _send_settings(tracker: Tracker, settings: Mapping[str, Any]) -> None:
    if tracker.new:
        with suppress(NotImplementedError):  # of a logger that takes none, such as Lightning's CSV
            tracker.logger.log_hyperparams(dict(settings))
        tracker.new = False


def _send_epochs(tracker: Tracker, log: Sequence[Mapping[str, float]]) -> None:
    """Send the epochs that the tracker does not have yet."""
    for row in log[len(log) - 1 if tracker.sent is None else tracker.sent :]:
        metrics = {_name(name): value for name, value in row.items() if name != "epoch"}
        tracker.logger.log_metrics(metrics, step=int(row["epoch"]))
    tracker.sent = len(log)
    if hasattr(tracker.logger, "save"):
        tracker.logger.save()


def _name(column: str) -> str:
    """``valid_hits@1`` -> ``valid/hits_at_1``: trackers group by the first word, and MLflow takes no ``@``."""
    part, _, name = column.partition("_")
    return f"{part}/{name}".replace("@", "_at_") if part in ("valid", "test") else f"train/{column}"


def _settings(dataset: Dataset, config: RunConfig) -> dict[str, Any]:
    """The settings to track: model, seed, settings and the size of the data."""
    sizes = {f"{name}_facts": len(part) for name, part in dataset.parts.items()}
    names = {"entities": dataset.vocab.num_entities, "relations": dataset.vocab.num_relations}
    tables = {key: value for key, value in config.to_tables().items() if key != "schema"}
    return tables | {"data": {"name": dataset.name, "unit": dataset.clock.unit, **names, **sizes}}


def _note(tracker: Tracker) -> dict[str, Any]:
    return {"run": str(tracker.logger.version), "epochs": tracker.sent}


def _notes(file: Path) -> dict[str, Any]:
    """Name of each tracker that a run has used -> the tracker's run, and the epochs that it has."""
    try:
        notes: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if all(isinstance(note["run"], str) and type(note["epochs"]) is int for note in notes.values()):
            return notes
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        pass
    raise RunError(f"{file}: damaged; delete it, and the trackers begin new runs.")


def _reason(error: Exception) -> str:
    """The first line of an error, without the name and password of an address."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return re.sub(r"://[^/@\s]+@", "://", line)[:300].rstrip(".")

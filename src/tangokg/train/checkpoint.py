"""A training state as one safetensors file, written under another name and renamed: a kill keeps the old file."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from tangokg.config import update
from tangokg.errors import ConfigError, RunError

HITS = ("valid_hits@1", "valid_hits@3", "valid_hits@10")
COLUMNS = ("epoch", "loss", "learning_rate", "valid_mrr", *HITS, "seconds")  # of log.csv


@dataclass
class Progress:
    """Where training stands; the only mutable value of the loop."""

    epoch: int = 0  # epochs done
    position: int = 0  # target snapshots, or edges, done in the current epoch
    loss_sum: float = 0.0  # over the queries of the current epoch
    queries: int = 0
    seconds: float = 0.0  # training time so far, over all sessions
    best_mrr: float = -1.0  # on validation; -1 before the first
    best_epoch: int = 0
    check_seconds: float = 0.0  # duration of the last validation
    ended: str = ""  # why training ended, a key of stopping.ENDINGS; "" while it runs
    log: list[dict[str, float]] = field(default_factory=list)  # one row for each finished epoch

    @classmethod
    def of(cls, note: Any) -> Progress:
        """Read the progress from a note; raises ConfigError for a wrong type or an impossible number."""
        if not isinstance(note, dict):
            raise ConfigError(f"progress must be a table, found {note!r}")
        log = note.get("log", [])
        progress = update(cls(), {name: value for name, value in note.items() if name != "log"}, "progress")
        for name, value in vars(progress).items():
            if isinstance(value, int | float) and value < 0 and name not in ("best_mrr", "loss_sum"):
                raise ConfigError(f"{name} must not be {value!r}")
        if not isinstance(log, list):
            raise ConfigError(f"log must be a list, found {log!r}")
        for row in log:
            if not (isinstance(row, dict) and {"epoch", "loss", "seconds"} <= row.keys()):
                raise ConfigError(f"a row of the log lacks its epoch, loss or seconds: {row!r}")
            if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in row.values()):
                raise ConfigError(f"a row of the log holds something other than numbers: {row!r}")
        if progress.best_epoch > progress.epoch:
            raise ConfigError(f"best_epoch {progress.best_epoch} lies after epoch {progress.epoch}")
        return replace(progress, log=log)


def write_atomically(path: Path, content: bytes) -> None:
    """Write all of ``content`` or nothing, whatever happens in between."""
    partial = path.with_name(path.name + ".tmp")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        reason = error.strerror or error
        raise RunError(f"{path}: cannot be written: {reason}. Free some space or choose another place.") from None


def write_log(path: Path, progress: Progress) -> None:
    """The epochs so far as a CSV file."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(progress.log)
    write_atomically(path, text.getvalue().encode())


def save_tensors(path: Path, tensors: dict[str, Tensor], note: dict[str, Any] | None = None) -> None:
    """Tensors by name, and a JSON note, as one file."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_atomically(path, save(plain, {"note": json.dumps(note or {})}))


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What :func:`save_tensors` wrote; a damaged file is an error that names it."""
    with _opened(path) as file:
        return {name: file.get_tensor(name) for name in file.keys()}, _note(file)  # noqa: SIM118 (no mapping)


def load_note(path: Path) -> dict[str, Any]:
    """The note of a file alone, as in :func:`load_tensors`."""
    with _opened(path) as file:
        return _note(file)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except FileNotFoundError:
        raise RunError(f"{path}: no such file.") from None
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise RunError(f"{path}: damaged or not of this form ({error}). Train again with --overwrite.") from None


def _note(file: Any) -> dict[str, Any]:
    note = json.loads((file.metadata() or {}).get("note", "{}"))
    if not isinstance(note, dict):
        raise ValueError(f"its note must be a table, found {note!r}")
    return note


def load_weights(model: nn.Module, weights: dict[str, Tensor]) -> None:
    """Load weights into a model; raises ValueError for a wrong name, shape or type, or a gap that is not positive."""
    for name, tensor in model.state_dict().items():
        stored = weights.get(name)
        if stored is not None and stored.dtype != tensor.dtype:
            raise ValueError(f"{name} must be {tensor.dtype}, found {stored.dtype}")
        if stored is not None and name.endswith("gap") and not bool(((stored > 0) & stored.isfinite()).all()):
            raise ValueError(f"{name} must be a positive time, found {stored.tolist()}")
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(str(error).splitlines()[-1].strip()) from None


def pack(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    generators: dict[str, torch.Generator],
    order: Tensor,
    best: dict[str, Tensor],
    progress: Progress,
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Everything that the next step depends on, by name."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"best.{name}": tensor for name, tensor in best.items()}
    tensors |= {f"generator.{name}": generator.get_state() for name, generator in generators.items()}
    tensors["order"] = order
    for name, state in zip(_names(model), _states(optimizer), strict=True):
        tensors |= {f"optimizer.{name}.{key}": torch.as_tensor(value) for key, value in state.items()}
    return tensors, {"progress": asdict(progress)}


def unpack(
    tensors: dict[str, Tensor],
    note: dict[str, Any],
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    generators: dict[str, torch.Generator],
) -> tuple[Tensor, dict[str, Tensor], Progress]:
    """Restore a packed state; returns the order of the current epoch, the best weights and the progress."""
    best = _with_prefix(tensors, "best.")
    try:
        for weights in (best, _with_prefix(tensors, "model.")) if best else (_with_prefix(tensors, "model."),):
            load_weights(model, weights)
        for name, generator in generators.items():
            generator.set_state(tensors[f"generator.{name}"])
        state = {
            i: _with_prefix(tensors, f"optimizer.{name}.")
            for i, name in enumerate(_names(model))
            if f"optimizer.{name}.step" in tensors
        }
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
        progress, order = Progress.of(note["progress"]), tensors["order"]
        if order.dtype != torch.int64 or order.dim() != 1:
            raise ValueError(f"the order must be a row of int64, found {order.dtype} of shape {tuple(order.shape)}")
        if progress.position > len(order):
            raise ValueError(f"position {progress.position} lies beyond the {len(order)} of the epoch")
        return order, best, progress
    except (ConfigError, KeyError, RuntimeError, TypeError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[-1].strip()
        raise RunError(f"the checkpoint does not fit this run ({reason}). Train again with --overwrite.") from None


def check_place(progress: Progress, order: Tensor, whole: Tensor) -> None:
    """Check that a checkpoint belongs to these data and settings; ``whole`` are all targets of an epoch."""
    reason = ""
    if len(progress.log) != progress.epoch:
        reason = f"{progress.epoch} epochs, and {len(progress.log)} in its log"
    elif progress.position and not torch.equal(order.sort().values, whole):
        reason = f"its epoch asks other questions than the {len(whole)} of these data"
    if reason:
        raise RunError(f"the checkpoint does not fit this run ({reason}). Train again with --overwrite.")


def _with_prefix(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _names(model: nn.Module) -> list[str]:
    return [name for name, _ in model.named_parameters()]


def _states(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    return [optimizer.state.get(p, {}) for group in optimizer.param_groups for p in group["params"]]

"""A training state as one safetensors file: written to another name and renamed, so that a kill leaves the old one."""

from __future__ import annotations

import csv
import io
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from tangokg.errors import RunError


@dataclass
class Progress:
    """Where training stands; the only mutable value of the loop."""

    epoch: int = 0  # epochs done
    position: int = 0  # target snapshots done in the epoch under way
    loss_sum: float = 0.0  # over the queries of the epoch under way
    queries: int = 0
    seconds: float = 0.0  # training time so far, over all sessions
    best_mrr: float = -1.0  # on validation; -1 before the first
    best_epoch: int = 0
    log: list[dict[str, float]] = field(default_factory=list)  # one row for each epoch done


def write_atomically(path: Path, content: bytes) -> None:
    """Write all of ``content`` or nothing, whatever happens in between."""
    beside = path.with_name(path.name + ".tmp")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        reason = error.strerror or error
        raise RunError(f"{path}: cannot be written: {reason}. Free some space or choose another place.") from None


def write_log(path: Path, progress: Progress) -> None:
    """The epochs so far as a CSV file."""
    text = io.StringIO()
    writer = csv.DictWriter(text, ["epoch", "loss", "valid_mrr", "seconds"], restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(progress.log)
    write_atomically(path, text.getvalue().encode())


def save_tensors(path: Path, tensors: dict[str, Tensor], note: dict[str, Any] | None = None) -> None:
    """Tensors by name, and a JSON note, as one file."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_atomically(path, save(plain, {"note": json.dumps(note or {})}))


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What :func:`save_tensors` wrote; a damaged file is an error that names it."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
            note = json.loads((file.metadata() or {}).get("note", "{}"))
    except FileNotFoundError:
        raise RunError(f"{path}: no such file.") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise RunError(f"{path}: damaged or not of this form ({error}). Train again with --overwrite.") from None
    return tensors, note


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
    """Put a packed state back; returns the order of the epoch under way, the best weights and the progress."""
    try:
        model.load_state_dict(_with_prefix(tensors, "model."))
        for name, generator in generators.items():
            generator.set_state(tensors[f"generator.{name}"])
        state = {
            i: _with_prefix(tensors, f"optimizer.{name}.")
            for i, name in enumerate(_names(model))
            if f"optimizer.{name}.step" in tensors
        }
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
        return tensors["order"], _with_prefix(tensors, "best."), Progress(**note["progress"])
    except (KeyError, RuntimeError, TypeError) as error:
        reason = str(error).splitlines()[-1].strip()
        raise RunError(f"the checkpoint does not fit this run ({reason}). Train again with --overwrite.") from None


def _with_prefix(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _names(model: nn.Module) -> list[str]:
    return [name for name, _ in model.named_parameters()]


def _states(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    return [optimizer.state.get(p, {}) for group in optimizer.param_groups for p in group["params"]]

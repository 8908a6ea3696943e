"""Divide a model's entities among processes: cut its tables, put them together again, and save them whole."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from tangokg.errors import TrainingError
from tangokg.models import Model
from tangokg.shards import WHOLE, Shard
from tangokg.train.processes import Group
from tangokg.train.settings import RunConfig


def divide(model: Model, group: Group, config: RunConfig) -> Group:
    """The group that the settings ask for: each process takes some windows, or some entities.

    In the second case the model keeps only the rows of this process.
    """
    if group.size == 1:
        return group
    if not model.divisible:
        raise TrainingError(f"{config.model} cannot be trained by several processes; start it in one.")
    if not config.train.shard_entities:
        return group
    if not model.divided:
        raise TrainingError(
            f"shard_entities: the entities of {config.model} cannot be divided among processes. Leave it out, or train "
            f"a model of the family of tango."
        )
    if config.train.precision == "16-mixed":
        raise TrainingError("shard_entities: found precision 16-mixed, expected another, such as bf16-mixed.")
    for name in model.divided:
        table: Tensor = getattr(model, name)
        if group.size > len(table):
            raise TrainingError(
                f"shard_entities: {group.size} processes cannot divide {len(table)} entities; start fewer."
            )
        model.shard = Shard(group.rank, group.size, len(table))
        setattr(model, name, nn.Parameter(table.detach()[model.shard.rows].clone()))
    return replace(group, divides_entities=True)


def unite(model: Model) -> None:
    """Restore the whole model in every process."""
    if model.shard.whole:
        return
    for name in model.divided:
        table: Tensor = getattr(model, name)
        setattr(model, name, nn.Parameter(model.shard.put_together(table.detach())))
    model.shard = WHOLE


def put_together(model: Model, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a checkpoint with all rows, in the first process; every process sends its own."""
    return {
        name: model.shard.put_together(x.detach().cpu(), everywhere=False) if _is_divided(model, name, x) else x
        for name, x in tensors.items()
    }


def cut(model: Model, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a checkpoint with the rows of this process; the number of processes may have changed."""
    rows = model.shard.rows
    return {name: x[rows].clone() if _is_divided(model, name, x) else x for name, x in tensors.items()}


def _is_divided(model: Model, name: str, tensor: Tensor) -> bool:
    """Whether a tensor ``KIND.TABLE`` or ``KIND.TABLE.KEY`` has a row for each entity of a divided table."""
    return not model.shard.whole and name.split(".")[1:2] in [[table] for table in model.divided] and tensor.dim() > 0


def clip_divided(model: Model, largest: float) -> None:
    """Clip the norm of the gradient, taken over the rows of all processes."""
    grads = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    squares = {name: grad.square().sum() for name, grad in grads.items()}
    zero = next(iter(squares.values())).new_zeros(())
    divided = sum((square for name, square in squares.items() if name in model.divided), zero)
    alike = sum((square for name, square in squares.items() if name not in model.divided), zero)
    norm = (alike + model.shard.total(divided)).sqrt()
    scale = (largest / (norm + 1e-6)).clamp(max=1.0)  # as torch.nn.utils.clip_grad_norm_ has it
    with torch.no_grad():
        for grad in grads.values():
            grad.mul_(scale)

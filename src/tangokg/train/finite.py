"""Diverged training: the check for NaN and infinity, and its error."""

from __future__ import annotations

from torch import nn

from tangokg.errors import TrainingError
from tangokg.train.settings import TrainSettings


def diverged(what: str, settings: TrainSettings) -> TrainingError:
    """The error for diverged training, with advice on what to change."""
    return TrainingError(
        f"{what}. Take a smaller learning rate (--set learning_rate={settings.learning_rate / 3:.1g}) or shorter "
        f"intervals (--set step_time=...)."
    )


def check_finite(model: nn.Module, epoch: int, settings: TrainSettings) -> None:
    """End a run whose weights are NaN or infinite, even if no validation shows it."""
    for name, parameter in model.named_parameters():
        if not bool(parameter.detach().isfinite().all()):
            raise diverged(f"the weights {name} became NaN or infinite (epoch {epoch})", settings)

"""Training that has left the numbers: the check, and its error."""

from __future__ import annotations

from torch import nn

from tangokg.errors import TrainingError
from tangokg.train.settings import TrainSettings


def diverged(what: str, settings: TrainSettings) -> TrainingError:
    """The error of a training that numbers have left."""
    return TrainingError(
        f"{what}. Take a smaller learning rate (--set learning_rate={settings.learning_rate / 3:.1g}) or shorter "
        f"intervals (--set step_time=...)."
    )


def check_finite(model: nn.Module, epoch: int, settings: TrainSettings) -> None:
    """Weights that are no numbers end a run, also where no validation would show it."""
    for name, parameter in model.named_parameters():
        if not bool(parameter.detach().isfinite().all()):
            raise diverged(f"the weights {name} are not numbers any more (epoch {epoch})", settings)

"""A second run beside the first, for comparison: it answers the same questions, from the same facts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tangokg.errors import ConfigError, TangoError
from tangokg.forecast import Forecaster
from tangokg.serve import asking, card, schemas
from tangokg.serve.compacting import catch_up
from tangokg.serve.state import State


class Second:
    """Used by the slow thread alone. Only reads its folder, and takes posts from the first run's journal."""

    def __init__(self, forecaster: Forecaster, first: Forecaster, run: Path, journal: Path) -> None:
        if _timing(forecaster) != _timing(first):
            raise ConfigError(
                f"--beside {run}: its times are {_timing(forecaster)}, those of the served run {_timing(first)}: "
                f"they cannot answer the same questions. Give a run of data with the same times."
            )
        self.state = State.of(forecaster)
        self.name, self._journal, self._figures = run.resolve().name, journal, card.figures(run)

    def caught_up(self) -> State:
        """The state with all posts so far; facts that the run folder already has change nothing."""
        self.state = catch_up(self.state, self._journal)
        return self.state

    def answer(self, question: schemas.Question, span: float) -> dict[str, Any]:
        """The forecast, or the error of the question for this run alone, such as an unknown name."""
        (result,) = asking.answer(self.caught_up(), [question], span)
        if isinstance(result, TangoError):
            return {"error": {"message": str(result)}}
        if isinstance(result, BaseException):
            raise result
        return {"forecast": result}

    def about(self) -> dict[str, Any]:
        """What distinguishes this run from the first."""
        return {"run": self.name, "model": self.state.forecaster.config.model, "metrics": self._figures}


def _timing(forecaster: Forecaster) -> str:
    """How a run counts time; dates need no common origin, as they are exchanged as text."""
    clock = forecaster.dataset.clock
    return "plain numbers" if clock.origin is None else f"dates ({clock.timezone}) in {clock.unit}s"

"""The trials of a study, in readable form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

STATES = {"WAITING": "waiting", "RUNNING": "under way", "COMPLETE": "done", "PRUNED": "pruned", "FAIL": "failed"}
OVER = ("done", "pruned", "failed")  # states of trials that have ended


@dataclass(frozen=True)
class Outcome:
    """A trial in readable form."""

    number: int
    state: str  # a value of STATES
    mrr: float | None  # the best validation MRR so far
    values: Mapping[str, Any]
    epochs: int
    seconds: float | None
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "values": dict(self.values)}

    def to_row(self, names: Iterable[str]) -> dict[str, Any]:
        """A row of a table in which each of the settings ``names`` has a column."""
        values = {name: self.values.get(name, "") for name in names}
        return (
            {"trial": self.number, "state": self.state}
            | values
            | {"mrr": self.mrr, "epochs": self.epochs, "seconds": self.seconds}
        )


def counted(trials: list[Any]) -> list[Any]:
    """The started trials without repeated points; a restarted trial takes the place of its first start."""
    begun: dict[int, Any] = {}
    for frozen in trials:
        if frozen.state.name != "WAITING" and "as" not in frozen.user_attrs:
            begun[frozen.user_attrs.get("root", frozen.number)] = frozen
    return [begun[number] for number in sorted(begun)]


def is_lost(frozen: Any) -> bool:
    """Whether a trial failed because its worker is gone, so that another worker restarts it."""
    return frozen.state.name == "FAIL" and "lost" in frozen.user_attrs


def outcome_of(number: int, frozen: Any) -> Outcome:
    reported = frozen.intermediate_values
    return Outcome(
        number,
        STATES["RUNNING" if is_lost(frozen) else frozen.state.name],
        max([*reported.values(), *([frozen.value] if frozen.state.name == "COMPLETE" else [])], default=None),
        frozen.params,
        max(reported, default=0),
        frozen.user_attrs.get("seconds"),
        frozen.user_attrs.get("note", ""),
    )


def best_of(outcomes: list[Outcome]) -> Outcome | None:
    """The best trial so far by validation MRR, the first of equals."""
    measured = [outcome for outcome in outcomes if outcome.mrr is not None and outcome.state != "failed"]
    return max(measured, key=lambda outcome: (outcome.mrr, -outcome.number), default=None)

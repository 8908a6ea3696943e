"""The size of a problem, from which the rules for settings take their values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tangokg.quads.values import Quadruples
from tangokg.snapshots.timeline import Timeline

LAST_STEPS = 20  # in which it is counted how many facts last


@dataclass(frozen=True)
class Size:
    """The input of a rule: counts of the training part, and the kind of device."""

    facts: int
    snapshots: int
    entities: int
    relations: int
    device: str = "cpu"  # or cuda
    lasting: float = 0.0  # share of the facts that stood one step before too, in the last steps

    @classmethod
    def of(cls, train: Timeline, device: str = "cpu") -> Size:
        """The size of a training part in snapshots, which hold each fact in both directions."""
        first = int(train.offset[max(0, len(train) - LAST_STEPS - 1)])
        step = np.repeat(np.arange(len(train)), train.num_edges)[first:]
        s, r, o = (x[first:].cpu().numpy() for x in (train.s, train.r, train.o))
        lasting = share_lasting(s, r, o, step)
        facts = int(train.offset[-1]) // 2
        return cls(facts, len(train), train.num_entities, train.num_relations, device, lasting)

    @classmethod
    def of_facts(cls, train: Quadruples, device: str) -> Size:
        """The size of a training part as it was read."""
        times, step = np.unique(train.t, return_inverse=True)
        late = step >= len(times) - LAST_STEPS - 1
        lasting = share_lasting(train.s[late], train.r[late], train.o[late], step[late])
        return cls(len(train), len(times), train.vocab.num_entities, train.vocab.num_relations, device, lasting)


def share_lasting(s: np.ndarray, r: np.ndarray, o: np.ndarray, step: np.ndarray) -> float:
    """The share of facts that stood one step before too; those of the first step are not counted."""
    if not len(step) or step.min() == step.max():
        return 0.0
    facts = np.stack([s, r, o], axis=1)
    fact = np.unique(facts, axis=0, return_inverse=True)[1].reshape(-1)
    key, later = fact * 2**32 + step, step > step.min()
    return float(np.isin(key[later] - 1, key).mean())


def fill_by_rule(settings: Any, size: Size) -> Any:
    """Fill in the settings that are left to a rule: those named in ``ruled`` whose value is 0 or none.

    A class with such settings has a class variable ``ruled``, their names, and a method ``by_rule(size)`` that gives
    a value for each of them.
    """
    ruled: tuple[str, ...] = getattr(settings, "ruled", ())
    names = [name for name in ruled if is_left(getattr(settings, name))]
    if not names:
        return settings
    values = settings.by_rule(size)
    return replace(settings, **{name: values[name] for name in names})


def is_left(value: Any) -> bool:
    """Whether a value leaves the choice to a rule or the data: 0, an empty text, or none for a switch."""
    return not value and value is not False


def history_by_rule(size: Size) -> dict[str, int]:
    """The history settings by rule: a CPU has time for a narrow scorer only.

    Where facts last, new ones are three steps away, not two, and it matters since when a fact has lasted.
    """
    lasting = size.lasting > 0.5
    return {"width": 32 if size.device == "cpu" else 128, "hops": 2 if lasting else 1, "runs": lasting}

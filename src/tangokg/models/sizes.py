"""How large a problem is, from which settings that are left to a rule take their values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tangokg.snapshots.timeline import Timeline


@dataclass(frozen=True)
class Size:
    """What a rule may look at: counts of the training part, and the kind of device."""

    facts: int
    snapshots: int
    entities: int
    relations: int
    device: str = "cpu"  # or cuda

    @classmethod
    def of(cls, train: Timeline, device: str = "cpu") -> Size:
        """Of a training part in snapshots, which have each fact in both directions."""
        return cls(int(train.offset[-1]) // 2, len(train), train.num_entities, train.num_relations, device)


def fill_by_rule(settings: Any, size: Size) -> Any:
    """Settings with a value for each of those that they name in ``ruled`` and that are 0: left to a rule.

    A class with such settings has a class variable ``ruled``, their names, and a method ``by_rule(size)`` that gives
    a value for each of them.
    """
    ruled: tuple[str, ...] = getattr(settings, "ruled", ())
    left = [name for name in ruled if not getattr(settings, name)]
    if not left:
        return settings
    values = settings.by_rule(size)
    return replace(settings, **{name: values[name] for name in left})

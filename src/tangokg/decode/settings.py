"""Settings that the decoders share, and how settings of models are checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from tangokg.errors import ConfigError


def check_settings(
    settings: Any,
    *,
    sizes: Iterable[str] = (),
    rates: Iterable[str] = (),
    weights: Iterable[str] = (),
    choices: Mapping[str, Sequence[Any]] | None = None,
) -> None:
    """Sizes are at least 1, rates lie in [0, 1), weights are not negative, choices are among their values."""
    for name in sizes:
        if (value := getattr(settings, name)) < 1:
            raise ConfigError(f"{name} must be at least 1, found {value}.")
    for name in rates:
        if not 0 <= (value := getattr(settings, name)) < 1:
            raise ConfigError(f"{name} must lie in [0, 1), found {value}.")
    for name in weights:
        if (value := getattr(settings, name)) < 0:
            raise ConfigError(f"{name} must not be negative, found {value}.")
    for name, known in (choices or {}).items():
        if (value := getattr(settings, name)) not in known:
            raise ConfigError(f"{name} {value!r} is unknown; choose one of {', '.join(map(str, known))}.")


def check_sizes_and_rates(settings: Any) -> None:
    """Every field that holds a whole number is a size, every field that holds a fraction a rate."""
    values = {field.name: getattr(settings, field.name) for field in fields(settings)}
    sizes = [name for name, value in values.items() if isinstance(value, int)]
    check_settings(settings, sizes=sizes, rates=[name for name, value in values.items() if isinstance(value, float)])


@dataclass(frozen=True)
class Decoding:
    """Settings of a decoder; further ones are fields of a subclass."""

    dropout: float = 0.0  # wherever no rate of its own is given; a model puts its own dropout here

    def __post_init__(self) -> None:
        check_sizes_and_rates(self)

    def rate(self, value: float | None) -> float:
        """The given dropout rate, or the common one if it is None."""
        return self.dropout if value is None else value

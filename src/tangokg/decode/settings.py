"""Settings that the decoders share."""

from __future__ import annotations

from dataclasses import dataclass, fields

from tangokg.errors import ConfigError


@dataclass(frozen=True)
class Decoding:
    """Settings of a decoder; further ones are fields of a subclass."""

    dropout: float = 0.0  # wherever no rate of its own is given; a model puts its own dropout here

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, float) and not 0 <= value < 1:
                raise ConfigError(f"{field.name} must lie in [0, 1), found {value}.")
            if isinstance(value, int) and value < 1:
                raise ConfigError(f"{field.name} must be at least 1, found {value}.")

    def rate(self, own: float | None) -> float:
        """A dropout rate of its own, or the common one where that is None."""
        return self.dropout if own is None else own

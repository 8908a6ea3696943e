"""The options that every reader of tables takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from tangokg.errors import DataError, check_types
from tangokg.quads.zones import find_zone


class TableKeywords(TypedDict, total=False):
    """The fields of :class:`TableOptions`, as keyword arguments."""

    columns: Mapping[str, str] | None
    unit: str | None
    timezone: str | None
    date_format: str | None
    skip_bad: bool
    relation: str | None


@dataclass(frozen=True)
class TableOptions:
    """Options of the user that the content of a table does not state."""

    columns: Mapping[str, str] | None = field(default=None)  # role -> column name
    unit: str | None = None  # one step of time; None: by the spacing of the dates
    timezone: str | None = None  # of the calendar, and of times without an offset; None: UTC
    date_format: str | None = None  # a pattern of strptime, or unix, unix-ms, unix-us, unix-ns
    skip_bad: bool = False  # leave out rows that cannot be used
    relation: str | None = None  # the relation of all rows

    def __post_init__(self) -> None:
        check_types("read_events", TableOptions, vars(self))
        for name in ("unit", "timezone", "date_format", "relation"):
            value = getattr(self, name)
            if value is not None and not value.strip():
                raise DataError(f"the {name} of all rows (--{name.replace('_', '-')}) is empty; expected a name.")
        find_zone(self.zone)
        if self.date_format is not None and "%" not in self.date_format and not self.date_format.startswith("unix"):
            raise DataError(
                f"the date format {self.date_format!r} has no fields; expected a pattern such as '%d.%m.%Y', or unix, "
                f"unix-ms, unix-us, unix-ns."
            )

    @property
    def zone(self) -> str:
        return self.timezone or "UTC"

    def given(self) -> list[str]:
        """The names of the options that are set."""
        return [name for name in self.__dataclass_fields__ if getattr(self, name)]

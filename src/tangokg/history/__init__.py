"""A timeline -> what happened before: occurrences of facts, decayed sums, streams; heads that any model can take."""

from __future__ import annotations

from tangokg.history.occurrences import (
    Occurrences,
    Past,
    meetings_of,
    occurrences_of,
    past_of,
    sort_by,
    sort_occurrences,
)

__all__ = ["Occurrences", "Past", "meetings_of", "occurrences_of", "past_of", "sort_by", "sort_occurrences"]

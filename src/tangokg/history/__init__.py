"""A timeline -> what happened before: occurrences of facts, and later decayed sums, streams and paths."""

from __future__ import annotations

from tangokg.history.occurrences import Occurrences, Past, occurrences_of, past_of, sort_occurrences

__all__ = ["Occurrences", "Past", "occurrences_of", "past_of", "sort_occurrences"]

"""Unusable rows: all are counted, the first few are reported, and they can be skipped on request."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import nsmallest

import numpy as np
from numpy.typing import NDArray

from tangokg.errors import DataError

SHOWN = 5  # bad rows in a message
REMEDY = "--skip-bad (in Python skip_bad=True)"

logger = logging.getLogger("tangokg.reading")  # the command line prints notes instead

_LINE = re.compile(r":([0-9]+): ")

Bools = NDArray[np.bool_]
Locate = Callable[[int], str]


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows with one kind of fault; ``describe`` says what is wrong with a row of these."""

    rows: NDArray[np.int64]
    describe: Callable[[int], str]

    @classmethod
    def where(cls, mask: Bools, describe: Callable[[int], str]) -> list[Problem]:
        """The problem of the rows in ``mask``; empty if there are none."""
        rows = np.flatnonzero(mask)
        return [cls(rows, describe)] if len(rows) else []


def good_rows(problems: Sequence[Problem], total: int) -> Bools:
    """Which of ``total`` rows have no problem."""
    good = np.ones(total, bool)
    for problem in problems:
        good[problem.rows] = False
    return good


def first_reports(problems: Sequence[Problem], locate: Locate) -> list[str]:
    """Reports of the first rows with a problem: place and reason, each row once, in table order."""
    reports: dict[int, str] = {}
    heads = [(int(row), k) for k, problem in enumerate(problems) for row in problem.rows[:SHOWN]]
    for row, k in nsmallest(SHOWN * max(1, len(problems)), heads):
        if row not in reports and len(reports) < SHOWN:
            reports[row] = f"{locate(row)}: {problems[k].describe(row)}"
    return list(reports.values())


def refusal(reports: Sequence[str], count: int, total: int, remedy: str = REMEDY, rows: str = "rows") -> DataError:
    """The error for ``count`` bad rows of ``total``, with the ``reports`` of the first."""
    if count == 1:
        return DataError(f"{reports[0]} To go on without it: {remedy}." if total > 1 else reports[0])
    listed = "".join(f"\n  {report}" for report in reports[:SHOWN])
    more = "\n  ..." if count > len(reports[:SHOWN]) else ""
    without = f", or go on without them: {remedy}" if count < total else ""
    return DataError(f"{count:,} of {total:,} {rows} cannot be used:{listed}{more}\nCorrect them{without}.")


def in_line_order(reports: Sequence[str]) -> list[str]:
    """Reports sorted by line number."""
    return sorted(reports, key=lambda report: int(line[1]) if (line := _LINE.search(report)) else 0)


def omission(reports: Sequence[str], count: int, total: int, rows: str = "rows") -> str:
    """A note that ``count`` bad rows of ``total`` were skipped; the first few are logged."""
    summary = f"{count:,} of {total:,} {rows} {'was' if count == 1 else 'were'} left out"
    logger.warning("%s (skip_bad), the first: %s", summary, "".join(f"\n  {report}" for report in reports[:SHOWN]))
    return f"{summary} (--skip-bad), the first: {reports[0]}"

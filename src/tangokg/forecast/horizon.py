"""Warnings: questions further ahead than any measurement, steps without facts, and facts that were trained on."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tangokg.forecast.questions import Dated
from tangokg.quads.values import Dataset, Ids, Quadruples

logger = logging.getLogger("tangokg")
LATELY, MOST = 400, 0.95  # steps over which the share of steps with facts is counted; a smaller share is a warning


def measured_times(dataset: Dataset) -> Ids:
    """The times of the single-step evaluation: those of the test part, else of validation, else of training."""
    part = next((p for p in (dataset.test, dataset.valid, dataset.train) if len(p)), dataset.train)
    return np.unique(part.t)


def measured_horizon(measured: Ids, facts: Dated) -> float:
    """The longest gap, in steps, before one of the measured times."""
    times = np.unique(facts.t)
    positions = np.flatnonzero(np.isin(times, measured))
    gaps = [times[i] - times[i - 1] for i in positions if i > 0]
    return float(max(gaps, default=1))


def warn_far(measured: Ids, facts: Dated, times: Sequence[float], run: Path | None = None) -> str:
    """Warn if questions lie further ahead than anything that was measured; returns the text.

    ``run`` is the folder of the run, for a command to copy.
    """
    facts = facts.usual
    last = float(facts.t.max())
    times = [float(np.floor(t)) for t in times]  # a question inside a step is about that step
    if max(times, default=last) - last <= 1:  # every evaluation bridges one step
        return ""
    longest = measured_horizon(measured, facts)
    ahead = [t - last for t in times if t - last > longest]
    if not ahead:
        return ""
    unit = facts.clock.unit
    which = "the question lies" if len(times) == 1 else f"{len(ahead)} of {len(times)} questions lie up to"
    far, span = max(ahead), last - float(facts.t.min())
    python = f"`forecaster.evaluate(protocol=tangokg.rank.horizon({round(far)}))`"
    command = python if run is None else f"`tango evaluate {shlex.quote(str(run))} --horizon {round(far)}`"
    measure = f"{command} measures it"
    text = (
        f"{which} {far:,.4g} {unit}s after the last fact ({facts.clock.format(last)}), and the figures of this run are "
        f"for {longest:,.4g} at most: how good an answer is so far ahead is not known. "
        f"{measure if far < span else 'All data together are too short to measure it'}."
    )
    logger.warning(text)
    return text


def share_recorded(facts: Dated) -> float:
    """The share of the last steps that hold any facts."""
    times = np.unique(facts.usual.t)
    late = times[times > times[-1] - LATELY]
    return len(late) / float(late[-1] - late[0] + 1)


def warn_gaps(facts: Dated, steps: Sequence[float]) -> str:
    """If many steps have no facts, warn that chances assume a step with facts; returns the text."""
    share = share_recorded(facts)
    if share >= MOST or np.isin(np.array(steps), facts.t).all():
        return ""
    unit = facts.clock.unit
    text = (
        f"{share:.0%} of the last {unit}s hold facts. The chance of a {unit} is the chance if it holds facts. "
        f"--by (in Python by=) asks for at least one time until a {unit}, whether it holds facts or not."
    )
    logger.warning(text)
    return text


def warn_trained(dataset: Dataset, facts: Quadruples) -> str:
    """Warn how many of the ``facts`` to evaluate may have been training data; returns the text."""
    held_back = [part.t.min() for part in (dataset.valid, dataset.test) if len(part)]
    seen = int((facts.t < min(held_back)).sum()) if held_back else 0
    if not seen:
        return ""
    text = (
        f"{seen:,} of the {len(facts):,} facts lie before the validation part: it may have been trained on them, "
        f'and the figures say little. evaluate("test") takes what was held back.'
    )
    logger.warning(text)
    return text

"""How soon new facts are usable: time to observe a few, time of the first forecast after that, and of later ones."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle

import numpy as np
import torch

from experiments.bench.form import Measured, Stopwatch, Times, logger, peak_memory
from experiments.bench.material import WORLD, read_set
from tangokg.forecast import Forecaster
from tangokg.forecast.chances import Chances, fit_chances
from tangokg.models import Model
from tangokg.quads.values import Dataset, Ids, Quadruples
from tangokg.snapshots.timeline import build_timeline
from tangokg.train import build_model, make_config

FITTED = 20_000  # facts before validation that chances are fitted on, and as many of validation
PARTS = {"observe": "new facts taken in", "first": "the first forecast after them", "further": "a further forecast"}


def measure(
    *,
    data: str = WORLD,
    model: str = "tango",
    settings: tuple[str, ...] = (),
    new: int = 10,
    repeats: int = 15,
    device: torch.device,
) -> Measured:
    """Seconds to observe ``new`` facts, and to forecast then; the model has its first weights.

    Each question (s, r, ?) is about another subject of the last known facts. What is sorted once, when a run is loaded
    and asked for the first time, is measured apart.
    """
    forecaster = untrained(data, model, settings, device)
    dataset = forecaster.dataset
    facts, watch = dataset.facts, Stopwatch(device)
    rows = np.random.default_rng(0).permutation(np.flatnonzero(facts.t == facts.t.max()))
    entities, relations = facts.vocab.entities, facts.vocab.relations
    questions = cycle([(entities[facts.s[i]], relations[facts.r[i]]) for i in rows])
    with peak_memory(device) as peak:
        watch.look()
        forecaster.forecast(*next(questions))
        watch.look("loaded")
        for done in range(repeats):
            events = _draw(facts, new, done)
            watch.look()
            forecaster.observe(events)
            watch.look("observe")
            for part in ("first", "further"):
                forecaster.forecast(*next(questions))
                watch.look(part)
    times = {part: Times.of(seconds) for part, seconds in watch.times.items()}
    shown = [{"what": text} | times[part].to_dict() for part, text in PARTS.items()]
    figures = {f"{part}_seconds": seconds.median for part, seconds in times.items()} | {"peak_bytes": peak.bytes}
    return Measured(figures, shown, {"data": dataset.name, "facts": len(facts)})


def untrained(data: str, model: str, settings: tuple[str, ...], device: torch.device) -> Forecaster:
    """A model with its first weights, which knows all facts of a set; asking it takes as long as a trained one."""
    logger.info(f"{data}: setting up")
    dataset, config = read_set(data), make_config(model, assignments=[*settings, f"device={device.type}"])
    train = build_timeline(dataset.past)
    scorer = build_model(config, train)
    scorer.settle(train)
    return Forecaster(scorer.to(device), dataset, config, chances=_few_chances(scorer, dataset, device))


def _few_chances(model: Model, dataset: Dataset, device: torch.device) -> Chances:
    """Chances fitted on few facts: what they say is of no interest here, and asking them takes as long."""
    nothing = dataset.test.select(slice(0))
    past, valid = dataset.past.select(slice(-FITTED, None)), dataset.valid.select(slice(FITTED))
    return fit_chances(model, Dataset(past, valid, nothing), device)


def _draw(facts: Quadruples, new: int, later: int) -> Quadruples:
    """Facts whose parts are those of any known ones, one step after the other beyond the last."""
    s, r, o = np.random.default_rng(later + 1).integers(len(facts), size=(3, new))
    t: Ids = np.full(new, facts.t.max() + 1 + later)
    return replace(facts, s=facts.s[s], r=facts.r[r], o=facts.o[o], t=t, exact=None)

"""The built-in world, grown: many regions side by side, each a world of its own, that report in turns."""

from __future__ import annotations

import math

import numpy as np

from tangokg.quads.clock import Clock
from tangokg.quads.splits import split
from tangokg.quads.values import Dataset, Quadruples
from tangokg.quads.vocabulary import Vocabulary
from tangokg.quads.world import RELATIONS, make_world

ACTORS = 275  # of a region at most, newcomers included
NEWCOMERS = 11  # one of so many actors is a newcomer
FACTS = 0.13  # of an actor and day; a little fewer than on average, so that there are enough
LEAST_DAYS = 60  # of a world
SEEDS = 4  # worlds that are simulated; further regions repeat them with other actors


def grow_world(entities: int, facts: int, at_once: int, seed: int = 0) -> Dataset:
    """``facts`` facts among ``entities`` entities, about ``at_once`` at each time; parts of 80, 10 and 10 %.

    A day is divided into turns, in each of which some regions report. Where the regions have more facts than are asked
    for, a share of them is drawn.
    """
    rng = np.random.default_rng(seed)
    actors = min(ACTORS, entities)
    regions, newcomers = entities // actors, actors // NEWCOMERS
    days = max(LEAST_DAYS, math.ceil(facts / regions / actors / FACTS))
    worlds = [make_world(seed + i, actors - newcomers, newcomers, days).facts for i in range(min(regions, SEEDS))]
    turns = min(regions, max(1, round(facts / days / at_once)))
    parts = [
        np.stack([w.s + actors * i, w.r, w.o + actors * i, w.t * turns + i // SEEDS % turns])
        for i, w in ((i, worlds[i % len(worlds)]) for i in range(regions))
    ]
    columns = np.concatenate(parts, axis=1)
    columns = columns[:, np.argsort(columns[3], kind="stable")]
    if columns.shape[1] > facts:
        columns = columns[:, np.sort(rng.choice(columns.shape[1], facts, replace=False))]
    s, r, o, t = columns.copy()
    vocab = Vocabulary(tuple(f"actor {i}" for i in range(entities)), RELATIONS)
    return split(Quadruples(s, r, o, t, vocab, Clock("step")), name=f"world of {entities:,}")

"""In the built-in world, whose true chances are known, what is said of a fact is nearly as good, and rightly said.

The seeds were drawn after everything was chosen. ``pytest -m slow -rP`` on this file prints the figures of the docs.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from tangokg.forecast import Forecaster, fit
from tangokg.forecast.calibrating import ask_recent, calibrate
from tangokg.forecast.chances import candidates
from tangokg.models.oracle import Oracle
from tangokg.quads.world import World, make_world
from tangokg.rank.calibration import Calibration, join
from tangokg.snapshots.timeline import build_timeline
from tangokg.snapshots.windows import Queries, Windows

POOLS = {365: range(201, 213), 1095: range(201, 207)}  # days: seeds; in one world the oracle is off by 1 to 2 points


def measured(world: World) -> tuple[dict[str, Calibration], dict[str, Calibration]]:
    """What the forecaster and what the oracle says about the same pairs and facts."""
    forecaster: Forecaster = fit(world.dataset, "recurrency")
    timeline = build_timeline(forecaster.facts)
    target = torch.searchsorted(timeline.t, torch.from_numpy(np.unique(world.dataset.test.t)).double())
    asked = ask_recent(timeline, forecaster.chances, target, 30)
    found = calibrate(forecaster.model, forecaster.chances, timeline, timeline, asked)
    o = candidates(forecaster.model, timeline, timeline, forecaster.hazard, asked).o.view(len(asked), -1)
    oracle, labels = Oracle(world), 2 * timeline.num_relations
    encoded = oracle.encode(timeline, Windows(asked.known, timeline.t[asked.begin]))
    pairs, facts = [], []
    for rows in torch.arange(len(asked)).split(2000):
        p = oracle.score(encoded, Queries(rows, asked.pair[rows] // labels, asked.pair[rows] % labels, rows))
        pairs.append(-torch.expm1(torch.log1p(-p.clamp(max=1 - 1e-12)).sum(1)))
        facts.append(p.gather(1, o[rows]).flatten())
    true = {"pair": torch.cat(pairs).numpy(), "fact": torch.cat(facts).numpy()}
    return found, {kind: Calibration(p, found[kind].happened, found[kind].base) for kind, p in true.items()}


@pytest.mark.slow
def test_a_few_long_gaps_in_validation_do_not_spoil_a_calibration() -> None:
    """In this world a slope over the length of the gap, fitted on 19 steps, made errors of 8 points."""
    found, _ = measured(make_world(106))
    assert found["pair"].error() < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("days", POOLS)
def test_yes_and_no_are_half_as_good_as_the_truth_and_calibrated(days: int) -> None:
    worlds = [measured(make_world(seed, num_days=days)) for seed in POOLS[days]]
    found = {kind: join([own[kind] for own, _ in worlds]) for kind in worlds[0][0]}
    oracle = {kind: join([true[kind] for _, true in worlds]) for kind in worlds[0][1]}
    for who, kinds in (("ours", found), ("oracle", oracle)):
        for kind, one in kinds.items():
            figures = [f"{name} {x:.4f}" for name, x in one.to_dict().items() if name != "bins"]
            sys.stdout.write(f"{who}, {kind}: {', '.join(figures)}\n")
    for kind, true in oracle.items():
        assert true.error() < 0.01, "too few answers to judge by"
        assert found[kind].skill > 0.5 * true.skill, kind
        assert found[kind].skill < true.skill, "nobody beats the oracle"
    for kind, one in found.items():
        assert one.error() < 0.02, (kind, one.bins())

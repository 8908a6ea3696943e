"""In the built-in world, whose true chances are known, what is said of a fact is nearly as good, and rightly said.

The seeds were drawn after everything was chosen. ``pytest -m slow -rP`` on this file prints the figures of the docs.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from tangokg.forecast import Forecaster, fit
from tangokg.forecast.calibrating import ask_recent, calibrate
from tangokg.forecast.chances import candidates
from tangokg.history.given import fact_numbers
from tangokg.history.hazard_queries import ask_spans
from tangokg.history.series import pasts_of, tell
from tangokg.models.oracle import Oracle
from tangokg.quads.world import World, make_world
from tangokg.rank.calibration import Calibration
from tangokg.snapshots.timeline import build_timeline
from tangokg.snapshots.windows import Queries, Windows

POOLS = {365: range(201, 213), 1095: range(201, 207)}  # days: seeds; in one world the oracle is off by 1 to 2 points


def join(parts: list[Calibration]) -> Calibration:
    """Several as one."""
    return Calibration(*(np.concatenate([getattr(part, c) for part in parts]) for c in ("p", "happened", "base")))


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
    for kind in ("pair", "fact", "share"):  # raw is the share before it is calibrated
        one = found[kind]
        assert one.error() < 0.02, (kind, one.bins())


def until(world: World, gaps: int) -> Calibration:
    """What is said of facts until a date, ``gaps`` usual gaps after each day of the test part."""
    forecaster = fit(world.dataset, "recurrency", verbose=False)
    timeline, chances = build_timeline(forecaster.facts), forecaster.chances
    pasts = pasts_of(timeline, chances.hazard.gap)
    known = torch.searchsorted(timeline.t, torch.from_numpy(np.unique(world.dataset.test.t)).double())
    asked = ask_spans(timeline, pasts, known, torch.full_like(known, gaps), len(timeline))
    asked = asked.select(asked.pair % (2 * timeline.num_relations) < timeline.num_relations)
    next_step = replace(asked, t=pasts.times[asked.known - 1] + 1.0)
    of = candidates(forecaster.model, timeline, timeline, chances.hazard, next_step)
    begin, end, t = (x.repeat_interleave(len(of) // len(asked)) for x in (asked.begin, asked.end, asked.t))
    p = chances.by(timeline, of, chances.share(timeline, of), t * chances.hazard.gap).numpy()
    happened = pasts.fact.within(fact_numbers(timeline, of.pair, of.o), begin, end).numpy()
    seen = tell(pasts.fact, fact_numbers(timeline, of.pair, of.o), of.known, t, ()).count
    return Calibration(p, happened, 1 - (1 - (seen / of.known).numpy()) ** gaps)


@pytest.mark.slow
@pytest.mark.parametrize("gaps", [7, 14])
def test_yes_and_no_until_a_date_are_calibrated(gaps: int) -> None:
    found = join([until(make_world(seed), gaps) for seed in range(401, 407)])
    sys.stdout.write(f"until {gaps} gaps: skill {found.skill:.4f}, error {found.error():.4f}\n")
    assert found.skill > 0.6
    assert found.error() < 0.03, found.bins()

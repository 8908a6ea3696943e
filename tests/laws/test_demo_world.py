"""What the built-in world must show, with the preset of the demo: TANGO lies between the counters and the oracle."""

from __future__ import annotations

import pytest

from tangokg.forecast import fit
from tangokg.forecast.demo import compare_on_world, demo_config
from tangokg.quads.world import make_world


@pytest.mark.slow
def test_tango_lies_between_counters_and_oracle_and_knows_newcomers_better_than_frequency() -> None:
    world = make_world(0)
    tango = fit(world.dataset, demo_config(0))
    rows = {row["model"]: row for row in compare_on_world(world, tango)}
    oracle = rows.pop("oracle")
    found = rows.pop("tango")
    assert all(row["mrr"] < found["mrr"] < oracle["mrr"] for row in rows.values())
    assert rows["frequency"]["newcomers_mrr"] < found["newcomers_mrr"] < oracle["newcomers_mrr"]

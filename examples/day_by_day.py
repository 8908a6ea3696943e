"""Keep a forecaster up to date without training it again: each evening ask for the next day, then observe that day."""

from __future__ import annotations

import numpy as np

import tangokg as tk
from tangokg.quads.world import make_world


def main() -> None:
    world = make_world(num_actors=60, num_newcomers=6, num_days=150).dataset
    before, later = world.train, world.test  # what lies between is for choosing the weights
    data = tk.Dataset(before, world.valid, later.select(slice(0)), name="world so far")
    forecaster = tk.fit(data, "tango-distmult", dim=16, layers=1, epochs=3, learning_rate=0.01)
    names, relations = later.vocab.entities, later.vocab.relations
    right = asked = 0
    for t in np.unique(later.t)[:5]:
        today = later.select(later.t == t)
        for s, r, o in zip(today.s[:20], today.r[:20], today.o[:20], strict=True):
            answer = forecaster.forecast(names[s], relations[r], at=int(t), top=3)
            right += names[o] in [candidate.name for candidate in answer.answers]
            asked += 1
        added = forecaster.observe(today)
        print(
            f"{today.clock.format(float(t))}: {right} of {asked} answers among the first three; {added} facts observed"
        )


if __name__ == "__main__":
    main()

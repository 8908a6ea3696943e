"""A model of your own under the same protocol as all others: what was seen, and who is popular where nothing was."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tangokg.models import MODELS, Model
from tangokg.quads.world import make_world
from tangokg.rank import evaluate
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import Queries, Windows


class SeenThenPopular(Model):
    """Frequency of (s, r, o), and a little for every object as often as it was one at all."""

    def __init__(self, frequency: Model) -> None:
        super().__init__()
        self.frequency = frequency

    def encode(self, timeline: Timeline, windows: Windows) -> tuple[Any, Tensor]:
        known = timeline.offset.index_select(0, windows.known).tolist()  # edges that each window may look at
        popular = torch.stack([torch.bincount(timeline.o[:end], minlength=timeline.num_entities) for end in known])
        return self.frequency.encode(timeline, windows), popular / popular.sum(1, keepdim=True)  # (W, N)

    def score(self, encoded: tuple[Any, Tensor], queries: Queries) -> Tensor:
        counted, popular = encoded
        return self.frequency.score(counted, queries) + popular.index_select(0, queries.window)  # (B, N)


def main() -> None:
    data = make_world(num_actors=60, num_newcomers=6, num_days=150).dataset
    timeline = build_timeline(data.facts)
    target = torch.arange(timeline.before(float(data.test.t.min())), len(timeline))  # the snapshots of the test part
    train, generator = build_timeline(data.train), torch.Generator().manual_seed(0)
    models = {
        name: recipe.build(recipe.settings, train, generator)
        for name, recipe in MODELS.items()
        if not name.startswith("tango")
    }
    models["seen, then popular"] = SeenThenPopular(models["frequency"])
    for name, model in models.items():
        figures = evaluate(model, timeline, target)["time-aware"]
        print(f"{name:20} MRR {figures.mrr:5.2f}   Hits@10 {figures.hits[10]:5.2f}   of {figures.queries} queries")


if __name__ == "__main__":
    main()

"""What the order of the training facts is worth to a static model: test and validation MRR, time-aware.

python -m experiments.studies.static_order WIKI

DistMult is trained for one epoch; from there for one more with the facts shuffled, and for one with the facts by time.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor

from tangokg.models import MODELS
from tangokg.quads import find
from tangokg.rank import evaluate
from tangokg.snapshots.timeline import build_timeline
from tangokg.snapshots.windows import Queries, windows_at
from tangokg.train import fit, make_config

SIZE, RATE = 1024, 0.001  # questions a step and learning rate of the second epoch


def main(name: str) -> None:
    data = find(name)
    train, timeline = build_timeline(data.train), build_timeline(data.facts)
    begins = [timeline.before(float(part.t.min())) for part in (data.valid, data.test)]
    parts = {"valid": torch.arange(*begins), "test": torch.arange(begins[1], len(timeline))}
    tables = {"model": "distmult", "train": {"epochs": 1, "device": "cpu"}}
    first, progress = fit(data, make_config(tables=tables, seed=0, where=name))
    print(name, "first epoch, validation", round(progress.log[-1]["valid_mrr"], 2), flush=True)
    generator = torch.Generator().manual_seed(1)
    by_time = torch.arange(len(train.s))
    for order, at in {"shuffled": torch.randperm(len(by_time), generator=generator), "by time": by_time}.items():
        model = MODELS["distmult"].build(MODELS["distmult"].settings, train, torch.Generator())
        model.load_state_dict(first.state_dict())
        optimizer = torch.optim.Adam(model.train().parameters(), lr=RATE)
        for facts_of_step in at.split(SIZE):
            window = torch.zeros_like(facts_of_step)
            queries = Queries(window, *(column[facts_of_step] for column in (train.s, train.r, train.o)))
            loss: Tensor = model(train, windows_at(train, torch.tensor([1])), queries, generator)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        metrics = {part: evaluate(model, timeline, target)["time-aware"] for part, target in parts.items()}
        print(name, order, {part: round(summary.mrr, 2) for part, summary in metrics.items()}, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

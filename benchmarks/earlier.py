"""A preset one part earlier: trained on less, chosen on the end of the training part, asked about the validation part.

python benchmarks/earlier.py paper-distmult/YAGO earlier.jsonl
python benchmarks/earlier.py paper-distmult/YAGO earlier.jsonl normalise=false step_time=0.1 batch_windows=2

For choosing between forms where the test part has been seen already: it takes no part in this. Each call appends a line
to the file: what was changed, validation MRR of each epoch, and MRR (time-aware) of each later time.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from tangokg.quads import Dataset, find
from tangokg.quads.values import concatenate
from tangokg.rank import examine, prepare
from tangokg.reproduce import experiments
from tangokg.snapshots.timeline import build_timeline
from tangokg.train import fit, make_config
from tangokg.train.devices import choose_device


def one_part_earlier(data: Dataset) -> Dataset:
    """The validation part becomes the test part, as many times at the end of training become the validation part."""
    times = np.unique(data.train.t)
    first = times[-len(np.unique(data.valid.t))]
    before = data.train.t < first
    parts = {"train": data.train.select(before), "valid": data.train.select(~before), "test": data.valid}
    return replace(data, **parts, name=f"{data.name}-earlier")


def main(name: str, out: str, *changed: str) -> None:
    experiment, device = experiments()[name], choose_device("auto")
    data = one_part_earlier(find(experiment.source))
    settings, train = dict(experiment.settings), dict(experiment.train) | {"device": device.type}
    for item in changed:
        key, value = item.split("=")
        (train if key in train or key == "epochs" else settings)[key] = json.loads(value)
    tables = {"model": experiment.model, "settings": settings, "train": train}
    model, progress = fit(data, make_config(tables=tables, seed=0, where=name))
    model = model.to(device)
    timeline = build_timeline(concatenate([data.past, data.valid, data.test])).to(device)
    later = range(len(timeline) - len(np.unique(data.test.t)), len(timeline))
    each, every = [torch.tensor([i]) for i in later], torch.tensor(list(later))
    found = {
        "preset": name,
        "changed": list(changed),
        "valid": [round(row["valid_mrr"], 2) for row in progress.log],
        "later": [round(examine(model, prepare(timeline, one))["time-aware"].mrr, 2) for one in each],
        "later, all": round(examine(model, prepare(timeline, every))["time-aware"].mrr, 2),
    }
    print(json.dumps(found))
    with Path(out).open("a", encoding="utf-8") as file:
        file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

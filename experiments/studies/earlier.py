"""A preset one part earlier: trained on less, chosen on the end of the training part, asked about the validation part.

python -m experiments.studies.earlier paper-distmult/YAGO earlier.jsonl
python -m experiments.studies.earlier paper-distmult/YAGO earlier.jsonl normalise=false step_time=0.1 batch_windows=2

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

from experiments.experiment import experiments, open_dataset
from tangokg.quads import Dataset
from tangokg.quads.values import concatenate
from tangokg.rank import examine, prepare
from tangokg.snapshots.timeline import build_timeline
from tangokg.train import choose_device, fit


def one_part_earlier(data: Dataset) -> Dataset:
    """The validation part becomes the test part, as many times at the end of training become the validation part."""
    times = np.unique(data.train.t)
    first = times[-len(np.unique(data.valid.t))]
    before = data.train.t < first
    earlier, later = data.train.select(before), data.train.select(~before)
    return replace(data, train=earlier, valid=later, test=data.valid, name=f"{data.name}-earlier")


def main(name: str, out: str, *changed: str) -> None:
    experiment, device = experiments()[name], choose_device("auto")
    data = one_part_earlier(open_dataset(experiment.data))
    model, progress = fit(data, experiment.config(0, [*changed, f"device={device.type}"]))
    model = model.to(device)
    timeline = build_timeline(concatenate([data.past, data.valid, data.test])).to(device)
    later = range(len(timeline) - len(np.unique(data.test.t)), len(timeline))
    each, every = [torch.tensor([i]) for i in later], torch.tensor(list(later))
    result = {
        "preset": name,
        "changed": list(changed),
        "valid": [round(row["valid_mrr"], 2) for row in progress.log],
        "later": [round(examine(model, prepare(timeline, one))["time-aware"].mrr, 2) for one in each],
        "later, all": round(examine(model, prepare(timeline, every))["time-aware"].mrr, 2),
    }
    print(json.dumps(result))
    with Path(out).open("a", encoding="utf-8") as file:
        file.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

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

from experiments.experiment import experiments, open_dataset
from tangokg.forecast import fit
from tangokg.quads import Dataset


def one_part_earlier(data: Dataset) -> Dataset:
    """The validation part becomes the test part, as many times at the end of training become the validation part."""
    times = np.unique(data.train.t)
    first = times[-len(np.unique(data.valid.t))]
    before = data.train.t < first
    earlier, later = data.train.select(before), data.train.select(~before)
    return replace(data, train=earlier, valid=later, test=data.valid, name=f"{data.name}-earlier")


def main(name: str, out: str, *changed: str) -> None:
    experiment = experiments()[name]
    forecaster = fit(one_part_earlier(open_dataset(experiment.data)), experiment.config(0, changed), verbose=False)
    metrics = forecaster.evaluate()
    result = {
        "preset": name,
        "changed": list(changed),
        "valid": [round(row["valid_mrr"], 2) for row in forecaster.progress.log],
        "later": [round(summary.mrr, 2) for summary in metrics.by_time("time-aware").values()],
        "later, all": round(metrics["time-aware"].mrr, 2),
    }
    print(json.dumps(result))
    with Path(out).open("a", encoding="utf-8") as file:
        file.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

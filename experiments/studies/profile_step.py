"""Which kernels (on a CPU: operations) a training step runs, how often and for how long: the mean over a few steps.

python -m experiments.studies.profile_step WIKI tango-distmult profile.json batch_windows=1 precision=tf32

After the name of the file come settings, as --set has them. An epoch goes before, so that captures are there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.profiler import ProfilerActivity, profile

from experiments.bench.epochs import Epochs
from tangokg.quads import find
from tangokg.train import make_config, resolve
from tangokg.train.devices import name_of
from tangokg.train.provenance import commit

STEPS = 5
SHOWN = 22


def main(data: str, model: str, out: str, *settings: str) -> None:
    dataset = find(data)
    config = resolve(make_config(model, assignments=settings), dataset)
    run = Epochs(dataset, config)
    for _ in range(2):
        run.seconds(run.draw())
    on_gpu = run.device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=activities) as profiled:
        run.seconds(run.draw(STEPS * config.train.batch_windows))
    kind = DeviceType.CUDA if on_gpu else DeviceType.CPU
    events = [event for event in profiled.key_averages() if event.device_type == kind]
    spent = {e.key: (e.self_device_time_total if on_gpu else e.self_cpu_time_total) / 1e3 / STEPS for e in events}
    slowest = sorted(events, key=lambda event: -spent[event.key])[:SHOWN]
    kernels = [{"name": e.key[:90], "ms": round(spent[e.key], 3), "count": e.count / STEPS} for e in slowest]
    total = round(sum(spent.values()), 3)
    about = {"data": data, "model": model, "settings": settings, "device": name_of(run.device), "commit": commit()}
    result = about | {"kernel_ms": total, "kernels": kernels}
    Path(out).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"{total} ms a step; {out} has the {len(kernels)} that take the longest")


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])

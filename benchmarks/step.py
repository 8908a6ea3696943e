"""What a training step costs beside its floor: the decoder, the scores and the cross-entropy alone, in the same run.

python benchmarks/step.py ICEWS18 --model tango-tucker --batch-windows 2 --steps 6

Times are means over the steps after the first, in milliseconds; the last lines give the ratio of step and floor, and
what an epoch takes at that pace. With --out they are written as JSON with versions and device.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections import defaultdict
from pathlib import Path

import torch

from tangokg.decode import States
from tangokg.models.tango import Tango
from tangokg.quads import find
from tangokg.snapshots.blocks import build_block
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import Queries, Windows, queries_at, windows_at
from tangokg.train import build_model, choose_device, make_config
from tangokg.train.memory import keep_freed_memory


class Stopwatch:
    """Adds up what passes between two looks, the device's work included."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.total, self.last = device, defaultdict(float), self.now(device)

    @staticmethod
    def now(device: torch.device) -> float:
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def look(self, name: str | None = None) -> None:
        now = self.now(self.device)
        if name is not None:
            self.total[name] += now - self.last
        self.last = now


def floor(model: Tango, timeline: Timeline, queries: Queries, masks: torch.Generator) -> None:
    """Forward and backward of what no encoder can avoid: fresh subject states against untouched embeddings."""
    device = model.entities.device
    start = Windows(torch.zeros(1, dtype=torch.int64, device=device), timeline.t[:1])
    base, relations = (table.detach().requires_grad_() for table in (model.entities, model.relations))
    states = States(base, base.new_ones(1), base[:0], build_block(timeline, start, 1))
    subjects = torch.randn(len(queries), model.settings.dim, device=device).requires_grad_()
    query = model.decoder(subjects, relations, queries.r, masks)
    states.cross_entropy(query, torch.zeros_like(queries.window), queries.answer).backward()


def measure(name: str, model_name: str, batch_windows: int, steps: int, device: torch.device, sets: list[str]) -> dict:
    """Mean milliseconds of each part of a step."""
    keep_freed_memory()
    own = build_timeline(find(name).train)
    model = build_model(make_config(model_name, assignments=sets), own).to(device).train()
    timeline = own.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    masks = torch.Generator(device).manual_seed(0)
    order = torch.randperm(len(own) - 1, generator=torch.Generator().manual_seed(0)) + 1
    watch = Stopwatch(device)
    for number, target in enumerate(order.split(batch_windows)[: steps + 1]):
        if number == 1:
            watch.total.clear()  # the first step warms up
        target = target.to(device)
        windows, queries = windows_at(timeline, target), queries_at(timeline, target)
        watch.look()
        encoded = model.encode(timeline, windows, masks)
        watch.look("encode")
        query, states = model._ask(encoded, queries, masks)
        sparse = model.sparse_logits(encoded, queries)
        loss = states.cross_entropy(query, queries.window, queries.answer, sparse)
        watch.look("decode and loss")
        optimizer.zero_grad()
        loss.backward()
        watch.look("backward")
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        watch.look("optimiser")
        floor(model, timeline, queries, masks)
        watch.look("floor")
    done = min(steps, len(order.split(batch_windows)) - 1)
    found = {part: 1e3 * seconds / done for part, seconds in watch.total.items()}
    step = sum(ms for part, ms in found.items() if part != "floor")
    return found | {
        "step": step,
        "ratio": step / found["floor"],
        "epoch_seconds": step * len(order) / batch_windows / 1e3,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--model", default="tango-tucker")
    parser.add_argument("--batch-windows", type=int, default=2)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--set", action="append", default=[], help="a setting of the model, as in tango train")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    device = choose_device(asked.device)
    found = measure(asked.data, asked.model, asked.batch_windows, asked.steps, device, asked.set)
    for part, value in found.items():
        print(f"{part:16s} {value:10.3f}")
    if asked.out is not None:
        chip = (
            torch.cuda.get_device_name() if device.type == "cuda" else f"{os.cpu_count()} cores, {platform.machine()}"
        )
        about = {
            "benchmark": "step",
            "asked": {"data": asked.data, "model": asked.model, "batch_windows": asked.batch_windows, "set": asked.set},
            "milliseconds": {k: v for k, v in found.items() if k not in ("ratio", "epoch_seconds")},
            "ratio": found["ratio"],
            "epoch_seconds": found["epoch_seconds"],
            "device": chip,
            "threads": torch.get_num_threads(),
            "versions": {"python": platform.python_version(), "torch": torch.__version__},
        }
        asked.out.write_text(json.dumps(about, indent=2) + "\n")


if __name__ == "__main__":
    main()

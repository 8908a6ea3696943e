"""Train configs of ``experiments/``, several side by side, and write a result for each with every figure of the tables.

python experiments/run.py flagship/WIKI.toml flagship/YAGO.toml --seeds 0 1 2 --workers 4 --budget 480 --out results
python experiments/run.py flagship/ICEWS14s.toml --valid --set ode=false --out ablation     # validation alone
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from tangokg.config import read_toml
from tangokg.errors import DataError
from tangokg.forecast import Forecaster, as_dataset, results
from tangokg.models import Model
from tangokg.quads.values import concatenate
from tangokg.rank import Metrics, examine, horizon, inductive, multi_step, prepare
from tangokg.rank.strata import strata
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import Queries, Windows
from tangokg.train import load_config, resolve
from tangokg.train.checkpoint import Progress
from tangokg.train.devices import choose_device
from tangokg.train.loop import fit
from tangokg.train.material import build_model

HERE = Path(__file__).parent
HORIZONS = range(1, 9)


class Mean(Model):
    """Several trained models: the logarithm of the mean of their shares."""

    def __init__(self, members: list[Model]) -> None:
        super().__init__()
        self.members = torch.nn.ModuleList(members)

    def encode(self, timeline: Timeline, windows: Windows) -> list[Any]:
        return [member.encode(timeline, windows) for member in self.members]

    def score(self, encoded: list[Any], queries: Queries) -> torch.Tensor:
        of_each = zip(self.members, encoded, strict=True)
        shares = [member.probabilities(member.score(own, queries)) for member, own in of_each]
        return torch.stack(shares).mean(0).log()


class Lines:
    """Prints a line for each epoch."""

    def __init__(self, name: str) -> None:
        self.name, self.began = name, time.monotonic()

    def step(self, *_: Any) -> None: ...

    def epoch(self, progress: Any, _: Any) -> None:
        row = progress.log[-1]
        seconds = time.monotonic() - self.began
        print(f"{self.name} epoch {progress.epoch} valid {row.get('valid_mrr', 0):.2f} {seconds:.0f} s", flush=True)


def figures(metrics: Metrics) -> dict[str, Any]:
    return metrics.to_dict() | {"queries": metrics.queries}


def by_stratum(forecaster: Forecaster, parts: list[Any]) -> dict[str, Any]:
    """Share and MRR of each stratum of the last part, the others known."""
    device = next(forecaster.model.parameters()).device
    timeline = build_timeline(concatenate(parts)).to(device)
    first = len(build_timeline(concatenate(parts[:-1])))
    exam = prepare(timeline, torch.arange(first, len(timeline)))
    reciprocal = 100 / examine(forecaster.model, exam).ranks["time-aware"].realistic
    masks = {name: mask.to(reciprocal.device) for name, mask in strata(exam).items()}
    return {
        name: {"share": 100 * float(mask.double().mean()), "mrr": float(reciprocal[mask].mean())}
        for name, mask in masks.items()
    }


def measure_mean(path: Path, dataset: str, seeds: list[int], settings: list[str], weights: Path, out: Path) -> None:
    """Measure the mean of the trained seeds."""
    data, config = as_dataset(dataset), load_config(path, assignments=settings)
    members = []
    for seed in seeds:
        model = build_model(resolve(replace(config, seed=seed), data), build_timeline(data.train))
        model.load_state_dict(torch.load(weights / f"{path.stem}-{seed}.pt"))
        members.append(model.to(choose_device(config.train.device)))
    mean = Forecaster(Mean(members), data, resolve(config, data), Progress())
    parts = {"valid": [data.past, data.valid], "test": [data.past, data.valid, data.test]}
    result = {name: figures(mean.evaluate(some[-1])) for name, some in parts.items()}
    result |= {"dataset": dataset, "seeds": seeds, "strata": {n: by_stratum(mean, some) for n, some in parts.items()}}
    (out / f"{path.stem}-{data.name}-mean.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def run(
    path: Path, dataset: str, seed: int, settings: list[str], parts: set[str], out: Path, weights: Path | None
) -> None:
    """Train one config, measure it, and write its result after each protocol, so that a stop loses little."""
    data, config = as_dataset(dataset), replace(load_config(path, assignments=settings), seed=seed)
    model, progress = fit(data, config, reporter=Lines(f"{path.stem}-{dataset}-{seed}"))
    forecaster = Forecaster(model, data, resolve(config, data), progress)
    file = out / f"{path.stem}-{data.name}-{seed}.json"
    if weights is not None:
        torch.save(model.state_dict(), weights / f"{path.stem}-{seed}.pt")

    def keep(result: dict[str, Any]) -> None:
        file.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")

    told = {"dataset": dataset, "seed": seed, "config": forecaster.config.to_tables(), "log": progress.log}
    valid = by_stratum(forecaster, [data.past, data.valid])
    if "horizons" in parts:
        ahead = {str(h): figures(forecaster.evaluate(data.valid, protocol=horizon(h))) for h in HORIZONS}
        told |= {"valid_horizon": ahead}
    if "valid" in parts:
        keep(told | {"valid": figures(forecaster.evaluate(data.valid)), "strata": {"valid": valid}})
        return
    test = by_stratum(forecaster, [data.past, data.valid, data.test])
    result = told | results(forecaster) | {"strata": {"valid": valid, "test": test}, "protocols": {}}
    keep(result)
    since = multi_step(float(data.test.t.min()))
    protocols = {"inductive": inductive(forecaster.seen), "multi-step": since}
    for name, protocol in protocols.items():
        with suppress(DataError):  # a set may have no query with an unseen entity
            result["protocols"][name] = figures(forecaster.evaluate(protocol=protocol))
        keep(result)
    result["reliability"] = {kind: one.to_dict() for kind, one in forecaster.calibration().items()}
    keep(result)
    result["protocols"]["horizon"] = {str(h): figures(forecaster.evaluate(protocol=horizon(h))) for h in HORIZONS}
    keep(result)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="+", help="config files, below experiments/ or anywhere")
    parser.add_argument("--data", help="the data set, if it is not named like the config")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE")
    parser.add_argument("--valid", action="store_true", help="measure the validation part alone")
    parser.add_argument("--horizons", action="store_true", help="measure the validation part up to 8 steps ahead")
    parser.add_argument("--workers", type=int, default=1, help="runs side by side")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds, after which all runs are ended")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--mean", action="store_true", help="measure the mean of the seeds too")
    parser.add_argument("--weights", type=Path, help="a folder that keeps the weights")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    weights = given.weights or (given.out / "weights" if given.mean else None)
    if weights is not None:
        weights.mkdir(parents=True, exist_ok=True)
    paths = [path if (path := Path(name)).exists() else HERE / name for name in given.configs]
    for path in paths:
        read_toml(path)  # a clear error before anything starts
    parts = {name for name in ("valid", "horizons") if getattr(given, name)}
    jobs = [(path, seed) for seed in given.seeds for path in paths]
    if len(jobs) == 1:
        run(paths[0], given.data or paths[0].stem, given.seeds[0], given.set, parts, given.out, weights)
        return
    began, live = time.monotonic(), []
    while jobs or live:
        while jobs and len(live) < given.workers:
            path, seed = jobs.pop(0)
            options = ["--seeds", str(seed), "--out", str(given.out), *(f"--{part}" for part in parts)]
            options += ["--set", *given.set] if given.set else []
            options += ["--data", given.data] if given.data else []
            options += ["--weights", str(weights)] if weights is not None else []
            live.append(subprocess.Popen([sys.executable, __file__, str(path), *options]))
        live = [process for process in live if process.poll() is None]
        if time.monotonic() - began > given.budget:
            for process in live:
                process.kill()
            print(f"out of time; not started: {[f'{path.stem}-{seed}' for path, seed in jobs]}")
            return
        time.sleep(0.5)
    if given.mean:
        for path in paths:
            measure_mean(path, given.data or path.stem, given.seeds, given.set, weights, given.out)


if __name__ == "__main__":
    main()

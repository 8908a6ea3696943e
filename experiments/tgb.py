"""TGB 2.0: models trained and measured on its temporal knowledge graphs, several seeds of each (docs/tgb.md)."""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from experiments.bench.shown import markdown
from experiments.runs import Lines
from experiments.store import read_json, write_file, write_result
from experiments.tgb_negatives import PARTS, convert
from tangokg.config import read_toml
from tangokg.errors import ConfigError
from tangokg.forecast import Forecaster, results
from tangokg.quads import Dataset, Quadruples, find
from tangokg.rank import CandidateLists, Metrics, read_candidates
from tangokg.train import RunConfig, choose_device, fit, load_config, make_config, resolve

SETS = ("tkgl-smallpedia", "tkgl-polecat", "tkgl-icews", "tkgl-wikidata")
LISTED = ("tkgl-wikidata",)  # whose answers are ranked among listed negatives
PUBLISHED = Path(__file__).with_name("tgb.toml")


def run(given: argparse.Namespace) -> int:
    """Make the runs that are missing, then print their figures beside the published ones."""
    folders = {name: place for name in given.sets or SETS if (place := find_set(given.folder, name))}
    if missing := [name for name in given.sets if name not in folders]:
        raise ConfigError(
            f"{given.folder}: no edge list of {missing[0]} found; expected {_expected(missing[0])} in it."
        )
    if not folders:
        raise ConfigError(f"{given.folder}: none of {', '.join(SETS)} found; expected {_expected(SETS[0])} in it.")
    if given.negatives:
        for name in folders:
            print(
                "\n".join(f"wrote {path}" for path in convert(folders[name], name))
                if name in LISTED
                else f"{name}: none"
            )
        return 0
    configs = [_config(model, given.set, given.device) for model in given.models]
    for name, folder in folders.items():
        make_runs(Benchmark.open(folder, name), configs, given.seeds, given.out)
    table = show_table(read_all(given.out), [*folders])
    write_file(given.out / "table.md", table + "\n")
    print(f"\n{table}\n\nresults in {given.out}")
    return 0


@dataclass(frozen=True, eq=False)
class Benchmark:
    """A set with the lists that its answers are ranked among, by part; none: all entities."""

    dataset: Dataset
    lists: dict[str, CandidateLists]

    @classmethod
    def open(cls, folder: Path, name: str) -> Benchmark:
        """The set in a folder; Parquet files of negatives beside its edge list are taken."""
        dataset = find(folder / f"{name}_edgelist.csv", format="tgb")
        paths = {part: folder / f"{name}_{part}_ns.parquet" for part in PARTS}
        if name in LISTED and not all(path.is_file() for path in paths.values()):
            raise ConfigError(
                f"{folder}: {name} ranks among listed negatives, and {paths['test'].name} is not there. Make it from "
                f"the released pickles: pip install py-tgb, then python -m experiments tgb {folder.parent} --negatives."
            )
        vocab, clock = dataset.vocab, dataset.clock
        lists = {part: read_candidates(path, vocab, clock) for part, path in paths.items() if path.is_file()}
        return cls(dataset, lists)

    def evaluate(self, forecaster: Forecaster, part: Quadruples) -> Metrics:
        """Validation or test part by the protocol of TGB."""
        name = "valid" if part is self.dataset.valid else "test"
        return forecaster.evaluate(part, "tgb", candidates=self.lists.get(name))


def find_set(folder: Path, name: str) -> Path | None:
    """The folder of a set: as py-tgb names it, by its own name, or the one that is given."""
    places = (folder / name.replace("-", "_"), folder / name, folder)
    return next((place for place in places if (place / f"{name}_edgelist.csv").is_file()), None)


def _expected(name: str) -> str:
    return f"{name.replace('-', '_')}/{name}_edgelist.csv"


def _config(model: str, assignments: Sequence[str], device: str) -> tuple[str, RunConfig]:
    """Name and settings of a model, or of a TOML file."""
    path = Path(model)
    named = load_config(path, None, assignments) if path.suffix == ".toml" else make_config(model, {}, assignments)
    return path.stem, replace(named, train=replace(named.train, device=choose_device(device).type))


def make_runs(benchmark: Benchmark, configs: Sequence[tuple[str, RunConfig]], seeds: Sequence[int], out: Path) -> None:
    """Train and measure each model with each seed, unless its result is there; a counter has one seed."""
    name = benchmark.dataset.name
    for model, config in configs:
        for seed in seeds:
            path = out / model / f"{name}-{seed}.json"
            resolved = resolve(replace(config, seed=seed), benchmark.dataset)
            if path.exists() and read_json(path)["config"] == resolved.to_tables():
                result = read_json(path)
            else:
                result = make_run(benchmark, resolved, f"{model} on {name}, seed {seed}", path)
            if not result["weights"]:
                print(f"{model} on {name}: it counts, and all seeds are the same", flush=True)
                break


def make_run(benchmark: Benchmark, config: RunConfig, label: str, path: Path) -> dict[str, Any]:
    """One run: trained from where an earlier call was stopped, measured, written."""
    settings = json.dumps(config.to_tables(), sort_keys=True)
    digest = hashlib.sha256(settings.encode()).hexdigest()[:12]
    checkpoint = path.with_name(f"{path.stem}-{digest}.safetensors")
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    model, progress = fit(benchmark.dataset, config, checkpoint, True, reporter=Lines(label))
    forecaster = Forecaster(model, benchmark.dataset, config, progress)
    result = results(forecaster, lambda part: benchmark.evaluate(forecaster, part))
    result |= {"weights": sum(weight.numel() for weight in model.parameters()), "log": progress.log}
    write_result(path, result)
    checkpoint.unlink(missing_ok=True)
    print(f"{label}: test MRR {result['test']['tgb']['mrr'] / 100:.3f}", flush=True)
    return result


def read_all(out: Path) -> dict[str, dict[str, list[float]]]:
    """Model -> set -> test MRR of each seed."""
    found: dict[str, dict[str, list[float]]] = {}
    for path in sorted(out.glob("*/*.json")):
        name = path.stem.rpartition("-")[0]
        mrr = read_json(path)["test"]["tgb"]["mrr"] / 100
        found.setdefault(path.parent.name, {}).setdefault(name, []).append(mrr)
    return found


def show_table(found: dict[str, dict[str, list[float]]], names: Sequence[str]) -> str:
    """Test MRR, mean and standard deviation over seeds, and that of the leaderboard."""
    rows = [(model, *(_mean(of.get(name, [])) for name in names)) for model, of in sorted(found.items())]
    return markdown(("test MRR", *names), rows + _published(names))


def show_leaderboard() -> str:
    """The published figures alone."""
    return markdown(("test MRR", *SETS), _published(SETS))


def _mean(values: Sequence[float]) -> str:
    if not values:
        return "–"
    spread = f" ± {statistics.stdev(values):.3f} ({len(values)} seeds)" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.3f}{spread}"


def _published(names: Sequence[str]) -> list[tuple[str, ...]]:
    systems = read_toml(PUBLISHED)["system"]
    return [
        (f"{one['name']} (leaderboard)", *(f"{one['mrr'][n]:.3f}" if n in one["mrr"] else "–" for n in names))
        for one in systems
    ]

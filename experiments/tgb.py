"""TGB 2.0: models trained and measured on its temporal knowledge graphs, several seeds of each (docs/tgb.md)."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.bench.shown import markdown
from experiments.runs import Lines, checkpoint_beside
from experiments.store import read_json, write_file, write_result
from experiments.tgb_negatives import PARTS, convert
from tangokg.config import read_toml
from tangokg.errors import ConfigError
from tangokg.forecast import Forecaster, results
from tangokg.quads import Dataset, Quadruples, find
from tangokg.rank import Metrics
from tangokg.train import RunConfig, choose_device, fit, load_config, make_config, resolve

SETS = ("tkgl-smallpedia", "tkgl-polecat", "tkgl-icews", "tkgl-wikidata")
LISTED = ("tkgl-wikidata",)  # whose answers are ranked among listed negatives
PUBLISHED = Path(__file__).with_name("tgb.toml")


def run(arguments: argparse.Namespace) -> int:
    """Execute the missing runs, then print their results next to the published ones."""
    folders = {name: place for name in arguments.sets or SETS if (place := find_set(arguments.folder, name))}
    missing = [name for name in arguments.sets or SETS if name not in folders]
    if missing and (arguments.sets or not folders):
        expected = f"{missing[0].replace('-', '_')}/{missing[0]}_edgelist.csv"
        raise ConfigError(f"{arguments.folder}: no edge list of {', '.join(missing)} found; expected {expected} in it.")
    if arguments.negatives:
        for name, folder in folders.items():
            paths = convert(folder, name) if name in LISTED else []
            print("\n".join(f"wrote {path}" for path in paths) or f"{name}: none")
        return 0
    configs = [_config(model, arguments.set, arguments.device) for model in arguments.models]
    for name, folder in folders.items():
        make_runs(find(folder / f"{name}_edgelist.csv", format="tgb"), find_lists(folder, name), configs, arguments)
    table = show_table(read_all(arguments.out), [*folders])
    write_file(arguments.out / "table.md", table + "\n")
    print(f"\n{table}\n\nresults in {arguments.out}")
    return 0


def find_set(folder: Path, name: str) -> Path | None:
    """The folder of a set: with py-tgb's name, with its own name, or the given folder itself."""
    places = (folder / name.replace("-", "_"), folder / name, folder)
    return next((place for place in places if (place / f"{name}_edgelist.csv").is_file()), None)


def find_lists(folder: Path, name: str) -> dict[str, Path]:
    """The negatives that the answers of each part are ranked among; none: all entities."""
    paths = {part: folder / f"{name}_{part}_ns.parquet" for part in PARTS}
    existing = {part: path for part, path in paths.items() if path.is_file()}
    if name in LISTED and existing != paths:
        raise ConfigError(
            f"{folder}: {name} ranks among listed negatives, and {paths['test'].name} is not there. Make it from "
            f"the released pickles: pip install py-tgb, then python -m experiments tgb {folder.parent} --negatives."
        )
    return existing


def _config(model: str, assignments: Sequence[str], device: str) -> tuple[str, RunConfig]:
    """Name and settings of a model, or of a TOML file."""
    path = Path(model)
    config = load_config(path, None, assignments) if path.suffix == ".toml" else make_config(model, {}, assignments)
    return path.stem, replace(config, train=replace(config.train, device=choose_device(device).type))


def make_runs(
    dataset: Dataset, lists: Mapping[str, Path], configs: Sequence[tuple[str, RunConfig]], arguments: argparse.Namespace
) -> None:
    """Train and measure each model with each seed, unless its result is there; a counter has one seed."""
    for model, config in configs:
        for seed in arguments.seeds:
            path = arguments.out / model / f"{dataset.name}-{seed}.json"
            resolved = resolve(replace(config, seed=seed), dataset)
            result = read_json(path) if path.exists() else {}
            if result.get("config") != resolved.to_tables():
                result = make_run(dataset, lists, resolved, f"{model} on {dataset.name}, seed {seed}", path)
            if not result["weights"]:
                print(f"{model} on {dataset.name}: it counts, and all seeds are the same", flush=True)
                break


def make_run(dataset: Dataset, lists: Mapping[str, Path], config: RunConfig, label: str, path: Path) -> dict[str, Any]:
    """Execute one run: train it, resuming an interrupted call, then measure and write the result."""
    checkpoint = checkpoint_beside(path, config)
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    model, progress = fit(dataset, config, checkpoint, True, reporter=Lines(label))
    forecaster = Forecaster(model, dataset, config, progress)

    def evaluate(part: Quadruples) -> Metrics:
        name = "valid" if part is dataset.valid else "test"
        return forecaster.evaluate(part, "tgb", candidates=lists.get(name))

    result = results(forecaster, evaluate)
    result |= {"weights": sum(weight.numel() for weight in model.parameters()), "log": progress.log}
    write_result(path, result)
    checkpoint.unlink(missing_ok=True)
    print(f"{label}: test MRR {result['test']['tgb']['mrr'] / 100:.3f}", flush=True)
    return result


def read_all(out: Path) -> dict[tuple[str, str], list[float]]:
    """Model and set -> test MRR of each seed."""
    mrr: dict[tuple[str, str], list[float]] = {}
    for path in sorted(out.glob("*/*.json")):
        run = (path.parent.name, path.stem.rpartition("-")[0])
        mrr.setdefault(run, []).append(read_json(path)["test"]["tgb"]["mrr"] / 100)
    return mrr


def show_table(mrr: dict[tuple[str, str], list[float]], names: Sequence[str]) -> str:
    """Test MRR, mean and standard deviation over seeds, and that of the leaderboard."""
    models = sorted({model for model, _ in mrr})
    rows = [(model, *(_mean(mrr.get((model, name), [])) for name in names)) for model in models]
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
    return [
        (f"{system['name']} (leaderboard)", *(_mean([system["mrr"][n]] if n in system["mrr"] else []) for n in names))
        for system in read_toml(PUBLISHED)["system"]
    ]

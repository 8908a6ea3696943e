"""``python -m experiments``: make runs, make the tables of the documentation, measure speed."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

from experiments.experiment import choose
from tangokg.config import parse_assignment, parse_duration, to_toml, unknown_setting
from tangokg.errors import ConfigError, TangoError, nearest, offer

HERE = Path(__file__).parent
WORK = Path("runs/experiments")
EXAMPLES = """examples:
  python -m experiments list 'paper-*'
  python -m experiments run paper-tucker/ICEWS14s --seeds 0 --out again    # compared with what is stored
  python -m experiments run flagship/WIKI flagship/YAGO --seeds 0 1 2 --workers 4 --budget 8m --out results
  python -m experiments run flagship/ICEWS14s --valid --set ode=false --out ablation
  python -m experiments tables                                             # all pages of the documentation
  python -m experiments tables main
  python -m experiments bench step --data ICEWS18 --out step.json
  python -m experiments tgb ~/TGB/tgb/datasets --sets tkgl-smallpedia --models recurrency
"""


def main(words: list[str] | None = None) -> int:
    """Run one command; 0 where all went well, 1 where a run failed, 2 for wrong input."""
    given = _parser().parse_args(words)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        return int(COMMANDS[given.command](given))
    except TangoError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        print("interrupted; the same command goes on with what is under way", file=sys.stderr)
        return int(getattr(stop, "status", 130))


def _parser() -> argparse.ArgumentParser:
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "python -m experiments", description=__doc__, epilog=EXAMPLES, formatter_class=shape
    )
    commands = parser.add_subparsers(dest="command", required=True)
    listed = commands.add_parser("list", help="list experiments, or print the config of one for `tango train --config`")
    run = commands.add_parser("run", help="make the runs whose results are missing")
    for command in (listed, run):
        names = "files or presets of configs/, data sets, PRESET/DATA, patterns of these, or TOML files; none: all"
        command.add_argument("configs", nargs="*", metavar="CONFIG", help=names)
        command.add_argument("--data", nargs="+", default=[], metavar="SET", help="data sets, instead of the config's")
    run.add_argument("--seeds", nargs="+", type=int, help="seeds; else as many as the config says, from 0")
    run.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="settings on top of the config")
    run.add_argument("--valid", action="store_true", help="measure the validation part alone")
    run.add_argument("--horizons", action="store_true", help="measure the validation part up to 8 steps ahead as well")
    run.add_argument("--mean", action="store_true", help="then measure the mean of the seeds too")
    run.add_argument("--workers", type=int, default=1, help="runs side by side; default 1")
    run.add_argument("--budget", metavar="TIME", help="90s, 8m, 1h; what is under way then goes on at the next call")
    run.add_argument("--out", type=Path, metavar="FOLDER", help="where results go; default experiments/results")
    run.add_argument("--work", type=Path, default=WORK, metavar="FOLDER", help=f"checkpoints; default {WORK}")
    run.add_argument("--commit", default="", help="of the source, written into results; else what git says")
    run.add_argument("--device", default="auto", help="cpu, cuda or auto")
    made = commands.add_parser(
        "tables", help="print a table, or write all pages of the documentation and their figures"
    )
    made.add_argument("name", nargs="?", help="a table; none: all pages")
    made.add_argument("--results", type=Path, metavar="FOLDER", help="default experiments/results")
    made.add_argument("--check", action="store_true", help="say which pages are out of date instead of writing them")
    bench = commands.add_parser("bench", help="measure speed: without a name, list what can be measured")
    bench.add_argument("name", nargs="?")
    bench.add_argument("--data", help="a known set or a folder; else the built-in world, or drawn events")
    bench.add_argument("--model", help="tango-tucker or tango-distmult; else the usual one of the set")
    bench.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="parameters, or settings of the model")
    bench.add_argument("--device", default="auto", help="cpu, cuda or auto")
    bench.add_argument("--out", type=Path, metavar="FILE", help="write the result as JSON")
    tgb = commands.add_parser("tgb", help="train and measure models on TGB 2.0")
    tgb.add_argument("folder", type=Path, metavar="FOLDER", help="where py-tgb keeps its data sets")
    tgb.add_argument(
        "--sets", nargs="+", default=[], metavar="SET", help="such as tkgl-icews; default all that are there"
    )
    tgb.add_argument(
        "--models", nargs="+", default=["tango", "recurrency"], metavar="MODEL", help="names, or TOML files"
    )
    tgb.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4], help="default 0 to 4")
    tgb.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="settings of all models")
    tgb.add_argument("--device", default="auto", help="cpu, cuda or auto")
    tgb.add_argument("--out", type=Path, default=Path("runs/tgb"), metavar="FOLDER", help="where results go")
    tgb.add_argument("--negatives", action="store_true", help="only turn the released negatives into Parquet")
    return parser


def list_experiments(given: argparse.Namespace) -> int:
    """Each experiment in a line; one by its whole name as a config file."""
    chosen = choose(given.configs, given.data)
    if [experiment.name for experiment in chosen] == given.configs:
        print(to_toml(chosen[0].config().to_tables()), end="")
        return 0
    for experiment in chosen:
        print(f"{experiment.name:44}{experiment.seeds} seed{'s' * (experiment.seeds > 1):2}  {experiment.about}")
    return 0


def run(given: argparse.Namespace) -> int:
    """Make all chosen runs that are not done."""
    from experiments.runs import DONE, FAILED, LEFT, Job, measure_mean, run_all
    from experiments.store import RESULTS

    out = given.out or RESULTS
    if (given.set or given.valid or given.data) and out.resolve() == RESULTS.resolve():
        raise ConfigError("--set, --valid and --data make other results than those that are stored: give --out FOLDER.")
    deadline = time.time() + parse_duration(given.budget, "--budget") if given.budget else float("inf")
    options = {"device": given.device, "deadline": deadline, "assignments": tuple(given.set), "commit": given.commit}
    options |= {"valid": given.valid, "horizons": given.horizons, "weights": given.mean}
    chosen = choose(given.configs, given.data)
    jobs = [
        Job(experiment, seed, out, given.work, **options)
        for experiment in chosen
        for seed in (range(experiment.seeds) if given.seeds is None else given.seeds)
    ]
    jobs.sort(key=lambda job: job.seed)  # each seed of all, then the next
    missing = [job for job in jobs if not job.is_done]
    print(f"{len(missing)} of {len(jobs)} runs to make", flush=True)
    ended = run_all(missing, given.workers)
    if given.mean and len(ended[DONE]) == len(missing):
        for experiment in chosen:
            print(f"wrote {measure_mean([job for job in jobs if job.experiment == experiment])}")
    print(f"{len(ended[DONE])} done, {len(ended[LEFT])} left, {len(ended[FAILED])} failed; results in {out}")
    return 1 if ended[FAILED] else 0


def make_tables(given: argparse.Namespace) -> int:
    """Print one table, or bring all pages up to date."""
    from experiments import plots
    from experiments.bench import page
    from experiments.pages import ROOT, blocks, make_block, pages, refresh
    from experiments.store import RESULTS, read_results

    results = read_results(given.results or RESULTS)
    known = blocks(results)
    if given.name:
        print(make_block(given.name, known))
        return 0
    old = 0
    for path in pages():
        text = path.read_text(encoding="utf-8")
        if (new := refresh(text, known)) != text:
            old += 1
            print(f"{path.relative_to(ROOT)} is out of date" if given.check else f"wrote {path.relative_to(ROOT)}")
            if not given.check:
                path.write_text(new, encoding="utf-8")
    if not given.check:
        figures = ROOT / "docs" / "figures"
        plots.write_plots(figures, results)
        page.write_plots(figures, page.read_results())
        return 0
    return 1 if old else 0


def measure_speed(given: argparse.Namespace) -> int:
    """Measure one thing, and print it as a table; without a name, list what can be measured."""
    from experiments.bench import BENCHMARKS, parameters
    from experiments.bench.form import write
    from experiments.bench.shown import LEFT_OUT, cell, markdown, table
    from tangokg.train import choose_device

    if given.name is None:
        for name, module in BENCHMARKS.items():
            defaults = "  ".join(f"{key}={default}" for key, (_, default) in parameters(name).items())
            print(f"{name}: {(module.__doc__ or '').splitlines()[0]}\n    {defaults}")
        return 0
    if given.name not in BENCHMARKS:
        close = offer(nearest(given.name, BENCHMARKS))
        raise ConfigError(f"unknown benchmark {given.name!r}.{close} Known: {', '.join(BENCHMARKS)}.")
    options = bench_options(given.name, given.data, given.model, given.set)
    result = BENCHMARKS[given.name].measure(**options, device=choose_device(given.device))
    if given.out is not None:
        write(result, given.out)
    print(f"{result['device']}, {result['threads']} threads, {json.dumps(result['asked'])}\n")
    print(markdown(*table(result["rows"])) + "\n")
    figures = {key: value for key, value in result["figures"].items() if not key.endswith(LEFT_OUT)}
    print(markdown(("figure", ""), [(key.replace("_", " "), cell(key, value)) for key, value in figures.items()]))
    return 0


def run_tgb(given: argparse.Namespace) -> int:
    """Make the runs on TGB 2.0 that are missing, and print their figures beside the published ones."""
    from experiments.tgb import run

    return run(given)


def bench_options(name: str, data: str | None, model: str | None, assignments: list[str]) -> dict[str, Any]:
    """What ``measure`` is called with: its own parameters by name, anything else as settings of model and training."""
    from experiments.bench import parameters
    from tangokg.models.flagship import FlagshipSettings
    from tangokg.train import TrainSettings

    known = parameters(name)
    settings = [f.name for s in (FlagshipSettings, TrainSettings) for f in fields(s)] if "settings" in known else []
    options: dict[str, Any] = {}
    for key, value in [("data", data), ("model", model), *map(parse_assignment, assignments)]:
        if key in known and key != "settings" and value is not None:
            default = known[key][1]
            kind = str if default is None else type(default)
            least = min(1, default) if kind is int else None
            if type(value) is not kind or (least is not None and value < least):
                bound = "" if least is None else f", at least {least}"
                raise ConfigError(f"bench {name}: {key} must be {kind.__name__}{bound}, found {value!r}.")
            options[key] = value
        elif value is not None and key.rpartition(".")[2] not in settings:
            raise unknown_setting(f"bench {name}", key, [*known, *settings])
    further = [text for text in assignments if parse_assignment(text)[0] not in known]
    return options | ({"settings": (*known["settings"][1], *further)} if further else {})


COMMANDS = {"list": list_experiments, "run": run, "tables": make_tables, "bench": measure_speed, "tgb": run_tgb}

if __name__ == "__main__":
    sys.exit(main())

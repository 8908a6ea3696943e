"""Make runs, make the tables of the documentation, measure speed.

examples:
  python -m experiments list 'paper-*'
  python -m experiments run paper-tucker/ICEWS14s --seeds 0 --out again    # compared with what is stored
  python -m experiments run flagship/WIKI flagship/YAGO --seeds 0 1 2 --workers 4 --budget 8m --out results
  python -m experiments run flagship/ICEWS14s --valid --set ode=false --out ablation
  python -m experiments tables                                             # all pages of the documentation
  python -m experiments tables main
  python -m experiments bench step --data ICEWS18 --out step.json
  python -m experiments tgb ~/TGB/tgb/datasets --sets tkgl-smallpedia --models recurrency
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from pathlib import Path

from experiments.experiment import choose
from experiments.store import RESULTS, read_results
from tangokg.config import parse_duration, to_toml
from tangokg.errors import ConfigError, TangoError, nearest, offer

WORK = Path("runs/experiments")


def main(words: list[str] | None = None) -> int:
    """Run one command; returns 0 for success, 1 if a run failed, 2 for wrong input."""
    arguments = _parser().parse_args(words)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        return int(COMMANDS[arguments.command](arguments))
    except TangoError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        print("interrupted; the same command goes on with what is under way", file=sys.stderr)
        return int(getattr(stop, "status", 130))


def _parser() -> argparse.ArgumentParser:
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m experiments", description=__doc__, formatter_class=shape)
    commands = parser.add_subparsers(dest="command", required=True)
    configs, runs = (argparse.ArgumentParser(add_help=False) for _ in range(2))  # options of several commands
    names = "files or presets of configs/, data sets, PRESET/DATA, patterns of these, or TOML files; none: all"
    configs.add_argument("configs", nargs="*", metavar="CONFIG", help=names)
    configs.add_argument("--data", nargs="+", default=[], metavar="SET", help="data sets, instead of the config's")
    runs.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="settings or parameters to change")
    runs.add_argument("--device", default="auto", help="cpu, cuda or auto")

    about = "list experiments, or print the config of one for `tango train --config`"
    commands.add_parser("list", help=about, parents=[configs])

    run = commands.add_parser("run", help="make the runs whose results are missing", parents=[configs, runs])
    run.add_argument("--seeds", nargs="+", type=int, help="seeds; else as many as the config says, from 0")
    run.add_argument("--valid", action="store_true", help="measure the validation part alone")
    run.add_argument("--horizons", action="store_true", help="measure the validation part up to 8 steps ahead as well")
    run.add_argument("--mean", action="store_true", help="then measure the mean of the seeds too")
    run.add_argument("--workers", type=int, default=1, help="runs side by side; default 1")
    run.add_argument("--budget", metavar="TIME", help="90s, 8m, 1h; what is under way then goes on at the next call")
    run.add_argument(
        "--out", type=Path, default=RESULTS, metavar="FOLDER", help="of results; default experiments/results"
    )
    run.add_argument("--work", type=Path, default=WORK, metavar="FOLDER", help=f"of checkpoints; default {WORK}")
    run.add_argument("--commit", default="", help="of the source, written into results; else what git says")

    about = "print a table, or write all pages of the documentation and their figures"
    tables = commands.add_parser("tables", help=about)
    tables.add_argument("name", nargs="?", help="a table; none: all pages")
    tables.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER", help="default experiments/results")
    tables.add_argument("--check", action="store_true", help="say which pages are out of date instead of writing them")

    about = "measure speed: without a name, list what can be measured"
    bench = commands.add_parser("bench", help=about, parents=[runs])
    bench.add_argument("name", nargs="?")
    bench.add_argument("--data", help="a known set or a folder; else the built-in world, or drawn events")
    bench.add_argument("--model", help="tango-tucker or tango-distmult; else the usual one of the set")
    bench.add_argument("--out", type=Path, metavar="FILE", help="write the result as JSON")

    tgb = commands.add_parser("tgb", help="train and measure models on TGB 2.0", parents=[runs])
    tgb.add_argument("folder", type=Path, metavar="FOLDER", help="where py-tgb keeps its data sets")
    tgb.add_argument("--sets", nargs="+", metavar="SET", help="such as tkgl-icews; default all that are there")
    models = ["tango", "recurrency"]
    tgb.add_argument("--models", nargs="+", default=models, metavar="MODEL", help="names, or TOML files")
    tgb.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4], help="default 0 to 4")
    tgb.add_argument("--out", type=Path, default=Path("runs/tgb"), metavar="FOLDER", help="of results")
    tgb.add_argument("--negatives", action="store_true", help="only turn the released negatives into Parquet")
    return parser


def list_experiments(arguments: argparse.Namespace) -> int:
    """Print each experiment on a line; a single full name prints its config file."""
    chosen = choose(arguments.configs, arguments.data)
    if [experiment.name for experiment in chosen] == arguments.configs:
        print(to_toml(chosen[0].config().to_tables()), end="")
        return 0
    for experiment in chosen:
        print(f"{experiment.name:44}{experiment.seeds} seed{'s' * (experiment.seeds > 1):2}  {experiment.about}")
    return 0


def run(arguments: argparse.Namespace) -> int:
    """Run all chosen experiments that have no result yet."""
    from experiments.runs import DONE, FAILED, LEFT, Job, measure_mean, run_all

    if (arguments.set or arguments.valid or arguments.data) and arguments.out.resolve() == RESULTS.resolve():
        raise ConfigError(
            "--set, --valid and --data give results that must not replace the stored ones: give --out FOLDER."
        )
    deadline = time.time() + parse_duration(arguments.budget, "--budget") if arguments.budget else float("inf")
    options = {
        "device": arguments.device,
        "deadline": deadline,
        "assignments": tuple(arguments.set),
        "commit": arguments.commit,
    }
    options |= {"valid": arguments.valid, "horizons": arguments.horizons, "weights": arguments.mean}
    chosen = choose(arguments.configs, arguments.data)
    jobs = [
        Job(experiment, seed, arguments.out, arguments.work, **options)
        for experiment in chosen
        for seed in (range(experiment.seeds) if arguments.seeds is None else arguments.seeds)
    ]
    jobs.sort(key=lambda job: job.seed)  # each seed of all, then the next
    missing = [job for job in jobs if not job.is_done]
    print(f"{len(missing)} of {len(jobs)} runs to make", flush=True)
    ended = run_all(missing, arguments.workers)
    if arguments.mean and len(ended[DONE]) == len(missing):
        for experiment in chosen:
            print(f"wrote {measure_mean([job for job in jobs if job.experiment == experiment])}")
    print(f"{len(ended[DONE])} done, {len(ended[LEFT])} left, {len(ended[FAILED])} failed; results in {arguments.out}")
    return 1 if ended[FAILED] else 0


def make_tables(arguments: argparse.Namespace) -> int:
    """Print one table, or update all pages."""
    from experiments import pages, plots
    from experiments.bench import page

    results = read_results(arguments.results)
    known = pages.blocks(results)
    if arguments.name:
        print(pages.make_block(arguments.name, known))
        return 0
    outdated = pages.outdated(known)
    for path, text in outdated.items():
        name = path.relative_to(pages.ROOT)
        print(f"{name} is out of date" if arguments.check else f"wrote {name}")
        if not arguments.check:
            path.write_text(text, encoding="utf-8")
    if arguments.check:
        return 1 if outdated else 0
    figures = pages.ROOT / "docs" / "figures"
    plots.write_plots(figures, results)
    page.write_plots(figures, page.read_results())
    return 0


def measure_speed(arguments: argparse.Namespace) -> int:
    """Measure one thing, and print it as a table; without a name, list what can be measured."""
    from experiments.bench import BENCHMARKS, parameters, read_options, run_benchmark
    from experiments.bench.form import write
    from experiments.bench.shown import LEFT_OUT, cell, markdown, table
    from tangokg.train import choose_device

    if arguments.name is None:
        for name, module in BENCHMARKS.items():
            defaults = "  ".join(f"{key}={default}" for key, default in parameters(name).items())
            print(f"{name}: {(module.__doc__ or '').splitlines()[0]}\n    {defaults}")
        return 0
    if arguments.name not in BENCHMARKS:
        close = offer(nearest(arguments.name, BENCHMARKS))
        raise ConfigError(f"unknown benchmark {arguments.name!r}.{close} Known: {', '.join(BENCHMARKS)}.")
    named = {key: value for key, value in (("data", arguments.data), ("model", arguments.model)) if value is not None}
    options = read_options(
        arguments.name, [*(f"{key}={json.dumps(value)}" for key, value in named.items()), *arguments.set]
    )
    result = run_benchmark(arguments.name, choose_device(arguments.device), **options)
    if arguments.out is not None:
        write(result, arguments.out)
    print(f"{result['device']}, {result['threads']} threads, {json.dumps(result['asked'])}\n")
    print(markdown(*table(result["rows"])) + "\n")
    figures = {key: value for key, value in result["figures"].items() if not key.endswith(LEFT_OUT)}
    print(markdown(("figure", ""), [(key.replace("_", " "), cell(key, value)) for key, value in figures.items()]))
    return 0


def run_tgb(arguments: argparse.Namespace) -> int:
    """Run the missing TGB 2.0 experiments, and print their results next to the published ones."""
    from experiments.tgb import run

    return run(arguments)


COMMANDS = {"list": list_experiments, "run": run, "tables": make_tables, "bench": measure_speed, "tgb": run_tgb}

if __name__ == "__main__":
    sys.exit(main())

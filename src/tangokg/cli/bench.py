"""``tango bench``: how fast it is, one question at a time; and the page that is made from the answers."""

from __future__ import annotations

from dataclasses import fields, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tangokg.cli.options import Device, Json, parse_device
from tangokg.cli.output import Output, make_table
from tangokg.config import parse_assignment, unknown_setting, update
from tangokg.errors import ConfigError, nearest, offer

if TYPE_CHECKING:
    from tangokg.bench import Benchmark

PAGE = Path("docs/speed.md")
OWN_OPTIONS = ("data", "model", "settings")  # parameters with an option of their own

Name = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME]",
        help="What to measure: step, twin, growth, gradients, evaluate, load or observe. Without one they are listed.",
        show_default=False,
    ),
]
BenchData = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="DATA",
        help="A known set or a folder; else the built-in world, or drawn events.",
        show_default=False,
    ),
]
BenchModel = Annotated[
    str | None,
    typer.Option("--model", help="tango-tucker or tango-distmult; else the usual one of the set.", show_default=False),
]
BenchSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A parameter of the benchmark (--list shows them), or a setting of model and training. Can be repeated.",
    ),
]
ResultFile = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="Write the result as JSON; with --page, the page.", show_default=False),
]
List = Annotated[bool, typer.Option("--list", help="List the benchmarks with their parameters and defaults.")]
PageOf = Annotated[
    Path | None,
    typer.Option(
        "--page", metavar="FOLDER", help="Make the page on speed from the results in a folder.", show_default=False
    ),
]


def bench(
    ctx: typer.Context,
    name: Name = None,
    data: BenchData = None,
    model: BenchModel = None,
    settings: BenchSettings = None,
    device: Device = None,
    out: ResultFile = None,
    listed: List = False,
    page: PageOf = None,
    as_json: Json = False,
) -> None:
    """Measure how fast it is: a training step beside its floor, the encoder beside its dense twin, growth, gradients,
    evaluation, reading."""
    output: Output = ctx.obj
    place = parse_device(device)
    if page is not None:
        _make_page(output, page, out or PAGE)
        return
    if listed or name is None:
        _list(output, as_json)
        return
    from tangokg.bench import BENCHMARKS

    if name not in BENCHMARKS:
        close = offer(nearest(name, BENCHMARKS))
        raise ConfigError(f"unknown benchmark {name!r}.{close} Known: {', '.join(BENCHMARKS)}.")
    if out is not None and out.is_dir():
        raise ConfigError(f"--out {out}: expected the name of a file, found a folder.")
    benchmark = BENCHMARKS[name]
    asked = _asked(name, benchmark, data, model, settings or [])
    from tangokg.bench.form import write
    from tangokg.train import choose_device

    with output.progress(name) as bar:

        def tell(what: str, done: int, total: int) -> None:
            bar.update(bar.task_ids[0], description=f"{name}: {what}", completed=done, total=total)

        result = benchmark.measure(**asked, device=choose_device(place), tell=tell)
    if out is not None:
        write(result, out)
        output.say(f"The result is in {out}.")
    if as_json:
        output.json(result)
    else:
        _show(output, benchmark, result)


def _asked(
    name: str, benchmark: Benchmark, data: str | None, model: str | None, assignments: list[str]
) -> dict[str, Any]:
    """The parameters of ``measure``: options and ``--set``, checked; the others are settings of model and training."""
    from tangokg.models.tango import TangoSettings
    from tangokg.train import TrainSettings

    known = benchmark.parameters()
    of_models = [f.name for settings in (TangoSettings, TrainSettings) for f in fields(settings)]
    asked: dict[str, Any] = {}
    for option, value in (("data", data), ("model", model)):
        if value is not None:
            if option not in known:
                raise ConfigError(f"--{option} {value}: bench {name} has no such choice; leave it out.")
            asked[option] = value
    own = {key: kind for key, kind in known.items() if key not in OWN_OPTIONS}
    values: dict[str, Any] = {}
    further: list[str] = []
    for text in assignments:
        key, value = parse_assignment(text)
        if key in own:
            values[key] = value
        elif "settings" in known and key.rpartition(".")[2] in of_models:
            further.append(text)
        else:
            raise unknown_setting("--set", key, [*own, *(of_models if "settings" in known else [])])
    form = make_dataclass("Asked", [(key, kind) for key, (kind, _) in own.items()], frozen=True)
    checked = update(form(**{key: default for key, (_, default) in own.items()}), values, "--set")
    for key in values:
        least = 0 if own[key][1] == 0 else 1
        if type(values[key]) is int and values[key] < least:
            raise ConfigError(f"--set: {key} must be at least {least}, found {values[key]}.")
    asked |= {key: getattr(checked, key) for key in values}
    if further:
        asked["settings"] = (*known["settings"][1], *further)
    return asked


def _list(output: Output, as_json: bool) -> None:
    """Every benchmark with what it can be asked."""
    from tangokg.bench import BENCHMARKS

    found = {
        name: {"question": b.question} | {key: default for key, (_, default) in b.parameters().items()}
        for name, b in BENCHMARKS.items()
    }
    if as_json:
        output.json(found)
        return
    rows = []
    for name, (question, *parameters) in ((name, list(values.items())) for name, values in found.items()):
        shown = [f"{key}={default}" for key, default in parameters if key not in OWN_OPTIONS]
        options = [f"--{key}" for key, _ in parameters if key in ("data", "model")]
        rows.append([name, str(question[1]), "  ".join([*options, *shown])])
    output.show(make_table("tango bench NAME", ("name", "what it measures", "parameters (--set)"), rows, left=3))


def _show(output: Output, benchmark: Benchmark, result: dict[str, Any]) -> None:
    """The table and the figures, with where they were measured."""
    from tangokg.bench.shown import LEFT_OUT, cell, table

    asked = {key: value for key, value in result["asked"].items() if value not in (None, [])}
    output.show(f"{result['benchmark']}: {benchmark.question}", style="bold")
    output.show("  ".join(f"{key} {cell('', value)}" for key, value in asked.items()))
    versions = "  ".join(f"{key} {value}" for key, value in result["versions"].items())
    output.show(f"{result['device']}  {result['threads']} threads  {versions}")
    output.show("")
    output.show(make_table("", *table(result["rows"])))
    figures = {key: value for key, value in result["figures"].items() if not key.endswith(LEFT_OUT)}
    rows = [[key.replace("_", " "), cell(key, value)] for key, value in figures.items()]
    output.show(make_table("", ("figure", ""), rows))
    if some := result["asked"].get("snapshots"):
        output.show(f"The epoch is {some} snapshots, scaled to all queries of the training part.")


def _make_page(output: Output, folder: Path, page: Path) -> None:
    from tangokg.bench.page import read_results, write_page

    for path in write_page(read_results(folder), page):
        output.show(f"wrote {path}")

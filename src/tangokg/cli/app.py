"""The commands of ``tango`` with the examples of their help; large libraries are imported inside a command."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

import typer
from typer.main import get_command

from tangokg.cli.compare import compare
from tangokg.cli.data import get, import_table, inspect_data, list_known
from tangokg.cli.demo import demo
from tangokg.cli.doctor import doctor
from tangokg.cli.evaluate import evaluate
from tangokg.cli.forecast import forecast
from tangokg.cli.mcp import mcp
from tangokg.cli.models import models
from tangokg.cli.names import names
from tangokg.cli.output import Output
from tangokg.cli.push import push
from tangokg.cli.report import report
from tangokg.cli.serve import serve
from tangokg.cli.show import show
from tangokg.cli.train import train
from tangokg.cli.tune import tune

EXAMPLES = """
tango train events.csv --column subject=actor --column object=target
tango train ICEWS14s --model tango-distmult --set dim=100 --out runs/small
tango train events.csv --out runs/events --resume
tango evaluate runs/events
tango evaluate runs/events --horizon 1-8 --json
tango evaluate runs/events --split valid --by relation
tango evaluate runs/events --by time --plot by-time.png
tango forecast runs/events 'Xi Jinping' 'Make a visit' --at 2014-11-26
tango forecast runs/events '?' 'Make a visit' Japan --top 3
tango forecast runs/events --queries questions.csv --out answers.parquet
tango compare ICEWS14s
tango compare events.csv --model tango --model recurrence --set dim=32 --epochs 10 --plot compare.png
tango compare ICEWS14s --model all --run runs/ICEWS14s-tango --out runs/all --device cuda
tango report runs/events
tango report runs/events runs/other --out comparison.html
tango report runs/events --split valid --horizon 1-8 --overwrite
tango demo
tango demo --seed 7 --out runs/demo --overwrite
tango tune ICEWS14s --budget 8m --out best.toml --plot study.png
tango tune events.csv --model tango --set dim=32 --set 'history=[2, 4]' --workers 2
tango tune world --preset paper-grid --study grid.study --trials 12
tango serve runs/events
tango serve runs/events --port 8080
tango mcp http://127.0.0.1:8765
tango mcp https://example.org --token-file tokens
tango push runs/events owner/events
tango push runs/events owner/events --facts
tango models
tango models tango
tango names runs/events
tango names runs/events korea --top 5
tango show runs/events
tango show runs/events --json
tango doctor
tango doctor --json
tango data list
tango data get YAGO
tango data get YAGO --to data
tango data inspect events.csv
tango data inspect ICEWS14s --json
tango data import events.csv data/events
tango data import terms.csv data/terms --unit year --column start=from
tango data import ICEWS05-15 data/irregular --thin 0
"""


def examples(*lines: str) -> str:
    """The end of a command's help."""
    return "\n\n".join(["Examples:", *lines])


def examples_of(command: str) -> str:
    """The examples of one command, such as ``data list``."""
    return examples(*(line for line in EXAMPLES.split("\n") if f"{line} ".startswith(f"tango {command} ")))


app = typer.Typer(
    name="tango",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Forecast links on temporal knowledge graphs: dated facts in, ranked answers with probabilities out.",
    epilog=examples("tango demo", "tango train events.csv --out runs/events", "tango forecast runs/events Alice calls"),
)


def _version(wanted: bool) -> None:
    if wanted:
        from tangokg import __version__

        typer.echo(f"tango {__version__}")
        raise typer.Exit


@app.callback()
def tango(
    ctx: typer.Context,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only results and errors. Can stand anywhere.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print more tables, and tracebacks of errors. Can stand anywhere.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    ctx.obj = ctx.obj or Output()
    ctx.obj.quiet, ctx.obj.verbose = quiet, verbose


COMMANDS = (train, evaluate, forecast, compare, report, demo, tune, serve, mcp, push, models, names, show, doctor)
for command in COMMANDS:
    app.command(epilog=examples_of(command.__name__))(command)

ON_DATA: dict[str, Callable[..., None]] = {
    "list": list_known,
    "get": get,
    "inspect": inspect_data,
    "import": import_table,
}
sets = typer.Typer(no_args_is_help=True, help="List, download, inspect and convert data sets.")
for name, action in ON_DATA.items():
    sets.command(name, epilog=examples_of(f"data {name}"))(action)
app.add_typer(sets, name="data", epilog=examples("tango data list", "tango data inspect events.csv"))


@cache
def command_line() -> Any:
    """``tango`` with all its commands, built from their signatures once for a process."""
    return get_command(app)

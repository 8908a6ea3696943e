"""``tango demo``: TANGO trained on the built-in world, compared with counters and the oracle."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tangokg.cli.data import tell_data
from tangokg.cli.fitting import fit_shown
from tangokg.cli.next_steps import next_command
from tangokg.cli.options import Json, Overwrite
from tangokg.cli.output import Output
from tangokg.cli.serving import check_extra, open_page
from tangokg.errors import ConfigError, RunError
from tangokg.showing import FIGURES

if TYPE_CHECKING:
    from tangokg.forecast import Forecast
    from tangokg.quads.world import World
    from tangokg.train import RunConfig

EXAMPLE = Path("examples") / "trips.py"  # exists in a clone

Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of all random numbers.")]
Out = Annotated[Path | None, typer.Option(metavar="RUN", help="Keep the run in this folder.")]
Serve = Annotated[bool, typer.Option("--serve", help="Then open the page on the world it has learned.")]


def demo(
    ctx: typer.Context,
    seed: Seed = 0,
    out: Out = None,
    overwrite: Overwrite = False,
    serve: Serve = False,
    as_json: Json = False,
) -> None:
    """Simulate a small world, train TANGO on it, and compare it with counters and with the truth."""
    if serve:
        check_extra()
        if as_json:
            raise ConfigError(
                "--json prints figures and ends, --serve answers until it is stopped: choose one of them."
            )
    if out is not None and out.exists() and not overwrite and not (out.is_dir() and not any(out.iterdir())):
        raise RunError(f"{out} exists; replace it with --overwrite, or choose another --out.")
    import torch

    from tangokg.forecast.demo import demo_config
    from tangokg.quads.world import make_world

    torch.set_num_threads(1)  # the tensors are small: on a busy machine a second thread made it 30 times slower
    with _folder(out, serve) as folder:
        run_demo(ctx.obj, make_world(seed), demo_config(seed), folder, overwrite, as_json, what_next=not serve)
        if serve and folder is not None:
            open_page(ctx.obj, folder, kept=out is not None)


@contextmanager
def _folder(out: Path | None, serve: bool) -> Iterator[Path | None]:
    """The folder of the run; a served run needs one, at least temporarily."""
    if out is not None or not serve:
        yield out
        return
    with TemporaryDirectory(prefix="tango-", ignore_cleanup_errors=True) as place:
        yield Path(place) / "demo"


def run_demo(
    output: Output,
    world: World,
    config: RunConfig,
    out: Path | None,
    overwrite: bool,
    as_json: bool,
    what_next: bool = True,
) -> None:
    """The demo on any world with any settings."""
    from tangokg.forecast.demo import compare_on_world, example_forecasts

    output.say("The built-in world: invented actors with known laws (python -m pydoc tangokg.quads.world).")
    tell_data(output, world.dataset)
    again = ["tango", "train", "--out", str(out), "--resume"]
    tango = fit_shown(output, world.dataset, config, out=out, again=again, overwrite=overwrite)
    compared, forecasts = compare_on_world(world, tango), example_forecasts(world, tango)
    if as_json:
        output.json({"compared": compared, "forecasts": [answer.to_dict() for _, answer, _ in forecasts]})
        return
    _show_comparison(output, compared)
    for name, answer, happened in forecasts:
        output.show("")
        output.show(f"{name}:", style="bold")
        output.show(answer.table(happened))
    if what_next:
        _what_next(output, forecasts[-1][1], out)


def _show_comparison(output: Output, compared: list[dict[str, Any]]) -> None:
    keys = ("mrr", "hits@1", "hits@3", "hits@10", "newcomers_mrr")
    rows = [[row["model"], *(f"{row[key]:.2f}" for key in keys)] for row in compared]
    title = (
        f"The test part, time-aware, in per cent: {compared[0]['queries']:,} queries, "
        f"{compared[0]['newcomers_queries']:,} of them with a newcomer. Nobody can beat the oracle."
    )
    output.table(title, ("model", *FIGURES, "MRR, newcomers"), rows)


def _what_next(output: Output, answer: Forecast, out: Path | None) -> None:
    """Suggest commands that work unchanged, and one for the user's own table."""
    output.say()
    output.say("Next:")
    if out is None:
        output.say(f"  {next_command(output.words, 'demo', '--out', 'runs/demo')}     keep the run, to ask it more")
    else:
        output.say(f"  {shlex.join(['tango', 'forecast', str(out), answer.subject, answer.relation])}")
        output.say(f"  {shlex.join(['tango', 'evaluate', str(out), '--horizon', '1-8'])}")
    if EXAMPLE.is_file():
        output.say(f"  python {EXAMPLE}       write a small table of events, trips.csv")
        output.say("  tango train trips.csv --out runs/trips")
        output.say("  tango forecast runs/trips Anna visits --at 2024-04-10")
    else:
        output.say("  tango train events.csv         a table of your own with columns subject, relation, object, time")
    if out is None:
        output.say(f"  {next_command(output.words, 'demo', '--serve')}             ask it on a page in the browser")
    else:
        output.say(f"  {shlex.join(['tango', 'serve', str(out)]):<29}  ask it on a page in the browser")

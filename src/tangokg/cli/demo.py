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
from tangokg.cli.forecast import answers_table
from tangokg.cli.next_steps import next_command
from tangokg.cli.options import Json, Overwrite
from tangokg.cli.output import Output
from tangokg.cli.serving import check_extra, open_page
from tangokg.cli.tables import make_table
from tangokg.errors import ConfigError, RunError

if TYPE_CHECKING:
    from tangokg.forecast import Forecast, Forecaster
    from tangokg.quads.world import World
    from tangokg.train import RunConfig

EXAMPLE = Path("examples") / "trips.py"  # exists in a clone


def demo_config(seed: int = 0) -> RunConfig:
    """The settings of the demo, chosen on the validation part of the world of seed 0."""
    from tangokg.train import make_config

    tables: dict[str, Any] = {
        "settings": {"dim": 32, "width": 16, "newcomers": 0.1},
        "train": {"epochs": 8, "learning_rate": 0.005, "batch_windows": 4, "device": "cpu"},
    }
    return make_config("tango", tables, seed=seed)


def demo(
    ctx: typer.Context,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of all random numbers.")] = 0,
    out: Annotated[Path | None, typer.Option(metavar="RUN", help="Keep the run in this folder.")] = None,
    overwrite: Overwrite = False,
    serve: Annotated[bool, typer.Option("--serve", help="Then open the page on the world it has learned.")] = False,
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

    from tangokg.quads.world import make_world

    torch.set_num_threads(1)  # the tensors are small: on a busy machine a second thread made it 30 times slower
    with _folder(out, serve) as folder:
        run_demo(ctx.obj, make_world(seed), demo_config(seed), folder, overwrite, as_json, what_next=not serve)
        if serve and folder is not None:
            open_page(ctx.obj, folder, kept=out is not None)


@contextmanager
def _folder(out: Path | None, serve: bool) -> Iterator[Path | None]:
    """Where the run goes: a run that is served needs a folder, if only for the time being."""
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
    output.say("The built-in world: invented actors with known laws (python -m pydoc tangokg.quads.world).")
    tell_data(output, world.dataset)
    again = ["tango", "train", "--out", str(out), "--resume"]
    tango = fit_shown(output, world.dataset, config, out=out, again=again, overwrite=overwrite)
    compared = compare(world, tango)
    forecasts = _forecasts(world, tango)
    if as_json:
        output.json({"compared": compared, "forecasts": [answer.to_dict() for _, answer, _ in forecasts]})
        return
    output.show(_comparison(compared))
    for who, answer, happened in forecasts:
        output.show("")
        output.show(f"{who}:", style="bold")
        output.show(answers_table(answer, happened))
    if what_next:
        _what_next(output, forecasts[-1][1], out)


def compare(world: World, tango: Forecaster) -> list[dict[str, Any]]:
    """Every model on the test part: all queries, and those with a newcomer; the best MRR first."""
    from tangokg.forecast import Forecaster
    from tangokg.forecast.counters import make_counter
    from tangokg.models.counters import COUNTERS
    from tangokg.models.oracle import Oracle
    from tangokg.rank import inductive

    models = {tango.config.model: tango, "oracle": Forecaster(Oracle(world), world.dataset, tango.config)}
    models |= {name: make_counter(tango, name) for name in COUNTERS}
    newcomers = inductive(tango.seen)
    compared = []
    for name, forecaster in models.items():
        everyone, new = forecaster.evaluate(), forecaster.evaluate(protocol=newcomers)
        compared.append(
            {
                "model": name,
                **everyone["time-aware"].to_dict(),
                "queries": everyone.queries,
                "newcomers_mrr": new["time-aware"].mrr,
                "newcomers_queries": new.queries,
            }
        )
    return sorted(compared, key=lambda row: -row["mrr"])


def _comparison(compared: list[dict[str, Any]]) -> Any:
    rows = [
        [row["model"], *(f"{row[key]:.2f}" for key in ("mrr", "hits@1", "hits@3", "hits@10", "newcomers_mrr"))]
        for row in compared
    ]
    title = (
        f"The test part, time-aware, in per cent: {compared[0]['queries']:,} queries, "
        f"{compared[0]['newcomers_queries']:,} of them with a newcomer. Nobody can beat the oracle."
    )
    return make_table(title, ("model", "MRR", "Hits@1", "Hits@3", "Hits@10", "MRR, newcomers"), rows)


def _forecasts(world: World, tango: Forecaster) -> list[tuple[str, Forecast, frozenset[str]]]:
    """Forecasts of what the most active newcomer of the test part, and the most active other actor, did last."""
    import numpy as np

    facts, newcomer = world.dataset.test, world.since > 0
    names, relations = facts.vocab.entities, facts.vocab.relations
    forecasts = []
    for who, among in (("A newcomer, whom training never saw", newcomer), ("One who was always there", ~newcomer)):
        acts = facts.select(among[facts.s])
        if not len(acts):
            continue
        acts = acts.select(acts.s == np.bincount(acts.s).argmax())
        acts = acts.select(acts.r == np.bincount(acts.r).argmax())
        last = acts.select(acts.t == acts.t.max())
        answer = tango.forecast(names[last.s[0]], relations[last.r[0]], at=int(last.t[0]), top=5)
        forecasts.append((who, answer, frozenset(names[o] for o in last.o)))
    return forecasts


def _what_next(output: Output, answer: Forecast, out: Path | None) -> None:
    """Suggest commands that work as they are, and one for a table of the user's own."""
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
        output.say(f"  {shlex.join(['tango', 'serve', str(out)])}     ask it on a page in the browser")

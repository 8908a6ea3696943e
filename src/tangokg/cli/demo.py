"""``tango demo``: the built-in world, TANGO trained on it, and what it comes to beside counters and the oracle."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tangokg.cli.asking import answers_table
from tangokg.cli.counting import COUNTERS, make_counter
from tangokg.cli.next_steps import next_command
from tangokg.cli.options import Json, Overwrite, Seed
from tangokg.cli.output import Output, make_table
from tangokg.cli.training import fit_shown
from tangokg.errors import RunError

if TYPE_CHECKING:
    from tangokg.forecast import Forecast, Forecaster
    from tangokg.quads.world import World
    from tangokg.train import RunConfig

EXAMPLE = Path("examples") / "trips.py"  # where the sources are


def demo_config(seed: int = 0) -> RunConfig:
    """The preset of the demo, chosen on the validation part of the world of seed 0."""
    from tangokg.train import make_config

    tables: dict[str, Any] = {
        "settings": {"dim": 32, "width": 16, "newcomers": 0.1},
        "train": {"epochs": 8, "learning_rate": 0.005, "batch_windows": 4, "device": "cpu"},
    }
    return make_config("tango", tables, seed=seed)


def demo(
    ctx: typer.Context,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(metavar="RUN", help="Keep the run in this folder.")] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Simulate a small world, train TANGO on it, and compare it with counters and with the truth."""
    if out is not None and out.exists() and not overwrite and not (out.is_dir() and not any(out.iterdir())):
        raise RunError(f"{out} exists; replace it with --overwrite, or choose another --out.")
    import torch

    from tangokg.quads.world import make_world

    torch.set_num_threads(1)  # the tensors are small: on a busy machine a second thread made it 30 times slower
    run_demo(ctx.obj, make_world(seed), demo_config(seed), out, overwrite, as_json)


def run_demo(output: Output, world: World, config: RunConfig, out: Path | None, overwrite: bool, as_json: bool) -> None:
    """The demo on any world with any settings."""
    from tangokg.cli.sources import tell

    output.say("The built-in world: invented actors with known laws (python -m pydoc tangokg.quads.world).")
    tell(output, world.dataset)
    again = ["tango", "train", "--out", str(out), "--resume"]
    tango = fit_shown(output, world.dataset, config, out, again, overwrite=overwrite)
    compared = compare(world, tango)
    asked = _questions(world, tango)
    if as_json:
        output.json({"compared": compared, "forecasts": [answer.to_dict() for _, answer, _ in asked]})
        return
    output.show(_comparison(compared))
    for who, answer, happened in asked:
        output.show("")
        output.show(f"{who}:", style="bold")
        output.show(answers_table(answer, happened))
    _what_next(output, asked[-1][1], out)


def compare(world: World, tango: Forecaster) -> list[dict[str, Any]]:
    """Every model on the test part, all queries and those with a newcomer, by time-aware MRR."""
    from tangokg.forecast import Forecaster
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


def _questions(world: World, tango: Forecaster) -> list[tuple[str, Forecast, frozenset[str]]]:
    """What the most active newcomer of the test part, and the most active other, did last, from the days before."""
    import numpy as np

    facts, newcomer = world.dataset.test, world.since > 0
    names, relations = facts.vocab.entities, facts.vocab.relations
    asked = []
    for who, among in (("A newcomer, whom training never saw", newcomer), ("One who was always there", ~newcomer)):
        own = facts.select(among[facts.s])
        if not len(own):
            continue
        own = own.select(own.s == np.bincount(own.s).argmax())
        own = own.select(own.r == np.bincount(own.r).argmax())
        last = own.select(own.t == own.t.max())
        answer = tango.forecast(names[last.s[0]], relations[last.r[0]], at=int(last.t[0]), top=5)
        asked.append((who, answer, frozenset(names[o] for o in last.o)))
    return asked


def _what_next(output: Output, answer: Forecast, out: Path | None) -> None:
    """Commands to go on with; each names only what is there, but for a table of one's own."""
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

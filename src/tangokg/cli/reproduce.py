"""``tango reproduce``: the paper's tables and figures beside ours, and the runs that fill them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tangokg.cli.options import Device, Json, parse_budget, parse_device
from tangokg.cli.output import Output, counted, make_table
from tangokg.errors import ConfigError, nearest, offer

if TYPE_CHECKING:
    from tangokg.reproduce import Results
    from tangokg.reproduce.view import View

RESULTS, WORK, PAGE = Path("results"), Path("runs/reproduce"), Path("docs/results.md")

Name = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME]",
        help="A table or figure, as --list names them. Without one they are listed.",
        show_default=False,
    ),
]
Listed = Annotated[
    bool, typer.Option("--list", help="List tables and figures, how many cells are filled, and presets.")
]
Run = Annotated[bool, typer.Option("--run", help="Make the next missing runs, by priority.")]
LEGEND = (
    "From: paper, as it prints them; as printed, our runs with its time scale and gradient; paper form, its equations "
    "and decoders with a longer time and, on four sets, states of one length; ours, the model as `tango train` has it; "
    "authors' form, as their program departs from the paper; our run, of a baseline."
)
BudgetText = Annotated[
    str | None,
    typer.Option("--budget", metavar="TIME", help="How long to run: 90s, 8m, 1h; else to the end.", show_default=False),
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="WHAT",
        help="A table, preset, family of presets (paper, printed, tango, authors, baseline), data set or PRESET/DATA. "
        "Can be repeated.",
    ),
]
Seeds = Annotated[
    int | None,
    typer.Option(
        "--seeds",
        min=1,
        help="At most this many seeds of each; they count from 0, so that 1 means seed 0 alone.",
        show_default=False,
    ),
]
Again = Annotated[
    bool,
    typer.Option(
        "--again",
        help="Runs that are there as well: made again, and compared with what is stored.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Runs side by side: one on a CPU, as many as have room on a GPU.", show_default=False),
]
Merge = Annotated[
    list[Path] | None,
    typer.Option("--merge", metavar="FILE", help="Take a file of --out apart into results. Can be repeated."),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="With --run: all results into this file. With --page: the page.",
        show_default=False,
    ),
]
Page = Annotated[bool, typer.Option("--page", help="Make the page on results and its figures.")]
Configs = Annotated[
    Path | None, typer.Option("--configs", metavar="FOLDER", help="Write the config of every run.", show_default=False)
]
ResultsFolder = Annotated[Path, typer.Option("--results", metavar="FOLDER", help="Where results are kept.")]
WorkFolder = Annotated[Path, typer.Option("--work", metavar="FOLDER", help="Where runs are kept.")]


def reproduce(
    ctx: typer.Context,
    name: Name = None,
    listed: Listed = False,
    run: Run = False,
    budget: BudgetText = None,
    only: Only = None,
    seeds: Seeds = None,
    again: Again = False,
    device: Device = None,
    workers: Workers = None,
    out: Out = None,
    merge: Merge = None,
    page: Page = False,
    configs: Configs = None,
    results: ResultsFolder = RESULTS,
    work: WorkFolder = WORK,
    as_json: Json = False,
) -> None:
    """Show the paper's tables and figures with our numbers beside them, and make the runs that are missing."""
    output: Output = ctx.obj
    place = parse_device(device)
    seconds = parse_budget(budget)
    _check(name, run, merge, page, configs, out, only or again or budget or workers or seeds)
    if merge:
        _merge(output, merge, results)
    if configs is not None:
        from tangokg.reproduce.configs import write_configs

        number, removed = write_configs(configs)
        output.show(f"wrote {counted(number, 'config')} to {configs}" + _without(removed))
    if run:
        from tangokg.cli.reproduce_runs import Wishes, make_runs

        make_runs(output, Wishes(only or [], seeds, again, seconds, place, workers, out, results, work), as_json)
    elif page:
        _make_page(output, results, out or PAGE)
    elif name is not None and not listed:
        _show(output, name, results, as_json)
    elif not merge and configs is None:
        _list(output, results, as_json)


def _check(
    name: str | None,
    run: bool,
    merge: list[Path] | None,
    page: bool,
    configs: Path | None,
    out: Path | None,
    of_runs: object,
) -> None:
    """What does not go together is told before anything is read."""
    if run and page:
        raise ConfigError("--run makes results and --page shows them: give one of them.")
    if run and name is not None:
        raise ConfigError(f"--run takes what to make from --only: write `tango reproduce --run --only {name}`.")
    if of_runs and not run:
        raise ConfigError("--budget, --only, --seeds, --again and --workers say what to run: give --run as well.")
    if out is not None and not (run or page):
        raise ConfigError("--out is the file of --run or of --page: give one of them.")
    if out is not None and out.is_dir():
        raise ConfigError(f"--out {out}: expected the name of a file, found a folder.")
    if name is not None and not (merge or configs):
        _check_name(name)


def _check_name(name: str) -> None:
    """A table or figure; for what can only be run, the error says how."""
    from tangokg.reproduce import experiments, tables

    if name in tables():
        return
    runs: dict[str, str] = {}
    for experiment in experiments().values():
        runs |= {
            experiment.preset.partition("-")[0]: "a family of presets",
            experiment.name: "a preset on a data set",
            experiment.preset: "a preset",
            experiment.data: "a data set",
        }
    if name in runs:
        raise ConfigError(
            f"{name} is {runs[name]}, no table or figure. Make its runs with `tango reproduce --run --only {name}`."
        )
    raise ConfigError(
        f"unknown table or figure {name!r}.{offer(nearest(name, [*tables(), *runs]))} Known: {', '.join(tables())}."
    )


def _without(removed: list[Path]) -> str:
    return f"; deleted {', '.join(map(str, removed))}, which no preset makes any more" if removed else ""


def _merge(output: Output, files: list[Path], results: Path) -> None:
    from tangokg.reproduce.store import merge

    for file in files:
        written, left = merge(file, results)
        output.show(f"{file}: wrote {counted(len(written), 'result')} to {results}")
        for path in left:
            output.say(f"  {path} is as new or newer, and was left as it is")


def _read(output: Output, folder: Path) -> Results:
    """The results that are there; those of other settings are told."""
    from tangokg.reproduce import read_results

    found = read_results(folder)
    for path, why in found.stale.items():
        output.say(f"note: {path} is not of the preset as it is now ({why}), and is left out")
    return found


def _warn(output: Output, folder: Path) -> None:
    """Everything would be missing, for a reason that is easily mended."""
    if not folder.exists():
        output.say(f"warning: no results in {folder}: run it in the repository, or give --results")


def _list(output: Output, folder: Path, as_json: bool) -> None:
    from rich.text import Text

    from tangokg.reproduce import experiments, tables
    from tangokg.reproduce.view import filled

    _warn(output, folder)
    results = _read(output, folder)
    found: list[dict[str, Any]] = []
    for name, table in tables().items():
        have, of = filled(table, results)
        label = table.paper.label if table.paper else None
        about = {"name": name, "kind": table.kind, "title": table.title, "label": label}
        found.append(about | {"filled": have, "of": of})
    if as_json:
        output.json(found)
        return
    presets = sorted({experiment.preset for experiment in experiments().values()})
    rows = [
        [row["name"], row["kind"], row["title"], f"{row['filled']} of {row['of']}" if row["of"] else "always"]
        for row in found
    ]
    output.show(make_table("tango reproduce NAME", ("name", "kind", "what it shows", "cells filled"), rows, left=3))
    output.show("")
    output.show(Text(f"Presets, for --run --only PRESET or PRESET/DATA: {', '.join(presets)}"))


def _show(output: Output, name: str, folder: Path, as_json: bool) -> None:
    from tangokg.reproduce.view import view

    counts = _count(output) if name == "statistics" else None
    shown = view(name, _read(output, folder), counts)
    table = shown.table
    if table.cells:
        _warn(output, folder)
    if as_json:
        output.json(_plain(shown))
        return
    output.show(f"{table.title} ({table.paper.label if table.paper else 'not in the paper'})", style="bold")
    for block in shown.blocks:
        output.show("")
        output.show(make_table(block.title, block.headings, block.rows, left=2))
    for note in (*([LEGEND] if table.cells else []), *shown.notes):
        output.show("")
        output.show(note)


def _plain(shown: View) -> dict[str, Any]:
    table = shown.table
    blocks = [
        {"title": block.title, "rows": [dict(zip(block.headings, row, strict=True)) for row in block.rows]}
        for block in shown.blocks
    ]
    return {"name": table.name, "title": table.title, "blocks": blocks, "notes": shown.notes}


def _count(output: Output) -> dict[str, dict[str, int]]:
    """What the sets that are here hold."""
    from tangokg.errors import DataError
    from tangokg.quads import find, inspect, thin_dataset
    from tangokg.reproduce.presets import SETS, THIN_SEED, THINNED

    found = {}
    with output.progress("counting") as bar:
        for place, name in enumerate(SETS):
            bar.update(bar.task_ids[0], description=f"counting {name}", completed=place, total=len(SETS))
            try:
                dataset = find(name)
            except DataError as error:
                output.say(f"note: {error}")
                continue
            parts = {name: dataset}
            if THINNED.startswith(f"{name}-"):
                parts[THINNED] = thin_dataset(dataset, THIN_SEED)
            for own, data in parts.items():
                counts = inspect(data)
                facts = {part: counts["parts"][part]["facts"] for part in ("train", "valid", "test")}
                names = {key: counts[key] for key in ("entities", "relations")}
                found[own] = facts | names | {"times": counts["timestamps"]}
    return found


def _make_page(output: Output, folder: Path, page: Path) -> None:
    from tangokg.reproduce.page import write_page

    _warn(output, folder)
    for path in write_page(_read(output, folder), page):
        output.show(f"wrote {path}")

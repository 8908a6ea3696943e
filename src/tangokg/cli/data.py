"""``tango data``: known sets, what is in a data set, and tables into benchmark folders."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tangokg.cli.next_steps import next_command
from tangokg.cli.options import ABOUT_DATA, Data, Json, Reading, Splitting, with_reading
from tangokg.cli.output import Output
from tangokg.errors import DataError
from tangokg.showing import bar, counted, sparkline

if TYPE_CHECKING:
    from tangokg.quads import Dataset

TOP = 10  # relations shown; with -v and --json all

KnownName = Annotated[str, typer.Argument(help="A known set, as `tango data list` names it.")]
To = Annotated[Path | None, typer.Option(metavar="DIR", help="Where to put it; else the cache directory.")]
Sources = Annotated[
    list[str],
    typer.Argument(metavar="SOURCE...", help=f"{ABOUT_DATA} With --format one or more files, or patterns of names."),
]
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder to make.")]
Format = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Files as they are published, packed or not: icews, polecat, gdelt, acled, ucdp, wikidata or tgb.",
    ),
]
Language = Annotated[
    str | None, typer.Option(metavar="CODE", help="Labels of Wikidata in this language, such as en; else its ids.")
]
Thin = Annotated[
    int | None,
    typer.Option(min=0, metavar="SEED", help="Keep only some of the times, 1 to 4 steps apart, drawn with this seed."),
]


def list_known(ctx: typer.Context, as_json: Json = False) -> None:
    """List the known data sets, with what they hold and where they are."""
    output: Output = ctx.obj
    from tangokg.quads import known_sets

    known = known_sets()
    if as_json:
        output.json(known)
        return
    rows = [
        [
            row["name"],
            row["about"],
            row["found"] or (f"tango data get {row['name']}" if row["published"] else "not published"),
            *(f"{row[key]:,}" for key in ("facts", "entities", "relations", "times")),
            row["unit"],
        ]
        for row in known
    ]
    columns = ("name", "what it is", "where, or how to get it", "facts", "entities", "relations", "times", "unit")
    output.table("Known data sets", columns, rows, left=3)


def get(ctx: typer.Context, name: KnownName, to: To = None) -> None:
    """Download a known data set, check its sums, and put it where it is found by name."""
    from tangokg.quads import cache_folder, data_folders, download

    output: Output = ctx.obj
    folder = to or cache_folder()
    with output.progress("downloading") as advance:
        place = download(name, folder, lambda file, done, total: advance(done, total, file))
    output.show(str(place))
    if folder not in data_folders():
        output.say(f"Use it by its path, or set TANGOKG_DATA to {folder} to find it by name.")


@with_reading
def inspect_data(ctx: typer.Context, data: Data, reading: Reading, as_json: Json = False) -> None:
    """Count what is in a data set: facts, distinct ones, times, names, and what training would never see."""
    output: Output = ctx.obj
    from tangokg.quads import facts_over_time, inspect
    from tangokg.quads.counts import describe_unit

    dataset = reading.read(data)
    stats = inspect(dataset)
    if as_json:
        output.json(stats)
        return
    title = (
        f"{stats['name']}: {counted(stats['entities'], 'entity', 'entities')} ({stats['entities_used']:,} in facts), "
        f"{counted(stats['relations'], 'relation')} ({stats['relations_used']:,}), "
        f"{counted(stats['timestamps'], 'time')}, counted in {describe_unit(stats)}"
    )
    columns = ("part", "first", "last", "facts", "distinct", "times", "new entities", "facts with one", "share")
    output.table(title, columns, [_part_row(n, p) for n, p in stats["parts"].items()], left=3)
    shown = stats["facts_by_relation"][: None if output.verbose else TOP]
    largest = shown[0]["facts"]
    rows = [[row["relation"], bar(row["facts"] / largest), f"{row['facts']:,}"] for row in shown]
    output.table(f"Relations, the {len(shown)} most frequent", ("relation", "", "facts"), rows, left=2)
    output.show(f"Facts over time  {sparkline(facts_over_time(dataset))}")
    for note in stats["notes"]:
        output.say(f"note: {note}")
    output.say(f"Next: {next_command(output.words, 'train', data)}")


def _part_row(name: str, part: dict[str, Any]) -> list[str]:
    counts = ("facts", "distinct", "timestamps", "unseen_entities", "facts_with_unseen_entity")
    share = f"{part['share_with_unseen_entity']:.1%}"
    return [name, part["first"] or "", part["last"] or "", *(f"{part[key]:,}" for key in counts), share]


@with_reading
def import_table(
    ctx: typer.Context,
    sources: Sources,
    folder: Folder,
    reading: Splitting,
    format: Format = None,
    language: Language = None,
    thin: Thin = None,
) -> None:
    """Turn a table of dated facts, or of facts with a start and an end, into a benchmark folder; or thin a set."""
    from tangokg.quads import thin_dataset, write_folder

    output: Output = ctx.obj
    if format is None and len(sources) > 1:
        raise DataError(
            f"{len(sources)} sources were given; expected one. For several files give the --format that they have."
        )
    full = dataset = reading.read(sources if len(sources) > 1 else sources[0], format, language)
    if thin is not None:
        dataset = thin_dataset(full, thin)
    tell_data(output, dataset)
    if thin is not None:
        output.say(f"{_extent(dataset)} of {_extent(full)} were kept, with gaps drawn from seed {thin}.")
    write_folder(dataset, folder)
    output.show(str(folder))
    output.say(f"Next: {shlex.join(['tango', 'train', str(folder)])}")


def _extent(dataset: Dataset) -> str:
    import numpy as np

    return f"{len(np.unique(dataset.facts.t)):,} times and {len(dataset.facts):,} facts"


def tell_data(output: Output, dataset: Dataset) -> None:
    """Say what was read, in a few lines."""
    from tangokg.quads import summarise

    for line in summarise(dataset):
        output.say(line)

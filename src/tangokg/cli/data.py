"""``tango data``: known sets, what is in a data set, and tables into benchmark folders."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tangokg.cli.next_steps import next_command
from tangokg.cli.options import ABOUT_DATA, Data, Json, Reading, Splitting, with_reading
from tangokg.cli.output import Output
from tangokg.cli.tables import bar, counted, make_table, sparkline
from tangokg.errors import DataError

if TYPE_CHECKING:
    from tangokg.quads import Dataset

BINS = 60  # blocks of the line of facts over time
TOP = 10  # relations shown; with -v and --json all


def list_known(ctx: typer.Context, as_json: Json = False) -> None:
    """List the known data sets, with what they hold and where they are."""
    output: Output = ctx.obj
    found = known_sets()
    if as_json:
        output.json(found)
        return
    rows = [
        [
            row["name"],
            row["about"],
            row["found"] or (f"tango data get {row['name']}" if row["published"] else "not published"),
            *(f"{row[key]:,}" for key in ("facts", "entities", "relations", "times")),
            row["unit"],
        ]
        for row in found
    ]
    columns = ("name", "what it is", "where, or how to get it", "facts", "entities", "relations", "times", "unit")
    output.show(make_table("Known data sets", columns, rows, left=3))


def known_sets() -> list[dict[str, Any]]:
    """Each known set with its counts, and the folder where it was found, if any."""
    from tangokg.quads import KNOWN, data_folders

    rows = []
    for known in KNOWN.values():
        folders = [place / known.name for place in data_folders() if known.is_in(place / known.name)]
        rows.append(
            {
                "name": known.name,
                "about": known.about,
                "facts": sum(known.rows.values()),
                "entities": known.entities,
                "relations": known.relations,
                "times": known.timestamps,
                "unit": known.clock.unit,
                "published": known.published,
                "found": str(folders[0]) if folders else None,
            }
        )
    return rows


def get(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="A known set, as `tango data list` names it.")],
    to: Annotated[Path | None, typer.Option(metavar="DIR", help="Where to put it; else the cache directory.")] = None,
) -> None:
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
    dataset = reading.read(data)
    found = _inspect(dataset)
    if as_json:
        output.json(found)
        return
    title = (
        f"{found['name']}: {counted(found['entities'], 'entity', 'entities')} ({found['entities_used']:,} in facts), "
        f"{counted(found['relations'], 'relation')} ({found['relations_used']:,}), "
        f"{counted(found['timestamps'], 'time')}, counted in {_unit(found)}"
    )
    columns = ("part", "first", "last", "facts", "distinct", "times", "new entities", "facts with one", "share")
    output.show(make_table(title, columns, [_part_row(n, p) for n, p in found["parts"].items()], left=3))
    shown = found["facts_by_relation"][: None if output.verbose else TOP]
    most = shown[0]["facts"]
    rows = [[row["relation"], bar(row["facts"] / most), f"{row['facts']:,}"] for row in shown]
    output.show(make_table(f"Relations, the {len(shown)} most frequent", ("relation", "", "facts"), rows, left=2))
    output.show(f"Facts over time  {sparkline(_over_time(dataset))}")
    for note in found["notes"]:
        output.say(f"note: {note}")
    output.say(f"Next: {next_command(output.words, 'train', data)}")


def _inspect(dataset: Dataset) -> dict[str, Any]:
    """The counts of the library, and the number of facts of each relation."""
    import numpy as np

    from tangokg.quads import inspect

    counts = np.bincount(dataset.facts.r, minlength=dataset.vocab.num_relations)
    order = np.argsort(-counts, kind="stable")
    relations = [{"relation": dataset.vocab.relations[r], "facts": int(counts[r])} for r in order if counts[r]]
    return inspect(dataset) | {"facts_by_relation": relations}


def _part_row(name: str, part: dict[str, Any]) -> list[str]:
    counts = ("facts", "distinct", "timestamps", "unseen_entities", "facts_with_unseen_entity")
    share = f"{part['share_with_unseen_entity']:.1%}"
    return [name, part["first"] or "", part["last"] or "", *(f"{part[key]:,}" for key in counts), share]


def _over_time(dataset: Dataset) -> list[float]:
    import numpy as np

    times = np.concatenate([dataset.train.t, dataset.valid.t, dataset.test.t])
    t = times - times.min()
    counts: list[float] = np.histogram(t, bins=int(min(BINS, t.max() + 1)))[0].tolist()
    return counts


@with_reading
def import_table(
    ctx: typer.Context,
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE...", help=f"{ABOUT_DATA} With --format one or more files, or patterns of names."
        ),
    ],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder to make.")],
    reading: Splitting,
    format: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Files as they are published, packed or not: icews, polecat, gdelt, acled, ucdp, wikidata or tgb.",
        ),
    ] = None,
    language: Annotated[
        str | None, typer.Option(metavar="CODE", help="Labels of Wikidata in this language, such as en; else its ids.")
    ] = None,
    thin: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="SEED", help="Keep only some of the times, 1 to 4 steps apart, drawn with this seed."
        ),
    ] = None,
) -> None:
    """Turn a table of dated facts, or of facts with a start and an end, into a benchmark folder; or thin a set."""
    from tangokg.quads import thin_dataset, write_folder

    output: Output = ctx.obj
    if format is None and len(sources) > 1:
        raise DataError(
            f"{len(sources)} sources were given; expected one. For several files give the --format that they have."
        )
    whole = dataset = reading.read(sources if len(sources) > 1 else sources[0], format, language)
    if thin is not None:
        dataset = thin_dataset(whole, thin)
    tell_data(output, dataset)
    if thin is not None:
        output.say(f"{_extent(dataset)} of {_extent(whole)} were kept, with gaps drawn from seed {thin}.")
    write_folder(dataset, folder)
    output.show(str(folder))
    output.say(f"Next: {shlex.join(['tango', 'train', str(folder)])}")


def _extent(dataset: Dataset) -> str:
    import numpy as np

    return f"{len(np.unique(dataset.facts.t)):,} times and {len(dataset.facts):,} facts"


def tell_data(output: Output, dataset: Dataset) -> None:
    """What was read, in a few lines."""
    from tangokg.quads import inspect

    found = inspect(dataset)
    facts = sum(part["facts"] for part in found["parts"].values())
    output.say(
        f"{dataset.name}: {counted(facts, 'fact')}, {counted(found['entities'], 'entity', 'entities')}, "
        f"{counted(found['relations'], 'relation')}, {counted(found['timestamps'], 'time')}, "
        f"counted in {_unit(found)}"
    )
    for name, part in found["parts"].items():
        output.say(f"  {name:5}  {_part_line(part)}")
    for note in found["notes"]:
        output.say(f"  note: {note}")
    if not found["parts"]["valid"]["facts"]:
        output.say("  note: without a validation part the weights of the last epoch are kept")


def _unit(found: dict[str, Any]) -> str:
    """``days (UTC)``: the unit of time, and the zone of dates."""
    return f"{found['unit']}s" + (f" ({found['timezone']})" if found["timezone"] else "")


def _part_line(part: dict[str, Any]) -> str:
    if not part["facts"]:
        return "no facts"
    unseen = f", {part['share_with_unseen_entity']:.1%} with an entity that training never saw"
    return (
        f"{counted(part['facts'], 'fact')} at {counted(part['timestamps'], 'time')}, {part['first']} to {part['last']}"
        f"{unseen if part['facts_with_unseen_entity'] else ''}"
    )

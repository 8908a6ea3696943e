"""``tango forecast``: questions by name, one at a time or a table of them."""

from __future__ import annotations

import json
from contextlib import nullcontext
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tangokg.cli.options import (
    Columns,
    DateFormat,
    Device,
    Json,
    OneRelation,
    Run,
    SkipBad,
    Timezone,
    parse_columns,
    parse_device,
)
from tangokg.cli.output import Output
from tangokg.errors import ConfigError, DataError
from tangokg.showing import counted

if TYPE_CHECKING:
    from tangokg.forecast import Forecast, Forecaster

WAIT = 120.0  # seconds, for others who keep facts with the same run
TOLD = 0.01  # a smaller difference of two chances needs no words

Subject = Annotated[str | None, typer.Argument(help="Who acts; '?' asks for it.")]
Relation = Annotated[str | None, typer.Argument(help="What is done; '?' asks for it.")]
Object = Annotated[
    str | None, typer.Argument(help="To whom; without it, it is asked for. With all three: the chance of the fact.")
]
At = Annotated[
    str | None, typer.Option(metavar="TIME", help="A date or number; by default one usual gap after the last fact.")
]
By = Annotated[str | None, typer.Option(metavar="TIME", help="At least once between the last fact and this time.")]
Top = Annotated[int, typer.Option(min=1, help="How many answers.")]
Why = Annotated[bool, typer.Option("--why", help="Show the earlier facts that raised the first three answers.")]
Observe = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE",
        help="Facts to add before answering, new names included: a file, or rows of a database. Can be repeated.",
    ),
]
Keep = Annotated[bool, typer.Option("--keep", help="Keep the facts of --observe with the run, for later questions.")]
Queries = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="A table of questions, or one of a database: subject, relation, object, time. A pattern in quotes, "
        "such as 'q/*.parquet', is of several files.",
    ),
]
Shard = Annotated[
    str | None,
    typer.Option(
        metavar="I/N",
        help="Answer part I of N of the questions, and add I and N to the name of --out: for N processes at once.",
    ),
]
Out = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="Where the answers to --queries go: .csv, .tsv, .parquet, or a table of a database."
    ),
]


def forecast(
    ctx: typer.Context,
    run: Run,
    subject: Subject = None,
    relation: Relation = None,
    object: Object = None,
    at: At = None,
    by: By = None,
    top: Top = 10,
    why: Why = False,
    observe: Observe = None,
    keep: Keep = False,
    column: Columns = None,
    timezone: Timezone = None,
    date_format: DateFormat = None,
    all_relation: OneRelation = None,
    queries: Queries = None,
    shard: Shard = None,
    out: Out = None,
    skip_bad: SkipBad = False,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Name the likeliest completions of a fact, the chance of one fact, or the likeliest events."""
    output: Output = ctx.obj
    _check(subject, at, by, queries, shard, out)
    from tangokg.forecast.shards import divide_columns, forecast_files, in_parts

    parts = queries is not None and in_parts(queries, shard, out)
    place = parse_device(device)
    columns = divide_columns(observe or [], queries, parse_columns(column))
    options = {"timezone": timezone, "date_format": date_format, "relation": all_relation, "skip_bad": skip_bad}
    reading = {name: value for name, value in options.items() if value is not None}
    observed = [(path, reading | {"columns": columns[path] or None}) for path in observe or []]
    forecaster = _load(output, run, place, observed, keep)
    question: dict[str, Any] = {"at": at, "by": by, "top": top, "why": why}
    if queries is None:
        _show(output, forecaster.forecast(subject, relation, object, **question), as_json)
        return
    question["skip_bad"] = skip_bad
    if parts:
        question |= {"columns": columns[queries], "date_format": date_format, "shard": shard or "1/1"}
        with output.progress("answering") as advance:
            written = forecast_files(forecaster, queries, out or "", **question, progress=advance)
        output.say(f"The answers are in {written}.")
        return
    from tangokg.forecast.tables import open_questions

    questions = open_questions(queries, columns[queries], date_format)
    answers = forecaster.forecast_table(questions, **question)
    if skip_bad:
        _tell_skipped(output, len(questions.table), answers)
    _write(output, answers, out, as_json)


def _check(
    subject: str | None, at: str | None, by: str | None, queries: str | None, shard: str | None, out: str | None
) -> None:
    """Raise an error, before the run is loaded, if options conflict."""
    if queries is not None and subject is not None:
        raise DataError(f"give a question ({subject!r} ...) or --queries {queries}, not both.")
    if at is not None and by is not None:
        raise DataError(f"--at {at} asks for one step, --by {by} for all until then: give one of them.")
    if out is not None and queries is None:
        raise DataError("--out goes with --queries; a single answer is printed (--json for programs).")
    if shard is not None and queries is None:
        raise ConfigError("--shard is a part of the questions of --queries FILE.")
    if out is not None:
        from tangokg.forecast.writing import check_answers_place

        check_answers_place(out)


def _load(output: Output, run: Path, device: str, observed: list[tuple[str, dict[str, Any]]], keep: bool) -> Forecaster:
    """Load the run with the facts of files, and optionally store them under a lock, so that no facts are lost."""
    from tangokg.forecast import load
    from tangokg.train.replacing import owning_existing

    with owning_existing(run, WAIT) if keep else nullcontext():
        forecaster = load(run, device)
        for path, reading in observed:
            _observe(output, forecaster, path, reading, keep)
        if observed:
            _note_untrained(output, forecaster)
        if keep:
            _keep(output, run, forecaster, bool(observed))
    return forecaster


def _observe(output: Output, forecaster: Forecaster, path: str, reading: dict[str, Any], keep: bool) -> None:
    """Add the facts of a file, and report what is new."""
    from tangokg.quads.addresses import is_address

    if not (is_address(path) or Path(path).is_file()):
        raise DataError(f"{path}: no such file: --observe takes a table of dated facts.")
    before = forecaster.facts.vocab
    added = forecaster.observe(path, **reading)
    after = forecaster.facts.vocab
    names = counted(after.num_entities - before.num_entities, "new name")
    relations = counted(after.num_relations - before.num_relations, "new relation")
    are = "is" if added == 1 else "are"
    end = "." if keep else "; the run itself is as it was."
    output.say(f"{counted(added, 'new fact')} of {path} {are} known now, with {names} and {relations}{end}")
    for note in forecaster.dataset.after.notes if forecaster.dataset.after else ():
        output.say(f"  note: {note}")


def _note_untrained(output: Output, forecaster: Forecaster) -> None:
    """Name the observed relations that no trained fact has."""
    dataset = forecaster.dataset
    observed = set() if dataset.after is None else set(dataset.after.r.tolist())
    names = [dataset.vocab.relations[r] for r in sorted(observed - set(dataset.past.r.tolist()))]
    if names:
        shown = ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        output.say(f"  note: training never saw {shown}: forecasts with a new relation are little more than guesses")


def _keep(output: Output, run: Path, forecaster: Forecaster, observed: bool) -> None:
    """Write the observed facts into the run folder, without changing weights and metrics."""
    from tangokg.train import RunFolder

    if not observed:
        raise ConfigError("--keep keeps the facts of --observe FILE: give both.")
    RunFolder(run).keep_facts(forecaster.dataset)
    number = 0 if forecaster.dataset.after is None else len(forecaster.dataset.after)
    output.say(f"They stay with {run}, which has {counted(number, 'fact')} observed since training.")


def _tell_skipped(output: Output, count: int, answers: Any) -> None:
    skipped = count - len(set(answers.column("query").to_pylist()))
    if skipped:
        output.say(
            f"{skipped:,} of {count:,} questions were left out (--skip-bad): their names are not known, or their times "
            "cannot be read."
        )


def _show(output: Output, answer: Forecast, as_json: bool) -> None:
    from tangokg.forecast.reasons import HEADINGS

    if as_json:
        output.json(answer.to_dict())
        return
    output.show(answer.table())
    chances = [candidate.chance for candidate in answer.answers]
    if any(later - before > TOLD for before, later in combinations(chances, 2)):
        output.say(
            "note: answers stand in the order of the model's scores. Their chances also count how each fact came back "
            "before, and here a later answer has a larger chance."
        )
    for candidate in answer.answers:
        if candidate.reasons is not None:
            output.show("")
            output.table(candidate.reasons.title, HEADINGS, candidate.reasons.rows(), left=3)


def _write(output: Output, answers: Any, out: str | None, as_json: bool) -> None:
    """Write a table of answers to a file or database, completely or not at all, or to standard output."""
    from tangokg.forecast.writing import to_csv, write_answers

    if out is not None:
        place = write_answers(answers, out)
        output.say(f"{counted(len(answers), 'answer')} {'is' if len(answers) == 1 else 'are'} in {place}.")
    if as_json:  # reasons are texts in a table, and data in JSON
        rows = answers.to_pylist()
        output.json([row | ({"reasons": json.loads(row["reasons"])} if row.get("reasons") else {}) for row in rows])
    elif out is None:
        typer.echo(output.shown(to_csv(answers).decode()), nl=False)

"""``tango forecast``: questions by name, one at a time or a table of them."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, closing, nullcontext
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
from tangokg.cli.tables import bar, counted, make_table
from tangokg.errors import ConfigError, DataError, UnknownName

if TYPE_CHECKING:
    from tangokg.forecast import Forecast, Forecaster

WAIT = 120.0  # seconds, for others who keep facts with the same run


def forecast(
    ctx: typer.Context,
    run: Run,
    subject: Annotated[str | None, typer.Argument(help="Who acts; '?' asks for it.")] = None,
    relation: Annotated[str | None, typer.Argument(help="What is done; '?' asks for it.")] = None,
    object: Annotated[
        str | None,
        typer.Argument(help="To whom; without it, it is asked for. With all three: the chance of the fact."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="A date or number; by default one usual gap after the last fact."),
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="TIME", help="At least once between the last fact and this time.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many answers.")] = 10,
    why: Annotated[
        bool, typer.Option("--why", help="Show the earlier facts that raised the first three answers.")
    ] = False,
    observe: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Facts to add before answering, new names included: a file, or rows of a database. Can be repeated.",
        ),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the facts of --observe with the run, for later questions.")
    ] = False,
    column: Columns = None,
    timezone: Timezone = None,
    date_format: DateFormat = None,
    all_relation: OneRelation = None,
    queries: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="A table of questions, or one of a database: subject, relation, object, time. A pattern in quotes, "
            "such as 'q/*.parquet', is of several files.",
        ),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="Answer part I of N of the questions, and add I and N to the name of --out: for N processes at once.",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Where the answers to --queries go: .csv, .tsv, .parquet, or a table of a database."
        ),
    ] = None,
    skip_bad: SkipBad = False,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Name the likeliest completions of a fact, the chance of one fact, or the likeliest events."""
    output: Output = ctx.obj
    _check(subject, at, by, queries, shard, out)
    in_parts = queries is not None and _in_parts(queries, shard, out)
    place = parse_device(device)
    from tangokg.forecast import load

    files = observe or []
    columns = _columns_of(files, queries, parse_columns(column))
    given = {"timezone": timezone, "date_format": date_format, "relation": all_relation, "skip_bad": skip_bad}
    reading = {name: value for name, value in given.items() if value is not None}
    with _keeping(run) if keep else nullcontext():
        forecaster = load(run, place)
        for path in files:
            _observe(output, forecaster, path, reading | {"columns": columns[path] or None}, keep)
        if files:
            _note_untrained(output, forecaster)
        if keep:
            _keep(output, run, forecaster, files)
    if queries is not None and in_parts:
        from tangokg.forecast.shards import forecast_files

        asked: dict[str, Any] = {"at": at, "by": by, "top": top, "skip_bad": skip_bad, "why": why}
        asked |= {"columns": columns[queries], "date_format": date_format, "shard": shard or "1/1"}
        with output.progress("answering") as advance:
            written = forecast_files(forecaster, queries, out or "", **asked, progress=advance)
        output.say(f"The answers are in {written}.")
        return
    if queries is not None:
        from tangokg.forecast.tables import open_questions

        questions = open_questions(queries, columns[queries], date_format)
        answers = forecaster.forecast_table(questions, at=at, by=by, top=top, skip_bad=skip_bad, why=why)
        if skip_bad:
            _tell_skipped(output, len(questions.table), answers)
        _write(output, answers, out, as_json)
        return
    answer = forecaster.forecast(subject, relation, object, at=at, by=by, top=top, why=why)
    if as_json:
        output.json(answer.to_dict())
    else:
        _show(output, answer)


def _check(
    subject: str | None, at: str | None, by: str | None, queries: str | None, shard: str | None, out: str | None
) -> None:
    """An error, before the run is loaded, if options do not go together."""
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


def _in_parts(queries: str, shard: str | None, out: str | None) -> bool:
    """Whether questions are answered some at a time, into a file; an error if something else stands against it."""
    from tangokg.forecast.shards import is_pattern, parse_shard, question_files
    from tangokg.quads.addresses import is_address

    if shard is None and not is_pattern(queries):
        return False
    parse_shard(shard or "1/1")
    question_files(queries)
    if out is None or is_address(out):
        raise ConfigError("--shard, and --queries with a pattern, need --out FILE: .csv, .tsv or .parquet.")
    return True


def _columns_of(observe: list[str], queries: str | None, given: dict[str, str]) -> dict[str, dict[str, str]]:
    """--column for each file; if there are facts and questions, each takes those that it has."""
    files = [*observe, *([queries] if queries else [])]
    if not (given and observe and queries):
        return dict.fromkeys(files, given)
    from tangokg.quads.tables import open_table

    headings = {}
    for path in files:
        first = path if path in observe else _first_file(path)
        with closing(open_table(first, given.values())) as opened:
            headings[path] = opened.table.column_names
    known = {name for names in headings.values() for name in names}
    for name in given.values():
        if name not in known:
            raise UnknownName("column", name, known, "No file has it.")
    return {path: {role: name for role, name in given.items() if name in headings[path]} for path in files}


def _first_file(queries: str) -> str:
    """The one file of questions, or the first of several, which have the same headings."""
    from tangokg.forecast.shards import is_pattern, question_files

    return str(question_files(queries)[0]) if is_pattern(queries) else queries


def _keeping(run: Path) -> AbstractContextManager[None]:
    """Hold a run from reading its facts to writing more: others who do the same wait, so that no facts are lost."""
    from tangokg.train import RunFolder
    from tangokg.train.locks import owning

    RunFolder(run).config()  # an error, before a lock is made beside it, if this is not a run
    return owning(run, WAIT)


def _observe(output: Output, forecaster: Forecaster, path: str, reading: dict[str, Any], keep: bool) -> None:
    """Add the facts of a file, and say what is new in it."""
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


def _keep(output: Output, run: Path, forecaster: Forecaster, observed: list[str]) -> None:
    """Write what was observed into the run folder; its weights and figures stay."""
    from tangokg.train import RunFolder

    if not observed:
        raise ConfigError("--keep keeps the facts of --observe FILE: give both.")
    RunFolder(run).keep_facts(forecaster.dataset)
    number = 0 if forecaster.dataset.after is None else len(forecaster.dataset.after)
    output.say(f"They stay with {run}, which has {counted(number, 'fact')} observed since training.")


def _tell_skipped(output: Output, asked: int, answers: Any) -> None:
    skipped = asked - len(set(answers.column("query").to_pylist()))
    if skipped:
        output.say(
            f"{skipped:,} of {asked:,} questions were left out (--skip-bad): their names are not known, or their times "
            "cannot be read."
        )


def _show(output: Output, answer: Forecast) -> None:
    from tangokg.forecast.reasons import HEADINGS

    output.show(answers_table(answer))
    for one in answer.answers:
        if one.reasons is not None:
            output.show("")
            output.show(make_table(one.reasons.title, HEADINGS, one.reasons.rows(), left=3))


def answers_table(answer: Forecast, happened: frozenset[str] | None = None) -> Any:
    """The answers with bars; with ``happened``, the names that turned out true are ticked."""
    from tangokg.forecast.answers import evidence

    rows = []
    for place, one in enumerate(answer.answers, 1):
        name = f"{one.subject}, {one.relation}, {one.object}" if answer.asked == "fact" else one.name
        row = [f"{place}", name, f"{one.chance:6.1%}", bar(one.chance, 10), f"{one.share:6.1%}", evidence(one)]
        if happened is not None:
            row.append("yes" if one.name in happened else "")
        rows.append(row)
    columns = ("", answer.asked, "chance", "", "share", "before", *(["happened"] if happened is not None else []))
    title = [answer.title]
    if answer.happens is not None:
        title.append(f"{answer.condition} has any fact {'by' if answer.by else 'at'} {answer.at}: {answer.happens:.1%}")
    return make_table(title, columns, rows, left=7)


def _write(output: Output, answers: Any, out: str | None, as_json: bool) -> None:
    """A table of answers: to a file or database, all of it or nothing, or to standard output."""
    from tangokg.forecast.writing import to_csv, write_answers

    if out is not None:
        place = write_answers(answers, out)
        output.say(f"{counted(len(answers), 'answer')} {'is' if len(answers) == 1 else 'are'} in {place}.")
    if as_json:  # reasons are texts in a table, and data in JSON
        rows = answers.to_pylist()
        output.json([row | ({"reasons": json.loads(row["reasons"])} if row.get("reasons") else {}) for row in rows])
    elif out is None:
        typer.echo(output.shown(to_csv(answers).decode()), nl=False)

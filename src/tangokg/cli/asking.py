"""``tango forecast``: questions by name, one at a time or a table of them."""

from __future__ import annotations

import io
import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tangokg.cli.keeping import keep_observed, keeping
from tangokg.cli.options import (
    AnswersFile,
    At,
    Columns,
    DateFormat,
    Device,
    Json,
    Keep,
    Object,
    Observe,
    OneRelation,
    QueriesFile,
    Relation,
    Run,
    SkipBad,
    Subject,
    Timezone,
    Top,
    Until,
    Why,
    parse_columns,
    parse_device,
)
from tangokg.cli.output import Output, bar, counted, make_table
from tangokg.cli.spreadsheets import without_formulas
from tangokg.errors import DataError, UnknownName

if TYPE_CHECKING:
    from tangokg.forecast import Forecast, Forecaster

SUFFIXES = (".csv", ".tsv", ".parquet")


def forecast(
    ctx: typer.Context,
    run: Run,
    subject: Subject = None,
    relation: Relation = None,
    object: Object = None,
    at: At = None,
    by: Until = None,
    top: Top = 10,
    why: Why = False,
    observe: Observe = None,
    keep: Keep = False,
    column: Columns = None,
    timezone: Timezone = None,
    date_format: DateFormat = None,
    all_relation: OneRelation = None,
    queries: QueriesFile = None,
    out: AnswersFile = None,
    skip_bad: SkipBad = False,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Name the likeliest completions of a fact, the chance of one fact, or the likeliest events."""
    output: Output = ctx.obj
    _check(subject, at, by, queries, out)
    place = parse_device(device)
    from tangokg.forecast import load
    from tangokg.forecast.reasons import HEADINGS

    columns = _columns_of([*(observe or [])], queries, parse_columns(column))
    given = {"timezone": timezone, "date_format": date_format, "relation": all_relation}
    reading = {name: value for name, value in given.items() if value is not None}
    with keeping(run) if keep else nullcontext():
        forecaster = load(run, place)
        for path in observe or []:
            _observe(output, forecaster, path, reading | {"skip_bad": skip_bad}, columns[path], keep)
        if observe:
            _tell_untrained(output, forecaster)
        if keep:
            keep_observed(output, run, forecaster, observe)
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
        return
    output.show(answers_table(answer))
    for one in answer.answers:
        if one.reasons is not None:
            output.show("")
            output.show(make_table(one.reasons.title, HEADINGS, one.reasons.rows(), left=3))


def _columns_of(observe: list[Path], queries: Path | None, given: dict[str, str]) -> dict[Path, dict[str, str]]:
    """--column for each file; where there are facts and questions, each takes those that it has."""
    files = [*observe, *([queries] if queries else [])]
    if not (given and observe and queries):
        return dict.fromkeys(files, given)
    from tangokg.quads.tables import open_table

    found = {path: open_table(path, given.values()).table.column_names for path in files}
    for name in given.values():
        if not any(name in names for names in found.values()):
            raise UnknownName("column", name, {n for names in found.values() for n in names}, "No file has it.")
    return {path: {role: n for role, n in given.items() if n in names} for path, names in found.items()}


def _tell_skipped(output: Output, asked: int, answers: Any) -> None:
    skipped = asked - len(set(answers.column("query").to_pylist()))
    if skipped:
        output.say(
            f"{skipped:,} of {asked:,} questions were left out (--skip-bad): they have a name that is not known, or a "
            f"time that is none."
        )


def _observe(
    output: Output, forecaster: Forecaster, path: Path, reading: dict[str, Any], columns: dict[str, str], keep: bool
) -> None:
    """Take the facts of a file, and say what is new in it."""
    if not path.is_file():
        raise DataError(f"{path}: no such file: --observe takes a table of dated facts.")
    before = forecaster.facts.vocab
    added = forecaster.observe(path, **({"columns": columns} if columns else {}), **reading)
    after = forecaster.facts.vocab
    names = counted(after.num_entities - before.num_entities, "new name")
    relations = counted(after.num_relations - before.num_relations, "new relation")
    are = "is" if added == 1 else "are"
    end = "." if keep else "; the run itself is as it was."
    output.say(f"{counted(added, 'new fact')} of {path} {are} known now, with {names} and {relations}{end}")
    for note in forecaster.dataset.after.notes if forecaster.dataset.after else ():
        output.say(f"  note: {note}")


def _tell_untrained(output: Output, forecaster: Forecaster) -> None:
    """Name the observed relations that no trained fact has."""
    dataset = forecaster.dataset
    observed = set() if dataset.after is None else set(dataset.after.r.tolist())
    names = [dataset.vocab.relations[r] for r in sorted(observed - set(dataset.past.r.tolist()))]
    if names:
        shown = ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        output.say(f"  note: training never saw {shown}: forecasts with a relation that is new are little but guesses")


def _check(subject: str | None, at: str | None, by: str | None, queries: Path | None, out: Path | None) -> None:
    """One question or a file of them; what is wrong here is told before the run is loaded."""
    if queries is not None and subject is not None:
        raise DataError(f"give a question ({subject!r} ...) or --queries {queries}, not both.")
    if at is not None and by is not None:
        raise DataError(f"--at {at} asks for one step, --by {by} for all until then: give one of them.")
    if out is not None and queries is None:
        raise DataError("--out goes with --queries; a single answer is printed (--json for programs).")
    if out is not None and out.suffix.casefold() not in SUFFIXES:
        raise DataError(f"{out}: cannot tell the format from {out.suffix!r}; expected one of {', '.join(SUFFIXES)}.")


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


def _reasons(row: dict[str, Any]) -> dict[str, Any]:
    """Reasons are texts in a table, and data in JSON."""
    return {"reasons": json.loads(row["reasons"])} if row.get("reasons") else {}


def _write(output: Output, answers: Any, out: Path | None, as_json: bool) -> None:
    """A table of answers: to a file, all of it or nothing, or to standard output."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    from tangokg.train.checkpoint import write_atomically

    if out is not None:
        sink = pa.BufferOutputStream()
        if out.suffix.casefold() == ".parquet":
            pa.parquet.write_table(answers, sink)
        else:
            tabs = pa.csv.WriteOptions(delimiter="\t" if out.suffix.casefold() == ".tsv" else ",")
            pa.csv.write_csv(without_formulas(answers), sink, tabs)
        write_atomically(out, sink.getvalue().to_pybytes())
        output.say(f"{counted(len(answers), 'answer')} {'is' if len(answers) == 1 else 'are'} in {out}.")
    if as_json:
        output.json([row | _reasons(row) for row in answers.to_pylist()])
    elif out is None:
        text = io.BytesIO()
        pa.csv.write_csv(without_formulas(answers), text)
        typer.echo(output.shown(text.getvalue().decode()), nl=False)

"""Many questions from a table, and their answers as a table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from itertools import islice
from typing import Any

import pyarrow as pa

from tangokg.errors import DataError
from tangokg.forecast.answers import Forecast
from tangokg.forecast.questions import Dated, Question, When, make_question, place
from tangokg.quads.badrows import SHOWN, omission, refusal
from tangokg.quads.columns import find_some_columns
from tangokg.quads.tables import Source, open_table

COLUMNS = ("subject", "relation", "object", "time")


def open_questions(source: Any, columns: Mapping[str, str] | None = None, date_format: str | None = None) -> Source:
    """The columns of a table that say subject, relation, object, time, under these names; not all need be there.

    They are recognised as in :func:`tangokg.read_events`, or named by ``columns``; ``date_format`` is how times are
    written, a pattern such as "%d.%m.%Y".
    """
    with closing(open_table(source, (columns or {}).values())) as unread:
        chosen = find_some_columns(unread.table.column_names, columns, COLUMNS, unread.place)
        opened = unread.read(chosen.values())
    table = opened.table.select(list(chosen.values())).rename_columns(list(chosen))
    if date_format and "time" in chosen:
        times = [_iso(cell, date_format) for cell in table.column("time").to_pylist()]
        table = table.set_column(table.column_names.index("time"), "time", pa.array(times, pa.string()))
    return replace(opened, table=table)


def _iso(cell: Any, date_format: str) -> str | None:
    """Times in another format as ISO; a value that does not fit stays, and is reported with its row."""
    if cell is None:
        return None
    with suppress(ValueError):
        return datetime.strptime(str(cell).strip(), date_format).isoformat()
    return str(cell)


def read_questions(
    source: Any, facts: Dated, at: When = None, by: When = None, skip_bad: bool = False
) -> dict[int, Question]:
    """Row -> question, of a table (:func:`open_questions`, whose result is a source too); an empty cell is asked for.

    All rows that cannot be asked, such as those with an unknown name, are reported together; ``skip_bad`` omits them.
    """
    opened = open_questions(source)
    if not len(opened.table):
        raise DataError(f"{opened.place}: the table holds column names but no questions; expected at least one row.")
    questions, wrong = sort_questions(opened, facts, at, by)
    if wrong:
        reports = [f"{opened.locate(row)}: {reason}" for row, reason in islice(wrong.items(), SHOWN)]
        if not skip_bad or not questions:
            raise refusal(reports, len(wrong), len(opened.table), rows="questions")
        omission(reports, len(wrong), len(opened.table), "questions")
    return questions


def sort_questions(
    opened: Source, facts: Dated, at: When = None, by: When = None
) -> tuple[dict[int, Question], dict[int, str]]:
    """Row -> question, and row -> what is wrong with it."""
    table = opened.table
    try:
        columns = [table.column(c).to_pylist() if c in table.column_names else [None] * len(table) for c in COLUMNS]
    except (OverflowError, ValueError) as error:
        raise DataError(f"{opened.place}: a time outside the years 1 to 9999 found ({error}).") from None
    questions: dict[int, Question] = {}
    wrong: dict[int, str] = {}
    default: float | None = None  # the time of rows without one
    for row, (*cells, time) in enumerate(zip(*columns, strict=True)):
        s, r, o = (None if cell is None else str(cell).strip() or None for cell in cells)
        try:
            if (s, r, o) == (None, None, None):
                raise DataError("the row is empty: expected at least one of subject, relation and object.")
            if by is not None:
                questions[row] = make_question(facts, s, r, o, at, by)
                continue
            if time is None or not str(time).strip():
                default = place(facts, at) if default is None else default
                time = default
            elif isinstance(time, Decimal):
                time = float(time)
            questions[row] = make_question(facts, s, r, o, time)
        except DataError as error:
            wrong[row] = str(error)
    return questions, wrong


def answers_table(forecasts: list[Forecast], numbers: Sequence[int] | None = None, reasons: bool = False) -> pa.Table:
    """One row for each answer: the question it belongs to, its place, its name and its chances.

    ``by`` says that the time ends a span, ``happens`` is the chance that the question has an answer at all.
    ``numbers`` are those of the questions, where they are not 0, 1, 2 and so on. With ``reasons`` there is a column of
    this name also where no answer has any.
    """
    rows = [
        {
            "query": number,
            "subject": forecast.subject,
            "relation": forecast.relation,
            "object": forecast.object,
            "time": forecast.at,
            "by": forecast.by,
            "rank": place,
            "answer": answer.name,
            "share": answer.share,
            "chance": answer.chance,
            "happens": forecast.happens,
            "seen": answer.seen,
            "last": answer.last,
            **({} if answer.reasons is None else {"reasons": json.dumps(answer.reasons.to_dict(), ensure_ascii=False)}),
        }
        for number, forecast in zip(numbers or range(len(forecasts)), forecasts, strict=True)
        for place, answer in enumerate(forecast.answers, 1)
    ]
    kinds = {"query": pa.int64(), "rank": pa.int64(), "share": pa.float64(), "chance": pa.float64()}
    kinds |= {"seen": pa.int64(), "happens": pa.float64(), "by": pa.bool_()}
    names = ["query", "subject", "relation", "object", "time", "by", "rank", "answer", "share", "chance", "happens"]
    names += ["seen", "last", *(["reasons"] if reasons or any("reasons" in row for row in rows) else [])]
    return pa.Table.from_pylist(rows, schema=pa.schema([(name, kinds.get(name, pa.string())) for name in names]))

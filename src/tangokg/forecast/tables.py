"""Many questions from a table, and their answers as a table."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa

from tangokg.errors import DataError
from tangokg.forecast.answers import Forecast
from tangokg.forecast.questions import Question, When, make_question, place
from tangokg.quads.tables import open_table
from tangokg.quads.values import Quadruples

COLUMNS = ("subject", "relation", "object", "time")


def read_questions(source: Any, facts: Quadruples, at: When) -> list[Question]:
    """Rows of a table with some of the columns subject, relation, object, time; an empty cell is asked for."""
    opened = open_table(source)
    table = opened.table
    names = {str(name).strip().casefold(): i for i, name in enumerate(table.column_names)}
    if not {"subject", "relation", "object"} & set(names):
        found = ", ".join(map(repr, table.column_names))
        raise DataError(f"{opened.place}: columns {found} found; expected some of {', '.join(COLUMNS)}.")
    if not len(table):
        raise DataError(f"{opened.place}: the table holds column names but no questions; expected at least one row.")
    try:
        columns = [table.column(names[c]).to_pylist() if c in names else [None] * len(table) for c in COLUMNS]
    except (OverflowError, ValueError) as error:
        raise DataError(f"{opened.place}: a time outside the years 1 to 9999 found ({error}).") from None
    questions = []
    default: float | None = None  # the time of rows without one
    for row, (*cells, time) in enumerate(zip(*columns, strict=True)):
        s, r, o = (None if cell is None else str(cell).strip() or None for cell in cells)
        try:
            if time is None or not str(time).strip():
                default = place(facts, at) if default is None else default
                time = default
            elif isinstance(time, Decimal):
                time = float(time)
            questions.append(make_question(facts, s, r, o, time))
        except DataError as error:
            raise DataError(f"{opened.locate(row)}: {error}") from None
    return questions


def answers_table(forecasts: list[Forecast]) -> pa.Table:
    """One row for each answer: the question it belongs to, its place, its name and its probability."""
    rows = [
        {
            "query": number,
            "subject": forecast.subject,
            "relation": forecast.relation,
            "object": forecast.object,
            "time": forecast.at,
            "rank": place,
            "answer": answer.name,
            "probability": answer.probability,
            "seen": answer.seen,
            "last": answer.last,
        }
        for number, forecast in enumerate(forecasts)
        for place, answer in enumerate(forecast.answers, 1)
    ]
    kinds = {"query": pa.int64(), "rank": pa.int64(), "probability": pa.float64(), "seen": pa.int64()}
    names = ["query", "subject", "relation", "object", "time", "rank", "answer", "probability", "seen", "last"]
    return pa.Table.from_pylist(rows, schema=pa.schema([(name, kinds.get(name, pa.string())) for name in names]))

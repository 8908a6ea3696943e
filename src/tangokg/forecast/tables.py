"""Many questions from a table, and their answers as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from tangokg.errors import DataError
from tangokg.forecast.answers import Forecast
from tangokg.forecast.questions import Question, When, make_question
from tangokg.quads.values import Quadruples

COLUMNS = ("subject", "relation", "object", "time")


def read_questions(source: Any, facts: Quadruples, at: When) -> list[Question]:
    """Rows of a table with some of the columns subject, relation, object, time; an empty cell is asked for."""
    where, table = _as_table(source)
    names = {str(name).strip().casefold(): i for i, name in enumerate(table.column_names)}
    if not {"subject", "relation", "object"} & set(names):
        raise DataError(
            f"{where}: columns {', '.join(map(repr, table.column_names))} found; expected some of {', '.join(COLUMNS)}."
        )
    columns = [table.column(names[c]).to_pylist() if c in names else [None] * len(table) for c in COLUMNS]
    questions = []
    for number, (subject, relation, object, time) in enumerate(zip(*columns, strict=True), 1):
        s, r, o = (None if cell is None else str(cell).strip() or None for cell in (subject, relation, object))
        when = at if time is None or (isinstance(time, str) and not time.strip()) else time
        try:
            questions.append(make_question(facts, s, r, o, when))
        except DataError as error:
            raise DataError(f"{where}, question {number}: {error}") from None
    return questions


def _as_table(source: Any) -> tuple[str, pa.Table]:
    if not isinstance(source, str | Path):
        if not hasattr(source, "__arrow_c_stream__"):
            raise DataError(f"queries must be a file or a table with the Arrow stream interface, found {type(source)}.")
        return "queries", pa.table(source)
    path = Path(source)
    try:
        if path.suffix == ".parquet":
            return path.name, pa.parquet.read_table(path)
        delimiter = "\t" if path.suffix in (".tsv", ".txt") else ","
        header = path.open("rb").readline().decode("utf-8-sig").rstrip("\r\n").split(delimiter)
        as_text = {name.strip('"'): pa.string() for name in header}
        return path.name, pa.csv.read_csv(
            path,
            parse_options=pa.csv.ParseOptions(delimiter=delimiter),
            convert_options=pa.csv.ConvertOptions(column_types=as_text, strings_can_be_null=True),
        )
    except FileNotFoundError:
        raise DataError(f"{path}: no such file.") from None
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise DataError(f"{path}: no table of questions can be read from it ({error}).") from None


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

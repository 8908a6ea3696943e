"""More questions than fit into memory: several files, with a share of the rows for each process."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from glob import glob
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tangokg.errors import ConfigError, DataError, UnknownName
from tangokg.forecast.answering import Answering
from tangokg.forecast.horizon import warn_far, warn_gaps
from tangokg.forecast.questions import Dated, Question, When
from tangokg.forecast.tables import COLUMNS, answers_table, open_questions, sort_questions
from tangokg.forecast.writing import writing_answers
from tangokg.quads.addresses import is_address
from tangokg.quads.badrows import SHOWN, omission, refusal
from tangokg.quads.columns import find_some_columns
from tangokg.quads.files import Source
from tangokg.quads.tables import open_table

if TYPE_CHECKING:
    from tangokg.forecast.forecaster import Forecaster

ROWS = 4096  # questions in memory at once


@dataclass(frozen=True)
class Shard:
    """Part ``number`` (from 1) of ``count``: consecutive rows; the sizes of parts differ by at most one."""

    number: int = 1
    count: int = 1

    def rows(self, total: int) -> range:
        return range(total * (self.number - 1) // self.count, total * self.number // self.count)

    def place(self, out: Path) -> Path:
        """``answers.parquet`` -> ``answers-03-of-12.parquet``; names in order are rows in order."""
        if self.count == 1:
            return out
        number = f"{self.number:0{len(str(self.count))}}"
        return out.with_name(f"{out.stem}-{number}-of-{self.count}{out.suffix}")


def parse_shard(text: str) -> Shard:
    """``3/12``."""
    parts = re.fullmatch(r"\s*(\d{1,9})\s*/\s*(\d{1,9})\s*", text)
    shard = Shard(*map(int, parts.groups())) if parts else Shard(0, 0)
    if not 1 <= shard.number <= shard.count:
        raise ConfigError(f"--shard {text!r}: expected i/n with i from 1 to n, such as 3/12.")
    return shard


def is_pattern(queries: str) -> bool:
    """Whether a text names several files, such as ``q/*.parquet``."""
    return any(letter in queries for letter in "*?[") and not is_address(queries) and not Path(queries).exists()


def in_parts(queries: str, shard: str | None, out: str | None) -> bool:
    """Whether questions are answered in batches into a file; raises an error if other options rule that out."""
    if shard is None and not is_pattern(queries):
        return False
    parse_shard(shard or "1/1")
    question_files(queries)
    if out is None or is_address(out):
        raise ConfigError("--shard, and --queries with a pattern, need --out FILE: .csv, .tsv or .parquet.")
    return True


def divide_columns(observe: list[str], queries: str | None, columns: dict[str, str]) -> dict[str, dict[str, str]]:
    """The columns named by the user that each file has: files of facts to add and of questions."""
    files = [*observe, *([queries] if queries else [])]
    if not (columns and observe and queries):
        return dict.fromkeys(files, columns)
    headings = {}
    for path in files:
        first = question_files(path)[0] if path == queries and is_pattern(path) else path
        with closing(open_table(first, columns.values())) as opened:
            headings[path] = opened.table.column_names
    known = {name for names in headings.values() for name in names}
    for name in columns.values():
        if name not in known:
            raise UnknownName("column", name, known, "No file has it.")
    return {path: {role: name for role, name in columns.items() if name in headings[path]} for path in files}


def question_files(queries: str) -> list[Path]:
    """The files of a pattern, or the one file, in order of their names."""
    if is_address(queries):
        raise ConfigError("--shard needs questions from files, and this is a database.")
    files = sorted(Path(name) for name in glob(queries, recursive=True)) if is_pattern(queries) else [Path(queries)]
    files = [path for path in files if path.is_file()]
    if not files:
        raise DataError(f"{queries}: no such file. Put a pattern into quotes: --queries 'q/*.parquet'.")
    return files


@dataclass(frozen=True)
class QuestionFiles:
    """Rows of questions over several files, numbered consecutively and read in batches.

    Parquet is read in batches. A file of text is read as a whole, one at a time.
    """

    files: tuple[Path, ...]
    columns: Mapping[str, str] = field(default_factory=dict)
    date_format: str | None = None
    ends: tuple[int, ...] = ()  # of each file, in rows over all

    @classmethod
    def of(cls, queries: str, columns: Mapping[str, str], date_format: str | None) -> QuestionFiles:
        """All files with their numbers of rows."""
        unread = cls(tuple(question_files(queries)), columns, date_format)
        ends = tuple(accumulate(unread._count(path) for path in unread.files))
        if not ends[-1]:
            raise DataError(f"{queries}: column names but no questions; expected at least one row.")
        return replace(unread, ends=ends)

    def batches(self, rows: range) -> Iterator[tuple[int, Source]]:
        """Batches of ``rows`` in order, each with the number of its first row."""
        for path, (first, end) in zip(self.files, pairwise((0, *self.ends)), strict=True):
            inside = range(max(rows.start, first) - first, min(rows.stop, end) - first)
            if len(inside):
                for place, opened in self._read(path, inside):
                    yield first + place, opened

    def questions(
        self, rows: range, facts: Dated, at: When = None, by: When = None
    ) -> Iterator[tuple[int, dict[int, Question]]]:
        """How many rows are read, and the next questions by their row over all files; bad ones are left out."""
        for first, opened in self.batches(rows):
            questions, _ = sort_questions(opened, facts, at, by)
            numbered = {first + row: question for row, question in questions.items()}
            yield first - rows.start + len(opened.table), numbered

    def check(
        self, rows: range, facts: Dated, at: When = None, by: When = None, skip_bad: bool = False
    ) -> list[Question]:
        """Check all rows before any is answered; report all invalid ones together.

        Returns one question for each distinct time, for warnings.
        """
        reports: list[str] = []
        wrong, accepted = 0, 0
        times: dict[tuple[float, bool], Question] = {}
        for _, opened in self.batches(rows):
            questions, bad = sort_questions(opened, facts, at, by)
            reports += [f"{opened.locate(row)}: {why}" for row, why in islice(bad.items(), SHOWN - len(reports))]
            wrong, accepted = wrong + len(bad), accepted + len(questions)
            times |= {(question.t, question.span): question for question in questions.values()}
        if wrong and not (skip_bad and accepted):
            raise refusal(reports, wrong, len(rows), rows="questions")
        if wrong:
            omission(reports, wrong, len(rows), "questions")
        return list(times.values())

    def _count(self, path: Path) -> int:
        if _is_parquet(path):
            with _parquet(path) as file:
                return int(file.metadata.num_rows)
        return len(self._text(path).table)

    def _text(self, path: Path) -> Source:
        return open_questions(path, self.columns, self.date_format)

    def _read(self, path: Path, rows: range) -> Iterator[tuple[int, Source]]:
        if not _is_parquet(path):
            opened = self._text(path)
            for start in range(rows.start, rows.stop, ROWS):
                chunk = np.arange(start, min(start + ROWS, rows.stop))
                kept = chunk if opened.rows is None else opened.rows[chunk]
                yield start, replace(opened, table=opened.table.slice(start, len(chunk)), rows=kept)
            return
        with _parquet(path) as file:
            start = 0
            for batch in _batches(file, self._names(file, path), path.name):
                inside = range(max(rows.start, start) - start, min(rows.stop, start + len(batch)) - start)
                if len(inside):
                    table = pa.Table.from_batches([batch]).slice(inside.start, len(inside))
                    source = Source(table, path.name, rows=np.arange(start + inside.start, start + inside.stop))
                    yield start + inside.start, open_questions(source, self.columns, self.date_format)
                start += len(batch)

    def _names(self, file: pq.ParquetFile, path: Path) -> list[str]:
        """The columns of a Parquet file that are needed."""
        names = file.schema_arrow.names
        return list(find_some_columns(names, self.columns, COLUMNS, path.name).values())


def _batches(file: pq.ParquetFile, names: list[str], place: str) -> Iterator[pa.RecordBatch]:
    try:
        yield from file.iter_batches(batch_size=ROWS, columns=names)
    except (OSError, ValueError, NotImplementedError) as error:
        raise DataError(f"{place}: the Parquet file is damaged ({error}).") from None


def _is_parquet(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4) == b"PAR1"
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None


def _parquet(path: Path) -> closing[pq.ParquetFile]:
    try:
        return closing(pq.ParquetFile(path, memory_map=False))
    except (OSError, ValueError, NotImplementedError) as error:
        raise DataError(f"{path.name}: the Parquet file is damaged ({error}).") from None


def forecast_files(
    forecaster: Forecaster,
    queries: str | Path,
    out: str | Path,
    *,
    shard: str = "1/1",
    at: When = None,
    by: When = None,
    top: int = 10,
    skip_bad: bool = False,
    why: bool | int = False,
    columns: Mapping[str, str] | None = None,
    date_format: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Answer the questions of files, such as ``q/*.parquet``, into a file, some at a time; returns that file.

    Of ``shard="3/12"`` the third of twelve parts of the rows is answered, into ``answers-03-of-12.parquet`` where
    ``out`` is ``answers.parquet``. The column ``query`` counts rows over all files. The file appears when it is
    whole. ``progress`` receives how many questions are answered, and of how many.
    """
    part, known = parse_shard(shard), forecaster._known
    files = QuestionFiles.of(str(queries), columns or {}, date_format)
    rows, path = part.rows(files.ends[-1]), part.place(Path(out))
    times = files.check(rows, known.index, at, by, skip_bad)
    warn_far(forecaster._measured, known.index, [question.t for question in times], forecaster.path)
    warn_gaps(known.index, [question.step for question in times if not question.span])
    answering = Answering(forecaster.model, known, forecaster.chances)
    with writing_answers(path) as add:
        add(answers_table([], [], bool(why)))
        for done, questions in files.questions(rows, known.index, at, by):
            batch = list(questions.values())
            forecasts = forecaster._explain(batch, answering.answer(batch, top), why)
            add(answers_table(forecasts, list(questions), bool(why)))
            if progress is not None:
                progress(done, len(rows))
    return path

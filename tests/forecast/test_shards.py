"""Parts of many questions: together they are the whole, whatever the files; a file of answers is whole or not there."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from cli_runs import run
from conftest import N, make_dataset, make_forecaster
from tangokg.cli import main
from tangokg.errors import ConfigError, DataError
from tangokg.forecast import Forecaster, answering, shards
from tangokg.forecast.shards import QuestionFiles, Shard, forecast_files, parse_shard

__all__ = ["run"]  # a fixture

LAST = float(make_dataset(1).facts.t.max())
ROWS = 29


def questions(rows: int = ROWS) -> pa.Table:
    """Of all kinds, with a column that nobody needs."""
    number = range(rows)
    return pa.table(
        {
            "note": ["x" * 50] * rows,
            "subject": [None if i % 5 == 1 else f"e{i % N}" for i in number],
            "relation": [None if i % 7 == 3 else f"r{i % 2}" for i in number],
            "object": [f"e{(i * 3) % N}" if i % 5 == 1 or i % 7 == 3 else None for i in number],
            "time": [LAST + 1 + i % 3 for i in number],
        }
    )


def write(folder: Path, sizes: tuple[int, ...] = (11, 0, 7, 10, 1)) -> str:
    """The questions in files of three kinds; one of Parquet has several row groups."""
    folder.mkdir(exist_ok=True)
    start = 0
    for number, size in enumerate(sizes):
        some = questions().slice(start, size)
        if number % 3 == 2:
            pd.DataFrame(some.to_pandas()).to_csv(folder / f"{number}.csv", index=False)
        elif number % 3 == 0:
            pq.write_table(some, folder / f"{number}.parquet", row_group_size=3)
        else:
            pq.write_table(some, folder / f"{number}.parquet")
        start += size
    assert start == ROWS
    return str(folder / "*")


def same(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert len(found) == len(expected) > 0
    for row, other in zip(found, expected, strict=True):
        for name, value in other.items():
            assert row[name] == (pytest.approx(value, rel=1e-6, abs=1e-12) if isinstance(value, float) else value)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Forecaster:
    monkeypatch.setattr(shards, "ROWS", 4)
    monkeypatch.setattr(answering, "BATCH", 3)
    return make_forecaster()


@pytest.mark.parametrize(
    ("count", "suffix"), [(1, ".parquet"), (3, ".parquet"), (ROWS + 2, ".parquet"), (2, ".csv"), (3, ".tsv")]
)
def test_the_parts_in_order_of_their_names_are_the_whole(
    count: int, suffix: str, asked: Forecaster, tmp_path: Path
) -> None:
    pattern, out = write(tmp_path / "q"), tmp_path / f"answers{suffix}"
    expected = asked.forecast_table(questions(), top=3)
    for number in range(1, count + 1):
        forecast_files(asked, pattern, out, shard=f"{number}/{count}", top=3)
    written = sorted(tmp_path.glob("answers*"))
    assert len(written) == count
    assert not list(tmp_path.glob(".*"))
    if suffix == ".parquet":
        parts = [pq.read_table(path) for path in written]
        assert {str(part.schema) for part in parts} == {str(expected.schema)}
        same(list(chain.from_iterable(part.to_pylist() for part in parts)), expected.to_pylist())
    else:
        lines = [path.read_text().splitlines() for path in written]
        assert len({head for head, *_ in lines}) == 1
        (tmp_path / "all.csv").write_text("\n".join([lines[0][0], *chain.from_iterable(rest for _, *rest in lines)]))
        delimiter = pa.csv.ParseOptions(delimiter="\t" if suffix == ".tsv" else ",")
        found = pa.csv.read_csv(tmp_path / "all.csv", parse_options=delimiter).to_pylist()
        assert [row["query"] for row in found] == expected.column("query").to_pylist()
        assert [row["answer"] for row in found] == expected.column("answer").to_pylist()


@pytest.mark.parametrize("total", [0, 1, 7, 100])
@pytest.mark.parametrize("count", [1, 2, 7, 30])
def test_parts_share_the_rows_evenly(total: int, count: int) -> None:
    parts = [Shard(number, count).rows(total) for number in range(1, count + 1)]
    assert list(chain.from_iterable(parts)) == list(range(total))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    names = [str(Shard(number, count).place(Path("a.csv"))) for number in range(1, count + 1)]
    assert names == sorted(names)
    assert len(set(names)) == count


def test_no_more_rows_are_in_memory_than_a_batch(asked: Forecaster, tmp_path: Path) -> None:
    files = QuestionFiles.of(write(tmp_path / "q"), {}, None)
    batches = list(files.batches(range(2, 27)))
    assert max(len(opened.table) for _, opened in batches) <= shards.ROWS
    assert "note" not in batches[0][1].table.column_names
    rows = list(chain.from_iterable(range(first, first + len(opened.table)) for first, opened in batches))
    assert rows == list(range(2, 27))


def test_bad_rows_are_told_before_anything_is_answered_or_left_out(
    asked: Forecaster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pattern = write(tmp_path / "q")
    table = questions().slice(18, 10).to_pydict()
    table["subject"][2], table["subject"][7] = "nobody", "no one"
    pq.write_table(pa.table(table), tmp_path / "q" / "3.parquet")
    out = tmp_path / "a.parquet"
    with monkeypatch.context() as patch:
        patch.setattr(shards, "writing_answers", None)
        with pytest.raises(DataError, match=r"(?s)3\.parquet: row 3: .*nobody.*3\.parquet: row 8: .*no one"):
            forecast_files(asked, pattern, out)
    assert not list(tmp_path.glob("*a.parquet*"))
    assert forecast_files(asked, pattern, out, skip_bad=True, top=1) == out
    left = {18 + 2, 18 + 7}
    assert set(pq.read_table(out).column("query").to_pylist()) == set(range(ROWS)) - left
    assert forecast_files(asked, pattern, out, shard="1/2").name == "a-1-of-2.parquet"  # the other part has them


def test_what_fails_half_way_leaves_nothing_and_keeps_what_was_there(
    asked: Forecaster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pattern, out = write(tmp_path / "q"), tmp_path / "a.csv"
    out.write_text("before")
    seen: list[int] = []

    def stop(done: int, total: int) -> None:
        seen.append(done)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        forecast_files(asked, pattern, out, progress=stop)
    assert seen == sorted(seen)
    assert out.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir() if path.name != "q"] == ["a.csv"]
    with pytest.raises(DataError, match="cannot be written"):
        forecast_files(asked, pattern, tmp_path / "nowhere" / "a.csv")


def test_reasons_have_their_column_in_every_part(asked: Forecaster, tmp_path: Path) -> None:
    pattern = write(tmp_path / "q")
    for number in (1, ROWS + 1):
        path = forecast_files(asked, pattern, tmp_path / "a.parquet", shard=f"{number}/{ROWS + 1}", why=1, top=2)
        assert "reasons" in pq.read_table(path).column_names


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "1/0", "-1/3", "1/2/3", ""])
def test_a_part_that_is_none(text: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"--shard {text!r}: expected i/n")):
        parse_shard(text)


def test_the_command_answers_parts_of_a_pattern(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("subject,relation,time\n" + "Bob,calls,2024-02-01\n" * 3)
    words = ["forecast", str(run), "--queries", str(tmp_path / "?.csv"), "--top", "2"]
    assert main([*words, "--out", str(tmp_path / "whole.csv")]) == 0
    for number in (1, 2):
        assert main([*words, "--out", str(tmp_path / "part.csv"), "--shard", f"{number}/2"]) == 0
    assert "part-2-of-2.csv" in capsys.readouterr().err
    whole, one, two = (
        (tmp_path / f"{name}.csv").read_text().splitlines() for name in ("whole", "part-1-of-2", "part-2-of-2")
    )
    assert [*one, *two[1:]] == whole
    assert len(whole) == 1 + 6 * 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--queries", "q/*.csv"], "no such file"),
        (["--queries", "{0}", "--shard", "1/2"], "need --out FILE"),
        (["--queries", "{0}", "--shard", "3/2", "--out", "a.csv"], "expected i/n"),
        (["--shard", "1/2"], "--shard is a part of the questions of --queries"),
        (["--queries", "sqlite:///a.db?table=q", "--shard", "1/2", "--out", "a.csv"], "this is a database"),
        (["--queries", "{0}", "--shard", "1/2", "--out", "sqlite:///a.db?table=q"], "need --out FILE"),
    ],
)
def test_mistakes_are_told(words: list[str], message: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["forecast", str(run), *(word.format(__file__) for word in words)]) == 2
    assert message in capsys.readouterr().err

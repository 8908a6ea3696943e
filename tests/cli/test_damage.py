"""Any damaged file, given to any command, ends in a result or in one message: never in a traceback or a defect."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tangokg.cli import main
from tangokg.train import RunFolder

EXAMPLES = int(os.environ.get("TANGOKG_EXAMPLES", "40"))  # more of them now and then

TEXT = [b",", b"\n", b'"', b"\0", b"\xff", b"\t", b"0", b"2024-02-30", b"[/]", "é\u2028".encode(), b"-", b"1e400"]
TOML = [b"=", b"\n", b'"', b"\0", b"\xff", b"[", b"]]", b"true", b"-", b"nan", b"{}", b"[1]", b"2024-01-01", b"0"]
BYTES = [b"\0", b"\xff", b"\x80", b"\x7f", b"\0" * 8, b"\xff" * 8]

GOOD = "subject,relation,object,date\n" + "".join(
    f"{s},{r},{o},2024-01-{day:02}\n"
    for day in range(1, 13)
    for s, r, o in (("Ann", "calls", "Bob"), ("Bob", "calls" if day % 2 else "visits", "Eve"))
)
QUESTIONS = (
    "subject,relation,object,time\nAnn,calls,,2024-01-14\n,calls,Bob,2024-01-12T06:00\nAnn,?,Bob,\nEve,visits,,\n"
)
OBSERVED = "subject,relation,object,date\nZed,calls,Bob,2024-01-13\nAnn,warns,Zed,2024-01-14\n"
CONFIG = (
    'schema = 1\nmodel = "tango-distmult"\nseed = 3\n[settings]\ndim = 4\nlayers = 1\nhistory = 2\nsolver = "rk4"\n'
    'gradient = "direct"\ndropout = 0.1\nstep_time = 0.3\n[train]\nepochs = 1\nprecision = "32-true"\ndevice = "cpu"\n'
)
CLOCK = 'unit = "day"\norigin = "2024-01-01"\nstep = 24\n'


def as_parquet(text: str) -> bytes:
    sink = io.BytesIO()
    pa.parquet.write_table(pa.csv.read_csv(io.BytesIO(text.encode())), sink)
    return sink.getvalue()


@st.composite
def damaged(draw: st.DrawFn, good: bytes, odd: list[bytes]) -> bytes:
    """``good`` with a few bytes cut out, put in or written over, or the end missing."""
    data = bytearray(good)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        new = draw(st.one_of(st.sampled_from(odd), st.binary(max_size=8), st.just(b"")))
        kept = draw(st.booleans())  # the length, so that what follows stays in its place
        data[start : start + (len(new) if kept else draw(st.integers(0, 30)))] = new
    if draw(st.integers(0, 9)) == 0:
        del data[draw(st.integers(0, len(data))) :]
    return bytes(data)


def many(function: Callable[..., None]) -> Callable[..., None]:
    """A fixture serves all examples of a test: each writes the damaged file anew."""
    kept = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    decorated: Callable[..., None] = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=kept)(
        function
    )
    return decorated


def ends_well(capsys: pytest.CaptureFixture[str], *words: str) -> int:
    """Run a command: status 0, or 2 with one message."""
    capsys.readouterr()
    status = main(["-q", *words])
    told = capsys.readouterr()
    assert status in (0, 2), told.err
    assert "Traceback" not in told.err
    assert sum(line.startswith("error: ") for line in told.err.splitlines()) == (status == 2), told.err
    return status


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small TANGO, trained once."""
    folder = tmp_path_factory.mktemp("damage")
    (folder / "events.csv").write_text(GOOD)
    (folder / "config.toml").write_text(CONFIG)
    words = ["train", str(folder / "events.csv"), "--config", str(folder / "config.toml"), "--out", str(folder / "run")]
    assert main(["-q", *words]) == 0
    return folder / "run"


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("option", ["--queries", "--observe"])
def test_tables_of_questions_and_of_new_facts(
    option: str, form: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = QUESTIONS if option == "--queries" else OBSERVED
    good, odd = (text.encode(), TEXT) if form == "csv" else (as_parquet(text), BYTES)
    file = tmp_path / f"table.{form}"
    words = ["forecast", str(run), *([] if option == "--queries" else ["Ann", "calls"]), option, str(file)]

    @many
    @given(data=damaged(good, odd))
    def check(data: bytes) -> None:
        file.write_bytes(data)
        ends_well(capsys, *words)

    file.write_bytes(good)
    assert ends_well(capsys, *words) == 0
    check()


@pytest.mark.parametrize("option", ["--queries", "--observe"])
def test_parquet_cells_that_cannot_be_read(
    option: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "table.parquet"
    words = ["forecast", str(run), *([] if option == "--queries" else ["Ann", "calls"]), option, str(file)]
    file.write_bytes(as_parquet(OBSERVED).replace(b"Zed", b"\xffed"))
    assert ends_well(capsys, *words) == 2
    cells: dict[str, Any] = {"subject": ["Ann"], "relation": ["calls"], "time": pa.array([10**15], pa.timestamp("ms"))}
    pa.parquet.write_table(pa.table(cells | ({} if option == "--queries" else {"object": ["Bob"]})), file)
    assert ends_well(capsys, *words) == 2


@many
@given(data=damaged(CONFIG.encode(), TOML))
def test_config_files(data: bytes, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, out = tmp_path / "config.toml", tmp_path / "out"
    config.write_bytes(data)
    quick = ["--set", "epochs=1", "--set", "dim=4"]  # also where the damage has taken these lines away
    words = ["train", str(run.parent / "events.csv"), "--config", str(config), "--out", str(out), *quick]
    assert (ends_well(capsys, *words) == 0) == out.exists()
    shutil.rmtree(out, ignore_errors=True)


@many
@given(data=damaged(CLOCK.encode(), TOML))
def test_clocks_of_folders(data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.txt").write_text("0 0 1 0\n1 0 2 24\n2 1 0 48\n0 1 2 72\n")
    (tmp_path / "clock.toml").write_bytes(data)
    ends_well(capsys, "data", "inspect", str(tmp_path))


def evaluate(run: Path) -> list[str]:
    return ["evaluate", str(run), "--by", "time"]


def forecast(run: Path) -> list[str]:
    return ["forecast", str(run), "Ann", "calls"]


def resume(run: Path) -> list[str]:
    return ["train", "--out", str(run), "--resume"]


FILES: list[tuple[str, list[bytes], Callable[[Path], list[str]]]] = [
    ("config.toml", TOML, evaluate),
    ("history.parquet", BYTES, forecast),
    ("weights.safetensors", BYTES + TEXT, evaluate),
    ("vocab/entities.parquet", BYTES, forecast),
    ("vocab/relations.parquet", BYTES, evaluate),
    ("metrics.json", TEXT, resume),
]


@pytest.mark.parametrize(("file", "odd", "words"), FILES, ids=[file for file, *_ in FILES])
def test_files_of_a_run(
    file: str,
    odd: list[bytes],
    words: Callable[[Path], list[str]],
    run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    good = (copy / file).read_bytes()

    @many
    @given(data=damaged(good, odd))
    def check(data: bytes) -> None:
        (copy / file).write_bytes(data)
        ends_well(capsys, *words(copy))

    assert ends_well(capsys, *words(copy)) == 0
    check()


def test_a_name_of_a_run_that_is_no_text(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(run, tmp_path / "run")
    names = tmp_path / "run" / "vocab" / "relations.parquet"
    names.write_bytes(names.read_bytes().replace(b"visits", b"\xffisits"))
    assert ends_well(capsys, *evaluate(tmp_path / "run")) == 2


@many
@given(data=damaged(GOOD.encode(), TEXT))
def test_tables_of_facts(data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events, out, folder = tmp_path / "events.csv", tmp_path / "run", tmp_path / "folder"
    events.write_bytes(data)
    ended = partial(ends_well, capsys)
    words: list[Any] = ["train", str(events), "--model", "frequency", "--out", str(out)]
    if ended(*words, *(["--overwrite"] if out.exists() else [])) == 0:
        ended("evaluate", str(out))
    ended("data", "inspect", str(events))
    assert (ended("data", "import", str(events), str(folder)) == 0) == folder.exists()
    shutil.rmtree(folder, ignore_errors=True)
    assert {path.name for path in tmp_path.iterdir()} <= {"events.csv", "run"}
    assert not out.exists() or RunFolder(out).finished

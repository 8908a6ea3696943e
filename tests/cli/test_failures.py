"""Whatever goes wrong: one message, the right status, nothing half written."""

from __future__ import annotations

import errno
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch

from tangokg.cli import main
from tangokg.config import parse_horizons
from tangokg.errors import ConfigError, RunError
from tangokg.train import RunFolder

HEADER = "subject,relation,object,date\n"
GOOD = HEADER + "".join(
    f"{s},{r},{o},2024-01-{day:02}\n"
    for day in range(1, 13)
    for s, r, o in (("Ann", "calls", "Bob"), ("Bob", "calls" if day % 2 else "visits", "Eve"))
)
TINY = ["--model", "tango-distmult", "--set", "dim=4", "--set", "layers=1", "--set", "history=2", "--device", "cpu"]
posix = pytest.mark.skipif(sys.platform == "win32", reason="signals and pipes are others there")
ENV = {**os.environ, "OMP_NUM_THREADS": "1"}


def write(path: Path, text: str = GOOD) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def tree(folder: Path) -> dict[str, bytes | None]:
    """All that is in a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def errors(text: str) -> int:
    """How many messages a text holds."""
    return sum(line.startswith("error: ") for line in text.splitlines())


def refused(capsys: pytest.CaptureFixture[str], folder: Path, *words: str) -> str:
    """The one message of a command that ends with status 2, without a traceback, and changes nothing."""
    before = tree(folder)
    capsys.readouterr()
    assert main([*words]) == 2
    told = capsys.readouterr()
    assert errors(told.err) == 1
    assert "Traceback" not in told.err
    assert told.out == ""
    assert tree(folder) == before
    return told.err


@pytest.fixture
def run(tmp_path: Path) -> Path:
    out = tmp_path / "run"
    assert main(["-q", "train", str(write(tmp_path / "events.csv")), "--model", "frequency", "--out", str(out)]) == 0
    return out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("%PDF-1.4 ...", "not a table"),
        ("", "the file is empty"),
        (HEADER, "no facts"),
        (GOOD.replace("2024-01-05", "2024-13-05"), "events.csv:10"),
        (GOOD.replace("Bob,2024-01-07", ",2024-01-07"), "the object is empty"),
        (GOOD.replace("subject", "who"), "no column for the subject"),
        (HEADER + "Ann,calls,Bob,2024-01-01\n", "learning from history takes two at least"),
    ],
)
def test_damaged_tables(content: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = write(tmp_path / "events.csv", content)
    out = tmp_path / "deep" / "run"
    assert message in refused(capsys, tmp_path, "train", str(events), "--out", str(out), *TINY)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "tango-tuker"], "Did you mean tango-tucker"),
        (["--set", "dimension=3"], "unknown setting 'dimension'"),
        (["--set", "dim"], "expected key=value"),
        (["--config", "nowhere.toml"], "no such config file"),
        (["--column", "subject"], "expected role=name"),
        (["--column", "actor=subject"], "unknown column role 'actor'"),
        (["--unit", "fortnight"], "unknown time unit 'fortnight'"),
        (["--device", "tpu"], "device 'tpu' is unknown"),
        (["--train-share", "0.99"], "shares train=0.99"),
        (["--valid-from", "2024-01-05"], "go together"),
        (["--valid-from", "2024-01-05", "--test-from", "2024-01-07", "--train-share", "0.5"], "not both"),
        (["--valid-from", "soon", "--test-from", "2024-01-07"], "is no date"),
        (["--resume", "--overwrite"], "give one of them"),
        (["--from", "nowhere"], "no run is here"),
        (["--set", "learning_rate=1e30", "--set", "clip=0", "--set", "epochs=9"], "the loss became NaN"),
    ],
)
def test_bad_settings(words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = write(tmp_path / "events.csv")
    assert message in refused(capsys, tmp_path, "train", str(events), "--out", str(tmp_path / "run"), *TINY, *words)


def test_no_gpu_where_one_was_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    events = write(tmp_path / "events.csv")
    words = ["train", str(events), "--out", str(tmp_path / "run"), *TINY, "--device", "cuda"]
    assert "device 'cuda' is not available here" in refused(capsys, tmp_path, *words)


def test_too_little_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tangokg.train.memory.free_bytes", lambda device: 1)
    events = write(tmp_path / "events.csv")
    assert "GiB are free" in refused(capsys, tmp_path, "train", str(events), "--out", str(tmp_path / "run"), *TINY)


def test_a_full_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    events = write(tmp_path / "events.csv")
    monkeypatch.setattr("os.replace", full)
    assert "No space left" in refused(capsys, tmp_path, "train", str(events), "--out", str(tmp_path / "run"), *TINY)
    assert "No space left" in refused(capsys, tmp_path, "data", "import", "-q", str(events), str(tmp_path / "folder"))


def test_a_failed_start_gives_the_overwritten_run_back(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", str(run.parent / "events.csv"), "--out", str(run), *TINY]
    assert "exists" in refused(capsys, run.parent, *words)
    failing = ["--set", "learning_rate=1e30", "--set", "clip=0", "--set", "epochs=9", "--overwrite"]
    assert "the loss became NaN" in refused(capsys, run.parent, *words, *failing)
    assert main(["-q", *words, "--set", "epochs=1", "--overwrite"]) == 0
    assert RunFolder(run).config().model == "tango-distmult"
    assert {path.name for path in run.parent.iterdir()} == {"run", "events.csv"}


def test_a_run_that_another_process_made_in_between_is_not_deleted(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one has just made its folder, has no checkpoint yet, and this one finds the place taken."""
    (run / "weights.safetensors").unlink(missing_ok=True)
    theirs = run.rename(run.with_name("theirs"))
    there = tree(theirs)

    def slower(*_: Any, **__: Any) -> None:
        theirs.rename(run)
        raise RunError("exists")

    monkeypatch.setattr(RunFolder, "claim", slower)
    assert main(["-q", "train", str(run.parent / "events.csv"), "--out", str(run), *TINY]) == 2
    assert tree(run) == there


@posix
def test_a_kill_while_a_run_is_replaced_loses_neither(run: Path) -> None:
    before = tree(run)
    code = (
        "import os, signal, sys; import tangokg.forecast.training as t; from tangokg.cli import main\n"
        "t.train = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)\n"
        "main(sys.argv[1:])"
    )
    words = ["train", str(run.parent / "events.csv"), "--out", str(run), *TINY, "--overwrite"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, env=ENV, check=False)
    assert done.returncode == -signal.SIGKILL
    (aside,) = (path for path in run.parent.iterdir() if "replaced" in path.name)
    assert f"kept in {aside} until" in done.stderr
    assert tree(aside) == before


def test_a_folder_that_is_no_run_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = write(tmp_path / "events.csv")
    (tmp_path / "mine").mkdir()
    write(tmp_path / "mine" / "thesis.txt", "precious")
    words = ["train", str(events), "--out", str(tmp_path / "mine"), *TINY, "--overwrite"]
    assert "not a run folder" in refused(capsys, tmp_path, *words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["forecast", "RUN", "Anne", "calls"], "Did you mean 'Ann'? Known are 'Ann', 'Bob', 'Eve'. Facts about new"),
        (["forecast", "RUN", "Ann", "called"], "Did you mean 'calls'?"),
        (["forecast", "RUN", "Ann", "calls", "--at", "1999-01-01"], "ask for a later time"),
        (["forecast", "RUN", "Ann", "calls", "--at", "tomorrow"], "is no date"),
        (["forecast", "RUN", "Ann", "--at", "2024-02-01", "--by", "2024-02-03"], "give one of them"),
        (["forecast", "RUN", "Ann", "calls", "Bob", "--by", "1999-01-01"], "the span begins after the last fact"),
        (["forecast", "RUN", "Ann", "calls", "--observe", "nowhere.csv"], "no such file"),
        (["forecast", "RUN", "Ann", "calls", "--queries", "q.csv"], "not both"),
        (["forecast", "RUN", "Ann", "calls", "--out", "a.csv"], "--out goes with --queries"),
        (["forecast", "RUN", "--queries", "nowhere.csv"], "no such file"),
        (["forecast", "RUN", "--queries", "q.csv", "--out", "a.xlsx"], "expected one of .csv, .tsv, .parquet"),
        (["forecast", "nowhere", "Ann", "calls"], "no run is here"),
        (["evaluate", "RUN", "--horizon", "0"], "numbers of time steps above 0"),
        (["evaluate", "RUN", "--horizon", "1-3", "--by", "time"], "give a single --horizon"),
        (["evaluate", "RUN", "--inductive"], "asks no query"),
        (["evaluate", "RUN", "--multi-step", "--horizon", "2"], "give one of them"),
        (["evaluate", "RUN", "--by", "time", "--plot", "a.gif"], "expected one of .png, .svg, .pdf"),
        (["evaluate", "RUN", "--by", "time", "--plot", "nowhere/a.png"], "in an existing folder"),
        (["evaluate", "RUN", "--by", "relation", "--plot", "a.png"], "add --by time, or --horizon 1-8"),
        (["evaluate", "RUN", "--plot", "a.png"], "add --by time, or --horizon 1-8"),
        (["evaluate", "RUN", "--device", "mps"], "choose one of auto, cpu, cuda"),
        (["forecast", "RUN", "Ann", "calls", "--device", "tpu"], "device 'tpu' is unknown"),
        (["train", "RUN", "--plot", "a.gif"], "expected one of .png, .svg, .pdf"),
        (["data", "inspect", "nowhere.csv"], "error: nowhere.csv: no such file or folder."),
        (["train", "some/where", "--column", "time=when"], "error: some/where: no such file or folder."),
        (["train", "RUN/../event.csv"], "events.csv'? Known sets have names: "),
        (["train", "nowhere"], "unknown data set 'nowhere'"),
        (["data", "get", "YAG"], "Did you mean 'YAGO'"),
        (["data", "import", "nowhere.csv", "folder"], "no such file"),
        (["train"], "no data were given"),
        (["train", "--resume", "--out", "nowhere"], "no run is here"),
    ],
)
def test_bad_questions(words: list[str], message: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [word.replace("RUN", str(run)) for word in words]
    assert message in refused(capsys, run.parent, *given)


@pytest.mark.parametrize(
    "words",
    [["trian"], ["train", "--nonsense"], ["evaluate"], ["forecast", "r", "--top", "0"], ["evaluate", "r", "--by", "x"]],
)
def test_usage_errors_have_status_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err


@pytest.mark.parametrize("file", ["weights.safetensors", "history.parquet", "config.toml", "vocab/entities.parquet"])
def test_a_damaged_run_is_an_error_that_names_the_file(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    words = ["-q", "train", str(write(tmp_path / "events.csv")), "--out", str(out), *TINY, "--set", "epochs=1"]
    assert main(words) == 0
    (out / file).write_bytes(b"\x00\x01 rubbish" * 7)
    assert Path(file).name in refused(capsys, tmp_path, "evaluate", str(out))


def test_names_with_tabs_are_not_imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = write(tmp_path / "events.csv", HEADER + '"A\tB",calls,C,2024-01-01\nC,calls,D,2024-01-02\n')
    assert "no tab" in refused(capsys, tmp_path, "-q", "data", "import", str(events), str(tmp_path / "folder"))
    dated = write(tmp_path / "times.csv", "subject,relation,object,time\nA,calls,C,-3\nC,calls,D,2\n")
    assert "from 0" in refused(capsys, tmp_path, "-q", "data", "import", str(dated), str(tmp_path / "folder"))


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried ..."),
        RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: not enough memory: you tried ..."),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        pa.ArrowMemoryError("malloc of size 64 failed"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_too_little_memory_is_no_defect(
    error: Exception, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def greedy() -> None:
        raise error

    monkeypatch.setattr("tangokg.cli.doctor.examine", greedy)
    assert main(["doctor"]) == 2
    told = capsys.readouterr().err
    assert "not enough memory" in told
    assert "dim=" in told
    assert "batch_windows=" in told
    assert "defect" not in told


@pytest.mark.parametrize(("words", "shown"), [([], False), (["-v"], True)])
def test_a_defect_asks_for_a_report(
    words: list[str], shown: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise ZeroDivisionError("1 / 0")

    monkeypatch.setattr("tangokg.cli.doctor.examine", broken)
    assert main(["doctor", *words]) == 1
    told = capsys.readouterr().err
    assert "unexpected ZeroDivisionError: 1 / 0" in told
    assert "please report it" in told
    assert ("Traceback" in told) == shown


def test_ctrl_c_outside_training_has_status_130(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tangokg.cli.doctor.examine", stopped)
    assert main(["doctor"]) == 130
    assert "interrupted" in capsys.readouterr().err


@posix
def test_sigterm_writes_a_checkpoint_and_says_how_to_go_on(tmp_path: Path) -> None:
    events, out = write(tmp_path / "events.csv"), tmp_path / "a run"
    words = ["train", str(events), "--out", str(out), *TINY, "--set", "epochs=30", "--set", "patience=0"]
    command = [sys.executable, "-m", "tangokg.cli", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENV) as process:
        assert process.stderr is not None
        while not process.stderr.readline().startswith("epoch"):
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        told = process.stderr.read()
        assert process.wait() == 128 + signal.SIGTERM
    assert RunFolder(out).checkpoint.exists()
    assert not RunFolder(out).finished
    resume = shlex.split(told.splitlines()[-1])
    assert resume == ["tango", *words, "--resume"]
    whole = tmp_path / "whole"
    assert main(["-q", *resume[1:]]) == 0
    assert main(["-q", *(str(whole) if word == str(out) else word for word in words)]) == 0
    assert (out / "weights.safetensors").read_bytes() == (whole / "weights.safetensors").read_bytes()


@posix
def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{shlex.quote(sys.executable)} -m tangokg.cli data list --json | head -c 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=ENV, check=False)
    assert (done.stdout, done.stderr) == ("[", "")


def test_help_does_not_wait_for_torch() -> None:
    code = "import sys; from tangokg.cli import main; main(['train', '--help']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, env=ENV, check=False).returncode == 0


@pytest.mark.parametrize(
    ("text", "horizons"), [("3", [3]), ("1,3,5", [1, 3, 5]), ("1-4", [1, 2, 3, 4]), ("0.5, 2-3", [0.5, 2, 3])]
)
def test_horizons(text: str, horizons: list[float]) -> None:
    assert parse_horizons(text) == horizons


@pytest.mark.parametrize("text", ["", "x", "1-", "3-1", "0-2", "-1", "1,,2", "nan", "1-99999999999", "1-2-3"])
def test_horizons_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError, match="expected numbers of time steps above 0"):
        parse_horizons(text)

"""A result names the data files that it came from by their sums."""

from __future__ import annotations

import gzip
import json
from hashlib import sha256
from pathlib import Path

from tangokg.forecast import fit
from tangokg.quads import find, read_events
from tangokg.quads.sums import file_sums
from tangokg.train import RunFolder

LINES = b"".join(b"%d 0 1 %d\n" % (n % 3, n) for n in range(30))


def benchmark(folder: Path) -> dict[str, str]:
    folder.mkdir()
    parts = {"train.txt": LINES, "valid.txt": b"0 0 1 40\n", "test.txt": b"1 0 2 50\n"}
    for name, data in parts.items():
        (folder / name).write_bytes(data)
    return {name: sha256(data).hexdigest() for name, data in parts.items()}


def test_sums_are_of_the_unpacked_files(tmp_path: Path) -> None:
    wanted = benchmark(tmp_path / "set")
    assert file_sums(tmp_path / "set") == wanted
    (tmp_path / "set" / "train.txt").unlink()
    (tmp_path / "set" / "train.txt.gz").write_bytes(gzip.compress(LINES))
    assert dict(find(tmp_path / "set").files) == wanted


def test_a_run_and_its_result_keep_the_sums_of_the_data(tmp_path: Path) -> None:
    wanted = benchmark(tmp_path / "set")
    fit(tmp_path / "set", "copy-last", out=tmp_path / "run")
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["files"] == wanted
    assert dict(RunFolder(tmp_path / "run").dataset().files) == wanted


def test_a_table_has_the_sum_of_its_file(tmp_path: Path) -> None:
    table = tmp_path / "trips.csv"
    table.write_text("subject,relation,object,time\n" + "".join(f"a,to,b,2024-01-{n:02}\n" for n in range(1, 20)))
    wanted = {"trips.csv": sha256(table.read_bytes()).hexdigest()}
    assert dict(find(table).files) == wanted
    assert dict(read_events(table).split().files) == wanted
    fit(table, "copy-last", out=tmp_path / "run")
    further = fit(table, "copy-last", start_from=tmp_path / "run", allow_seen=True, out=tmp_path / "further")
    assert dict(further.dataset.files) == wanted

"""Benchmark folders: every published oddity is read, every damage is named by file and line."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tangokg.errors import DataError, TangoError
from tangokg.quads.clock import Clock
from tangokg.quads.folders import MOST_DIGITS, read_folder


def write(folder: Path, **files: str | bytes) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        (folder / name.replace("_txt", ".txt").replace("_gz", ".gz")).write_bytes(data)
    return folder


@given(rows=st.lists(st.tuples(*[st.integers(0, 9)] * 3, st.integers(0, 99)), min_size=1, max_size=20))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_facts_come_back_in_time_order(tmp_path: Path, rows: list[tuple[int, int, int, int]]) -> None:
    text = "\n".join("\t".join(map(str, row)) for row in rows)
    data = read_folder(write(tmp_path, train_txt=text, stat_txt="10 10"))
    read = zip(*(getattr(data.train, column).tolist() for column in "srot"), strict=True)
    assert list(read) == sorted(rows, key=lambda row: row[3])


@pytest.mark.parametrize(
    "text",
    [
        "0\t1\t2\t24\n2\t0\t1\t48\n",
        "0    \t1    \t2  \t24\t0\n2    \t0    \t1  \t48\t0\n",
        "  0 1 2 24\r\n\r\n2 0 1 48",
        "0 1 2 24\r2 0 1 48\r",
        "\ufeff0 1 2 24 -1 x\n2 0 1 48 7 y\n",
        "0 1 2 24\n2 0 1 48 7 7 7",
        "2 0 1 48\n0 1 2 24\n",
    ],
)
def test_padding_extra_columns_and_line_ends_do_not_matter(tmp_path: Path, text: str) -> None:
    data = read_folder(write(tmp_path, train_txt_gz=gzip.compress(text.encode())), clock=Clock("day", step=24))
    assert [getattr(data.train, column).tolist() for column in "srot"] == [[0, 2], [1, 0], [2, 1], [1, 2]]
    assert data.vocab.entities == ("0", "1", "2")
    assert len(data.valid) == len(data.test) == 0
    assert data.notes == ("there is no valid part", "there is no test part")


SPELLINGS = {"regular": "{}\t{}\t{}\t{}\n", "padded": "{}  {} \t{} {}\n", "annotated": "{} {} {} {} x\n"}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_way_to_read_gives_the_same_and_names_the_same_line(tmp_path: Path, spelling: str) -> None:
    rows = np.random.default_rng(0).integers(0, 10**MOST_DIGITS, size=(50, 4))
    rows[:, :3] %= 100
    rows = rows[np.argsort(rows[:, 3])]
    lines = [SPELLINGS[spelling].format(*row) for row in rows.tolist()]
    data = read_folder(write(tmp_path, train_txt="".join(lines), stat_txt="100 100"))
    assert [getattr(data.train, column).tolist() for column in "srot"] == rows.T.tolist()
    assert all(getattr(data.train, column).flags.writeable for column in "srot")
    lines[7] = SPELLINGS[spelling].format(3, 100, 3, 5)
    with pytest.raises(DataError, match=r"train.txt:8: relation id 100 is outside the vocabulary"):
        read_folder(write(tmp_path, train_txt="".join(lines)))


def test_names_are_labels_then_names_then_ids(tmp_path: Path) -> None:
    data = read_folder(
        write(
            tmp_path,
            train_txt="0 0 1 0\n",
            test_txt="1 0 0 1\n",
            stat_txt="6\t1\t0",
            entity2id_txt='Q2\t1\t1913-##-##\t####-##-##\nQ1\t0\n"odd" name\t3\nQ5\t4\n',
            entity_labels_txt="Paris\t0\nParis\t1\nRome\t4\n",
            relation2id_txt="in\t0\n",
        )
    )
    assert data.vocab.entities == ("Paris (Q1)", "Paris (Q2)", "2", '"odd" name', "Rome", "5")
    assert data.vocab.relations == ("in",)
    assert len(data.valid) == 0
    assert data.test.t.tolist() == [1]


GOOD = "0 0 1 0\n"
WRONG: dict[str, tuple[dict[str, str | bytes], str]] = {
    "no part": ({}, r"no benchmark folder: expected train.txt or train.txt.gz"),
    "no facts": ({"train_txt": "\n"}, r"train.txt: no facts; expected lines of subject"),
    "short": ({"train_txt": GOOD + "\n1 2 3\n"}, r"train.txt:3: '1 2 3' found; expected four whole numbers"),
    "word": ({"train_txt": GOOD + "0 x 1 0\n"}, r"train.txt:2: '0 x 1 0' found"),
    "negative": ({"train_txt": GOOD + "0 0 -1 0\n"}, r"train.txt:2: '0 0 -1 0' found"),
    "long": ({"train_txt": GOOD + "0 0 1 9999999999999999999\n"}, r"train.txt:2: .* expected four whole numbers"),
    "object": (
        {"train_txt": GOOD, "valid_txt": "\n1 0 7 1\n", "stat_txt": "5 1"},
        r"valid.txt:2: object id 7 is outside the vocabulary \(ids 0 to 4\). Either the line is damaged, or entity2id",
    ),
    "relation": ({"train_txt": "0 3 1 0", "relation2id_txt": "r\t0"}, r"train.txt:1: relation id 3 is outside"),
    "huge id": ({"train_txt": "0 0 123456789012 0"}, r"entity id 123456789012 found; expected ids below 20,000,000"),
    "shared time": ({"train_txt": GOOD, "test_txt": GOOD}, r"test.txt: its first time, 0, is not after the last"),
    "order": ({"train_txt": "0 0 1 5", "valid_txt": "0 0 1 7", "test_txt": "0 0 1 6"}, r"test.txt: its first time, 6"),
    "stat": ({"train_txt": GOOD, "stat_txt": "many"}, r"stat.txt: 'many' found; expected the numbers of entities"),
    "big stat": ({"train_txt": GOOD, "stat_txt": "9" * 5000 + " 1"}, r"stat.txt: '9+' found"),
    "map": ({"train_txt": GOOD, "entity2id_txt": "a 0\n"}, r"entity2id.txt:1: 'a 0' found; expected a name, a tab"),
    "two names": ({"train_txt": GOOD, "entity2id_txt": "a\t0\nb\t0"}, r"entity2id.txt:2: id 0 has two names, 'a' and"),
    "gzip": ({"train_txt_gz": b"\x1f\x8b\x08broken"}, r"train.txt.gz: the gzip file is damaged"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said(tmp_path: Path, case: str) -> None:
    files, message = WRONG[case]
    with pytest.raises(DataError, match=message):
        read_folder(write(tmp_path, **files))


def test_a_time_between_steps_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train.txt:2: time 25 found; expected a multiple of 24, .* for one day"):
        read_folder(write(tmp_path, train_txt="0 0 1 24\n0 0 1 25\n"), clock=Clock("day", step=24))


LINES = st.lists(st.tuples(*[st.integers(0, 12)] * 4).map(lambda row: " ".join(map(str, row))), max_size=5)
BYTES = st.one_of(st.binary(max_size=20), LINES.map(lambda lines: "\n".join(lines).encode()))
NAME_LINES = st.lists(
    st.tuples(st.text(max_size=3), st.integers(0, 12)).map(lambda row: f"{row[0]}\t{row[1]}"), max_size=5
)
MAPS = st.one_of(st.binary(max_size=20), NAME_LINES.map(lambda lines: "\n".join(lines).encode("utf-8", "replace")))


@given(train=BYTES, valid=BYTES, stat=st.sampled_from([b"13 13", b"5 5", b"", b"1"]), names=MAPS, labels=MAPS)
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_damaged_folders_end_in_facts_or_in_our_error(
    tmp_path: Path, train: bytes, valid: bytes, stat: bytes, names: bytes, labels: bytes
) -> None:
    files = {
        "train_txt": train,
        "valid_txt": valid,
        "stat_txt": stat,
        "entity2id_txt": names,
        "entity_labels_txt": labels,
    }
    try:
        data = read_folder(write(tmp_path, **files))
    except TangoError:
        return
    assert np.concatenate([data.facts.s, data.facts.o]).max() < data.vocab.num_entities
    assert data.train.t.max() < data.valid.t.min(initial=2**62)


SHARED = {
    "train_txt": "0 0 1 0\n1 0 2 24\n",
    "valid_txt": "2 0 1 24\n2 0 0 24\n0 0 1 48\n",
    "test_txt": "1 0 1 72\n",
}
MOVED = {
    "earlier": ([0, 24, 24, 24], [48], "2 facts were moved from valid to train"),
    "later": ([0], [24, 24, 24, 48], "1 fact was moved from train to valid"),
}


@pytest.mark.parametrize("overlap", MOVED)
def test_a_shared_step_goes_whole_to_one_part_and_is_told(tmp_path: Path, overlap: str) -> None:
    folder = write(tmp_path, **SHARED)
    with pytest.raises(DataError, match=r"valid.txt: its first time, 24, is not after .*--overlap earlier\|later"):
        read_folder(folder)
    train, valid, note = MOVED[overlap]
    data = read_folder(folder, overlap=overlap)
    assert (data.train.t.tolist(), data.valid.t.tolist(), data.test.t.tolist()) == (train, valid, [72])
    assert any(note in told and f"--overlap {overlap}" in told for told in data.notes)
    facts = {tuple(row) for row in zip(*(getattr(data.facts, column).tolist() for column in "srot"), strict=True)}
    assert len(facts) == 6


@pytest.mark.parametrize("overlap", MOVED)
def test_parts_without_a_shared_step_stay_as_they_are(tmp_path: Path, overlap: str) -> None:
    folder = write(tmp_path, train_txt="0 0 1 0\n", valid_txt="0 0 1 1\n", test_txt="0 0 1 2\n")
    assert read_folder(folder, overlap=overlap).same_facts(read_folder(folder))


def test_parts_that_share_more_or_nothing_else_are_refused(tmp_path: Path) -> None:
    mixed = write(tmp_path, train_txt="0 0 1 0\n0 0 1 2\n", test_txt="0 0 1 1\n0 0 1 3\n")
    with pytest.raises(DataError, match="cut the facts anew by date"):
        read_folder(mixed, overlap="earlier")
    with pytest.raises(DataError, match="nothing would be left of it"):
        read_folder(write(tmp_path, train_txt="0 0 1 0\n", test_txt="0 0 2 0\n"), overlap="later")
    with pytest.raises(DataError, match=r"unknown overlap 'both'.*earlier, later"):
        read_folder(mixed, overlap="both")

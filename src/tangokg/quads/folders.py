"""A benchmark folder (train, valid, test, entity2id, relation2id, stat) -> a data set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from tangokg.config import read_toml, update
from tangokg.errors import DataError, UnknownName
from tangokg.quads.clock import Clock
from tangokg.quads.files import decode_text, find_file, read_bytes
from tangokg.quads.sums import file_sums
from tangokg.quads.values import Dataset, Ids, Quadruples, concatenate, in_time_order
from tangokg.quads.vocabulary import Vocabulary

PARTS = ("train", "valid", "test")
OUTSIDE = ("before", "after")  # facts that stand alone, decades away, and belong to no part; `data import` writes them
OVERLAPS = ("earlier", "later")
MOST_IDS = 20_000_000  # an id beyond this is taken for a mistake: each one costs a row of every table
MOST_DIGITS = 18  # fits 64 bits
LOOK = 200  # bytes in which a tab stands if tabs are between the cells

Columns = tuple[Ids, Ids, Ids, Ids]
Lines = Sequence[int] | Ids


def read_folder(
    path: str | Path, *, clock: Clock | None = None, name: str | None = None, overlap: str | None = None
) -> Dataset:
    """Read ``train.txt[.gz]`` and, where they are there, the other parts and the names; times count ``clock`` steps.

    A step that stands in two parts is an error, unless ``overlap`` says which of them it goes to: earlier or later.
    """
    if overlap is not None and overlap not in OVERLAPS:
        raise UnknownName("overlap", str(overlap), OVERLAPS, hint=f"Choose one of {', '.join(OVERLAPS)}.")
    folder = Path(path)
    if find_file(folder, "train.txt") is None:
        raise DataError(f"{folder}: no benchmark folder: expected train.txt or train.txt.gz in it.")
    clock = clock or _read_clock(folder)
    names = (*PARTS, *OUTSIDE)
    columns, lines = zip(*(_read_part(folder, part) for part in names), strict=True)
    if len(columns[0][0]) == 0:
        raise DataError(f"{folder / 'train.txt'}: no facts; expected lines of subject, relation, object and time.")
    stat = _read_stat(folder)
    highest_s, highest_r, highest_o, _ = (
        max(int(column.max(initial=-1)) for column in parts) for parts in zip(*columns, strict=True)
    )
    entities = _read_names(folder, "entity", stat[0], max(highest_s, highest_o))
    relations = _read_names(folder, "relation", stat[1], highest_r)
    vocab = Vocabulary(entities, relations)
    *parts, before, after = (_facts(*loaded, vocab, clock) for loaded in zip(names, columns, lines, strict=True))
    (train, valid, test), moved = _settle(parts, overlap)
    missing = tuple(f"there is no {part} part" for part in PARTS if find_file(folder, f"{part}.txt") is None)
    name, files = name or folder.resolve().name, file_sums(folder)
    outer = [part if len(part) else None for part in (before, after)]
    return Dataset(train, valid, test, name, (*missing, *moved), outer[0], outer[1], files)


def _read_clock(folder: Path) -> Clock:
    """The clock of ``clock.toml`` (unit, origin, step); without the file, plain steps."""
    path = folder / "clock.toml"
    if not path.is_file():
        return Clock("step")
    values = {key: value.isoformat() if isinstance(value, date) else value for key, value in read_toml(path).items()}
    return update(Clock("step"), values, str(path))


def _read_part(folder: Path, part: str) -> tuple[Columns, Lines]:
    """The first four numbers of each line that is not blank, as columns, and the numbers of those lines."""
    path = find_file(folder, f"{part}.txt")
    data = read_bytes(path).removeprefix(b"\xef\xbb\xbf") if path else b""
    data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if data.translate(None, b"0123456789 \t\n"):
        return _read_lines(data, path.name if path else part)
    return _read_regular(data) or _read_padded(data) or _read_lines(data, path.name if path else part)


def _read_regular(data: bytes) -> tuple[Columns, Lines] | None:
    """The fast way, in several threads, for lines of equal width with single tabs or blanks; else None."""
    roles = [f"f{i}" for i in range(4)]
    try:
        table = pa.csv.read_csv(
            pa.BufferReader(data),
            read_options=pa.csv.ReadOptions(autogenerate_column_names=True),
            parse_options=pa.csv.ParseOptions(
                delimiter="\t" if b"\t" in data[:LOOK] else " ", quote_char=False, ignore_empty_lines=False
            ),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(roles, pa.int64()), include_columns=roles, null_values=[]
            ),
        )
    except pa.ArrowException:
        return None
    s, r, o, t = (np.concatenate([np.asarray(chunk) for chunk in column.chunks]) for column in table.columns)
    if max(column.max() for column in (s, r, o, t)) >= 10**MOST_DIGITS:
        return None
    return (s, r, o, t), range(1, len(t) + 1)


def _read_padded(data: bytes) -> tuple[Columns, Lines] | None:
    """The numbers of lines with any amount of blanks; None if a line or a number has the wrong length."""
    byte = np.frombuffer(data, np.uint8)
    blank = byte <= ord(" ")
    first = np.flatnonzero(~blank & np.concatenate([[True], blank[:-1]])[: len(byte)])  # of each number
    after = np.flatnonzero(blank & np.concatenate([[False], ~blank[:-1]])[: len(byte)])
    longest = (np.append(after, len(byte))[: len(first)] - first).max(initial=0)
    line_of_number = np.cumsum(byte == ord("\n"))[first] if len(first) else first
    width = np.bincount(line_of_number)
    line = np.flatnonzero(width)
    if longest > MOST_DIGITS or (len(line) and width[line].min() < 4):
        return None
    number = np.fromstring(data.decode(), np.int64, sep=" ")
    begin = (np.cumsum(width) - width)[line]
    return (number[begin], number[begin + 1], number[begin + 2], number[begin + 3]), line + 1


def _read_lines(data: bytes, name: str) -> tuple[Columns, Lines]:
    """The slow way, line by line: it ignores anything after the fourth column, and reports the wrong line."""
    rows, lines = [], []
    for number, line in enumerate(data.split(b"\n"), start=1):
        cells = line.split()
        if not cells:
            continue
        if len(cells) < 4 or not all(cell.isdigit() and len(cell) <= MOST_DIGITS for cell in cells[:4]):
            raise DataError(
                f"{name}:{number}: {line.strip()[:60].decode(errors='replace')!r} found; expected four whole numbers "
                f"from 0 on: subject, relation, object and time."
            )
        rows.append([int(cell) for cell in cells[:4]])
        lines.append(number)
    s, r, o, t = np.array(rows, np.int64).reshape(-1, 4).T.copy()
    return (s, r, o, t), lines


def _read_stat(folder: Path) -> tuple[int, int]:
    """Numbers of entities and relations by ``stat.txt``; 0, 0 without one."""
    path = find_file(folder, "stat.txt")
    if path is None:
        return 0, 0
    cells = read_bytes(path).split()
    if len(cells) < 2 or not all(_is_id(cell.decode(errors="replace")) for cell in cells[:2]):
        content = b" ".join(cells)[:60].decode(errors="replace")
        raise DataError(f"{path}: {content!r} found; expected the numbers of entities and relations.")
    return int(cells[0]), int(cells[1])


def _read_names(folder: Path, kind: str, stated: int, highest: int) -> tuple[str, ...]:
    """The name of each id: its label, its name of ``entity2id.txt``, or else the id itself."""
    named = _read_ids(folder, f"{kind}2id.txt")
    labels = _read_ids(folder, f"{kind}_labels.txt")
    size = max(stated, max(named, default=-1) + 1) or highest + 1
    if size > MOST_IDS:
        raise DataError(f"{folder}: {kind} id {size - 1} found; expected ids below {MOST_IDS:,}, counted from 0.")
    plain = [named.get(i, str(i)) for i in range(size)]
    names = [labels.get(i, plain[i]) for i in range(size)]
    for other in (plain, [str(i) for i in range(size)]):  # tell names that repeat apart by what is unique
        count = Counter(names)
        names = [f"{name} ({other[i]})" if count[name] > 1 else name for i, name in enumerate(names)]
    return tuple(names)


def _read_ids(folder: Path, file: str) -> dict[int, str]:
    """``name <tab> id`` lines, plain text without a quoting rule, in any order; further columns are ignored."""
    path = find_file(folder, file)
    names: dict[int, str] = {}
    text = decode_text(read_bytes(path), file) if path else ""
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        name, *cells = (cell.strip() for cell in line.split("\t"))
        if not (name and cells and _is_id(cells[0])):
            raise DataError(f"{file}:{number}: {line.strip()[:60]!r} found; expected a name, a tab and its id.")
        if int(cells[0]) in names:
            raise DataError(f"{file}:{number}: id {cells[0]} has two names, {names[int(cells[0])]!r} and {name!r}.")
        names[int(cells[0])] = name
    return names


def _is_id(text: str) -> bool:
    return text.isdecimal() and len(text) <= MOST_DIGITS and int(text) < MOST_IDS


def _facts(part: str, columns: Columns, lines: Lines, vocab: Vocabulary, clock: Clock) -> Quadruples:
    """Columns of one part in time order, ids and times checked."""
    s, r, o, t = columns
    for kind, role, ids, size in (
        ("entity", "subject", s, vocab.num_entities),
        ("relation", "relation", r, vocab.num_relations),
        ("entity", "object", o, vocab.num_entities),
    ):
        if (outside := ids >= size).any():
            row = int(np.argmax(outside))
            raise DataError(
                f"{part}.txt:{lines[row]}: {role} id {ids[row]} is outside the vocabulary (ids 0 to {size - 1}). "
                f"Either the line is damaged, or {kind}2id.txt and stat.txt are of another data set."
            )
    if (uneven := t % clock.step != 0).any():
        row = int(np.argmax(uneven))
        raise DataError(
            f"{part}.txt:{lines[row]}: time {t[row]} found; expected a multiple of {clock.step}, "
            f"which this data set counts for one {clock.unit}."
        )
    return in_time_order(Quadruples(s, r, o, t // clock.step if clock.step > 1 else t, vocab, clock))


def _settle(parts: list[Quadruples], overlap: str | None) -> tuple[list[Quadruples], tuple[str, ...]]:
    """Parts that share no step, and notes on the facts moved for that."""
    parts = list(parts)
    notes = []
    filled = [i for i, part in enumerate(parts) if len(part)]
    for i, j in pairwise(filled):
        shared = parts[j].t[0]
        if parts[i].t[-1] < shared:
            continue
        if parts[i].t[-1] > shared or overlap is None:
            raise DataError(_out_of_order(parts[i], parts[j], PARTS[i], PARTS[j]))
        of, to = (j, i) if overlap == "earlier" else (i, j)
        moved = parts[of].t == shared
        count = "1 fact was" if moved.sum() == 1 else f"{int(moved.sum()):,} facts were"
        notes.append(
            f"the step {parts[i].clock.format(float(shared))} stood in {PARTS[i]} and {PARTS[j]}: "
            f"{count} moved from {PARTS[of]} to {PARTS[to]} (--overlap {overlap})"
        )
        parts[to] = in_time_order(concatenate([parts[to], parts[of].select(moved)]))
        parts[of] = parts[of].select(~moved)
        if not len(parts[of]):
            raise DataError(f"{PARTS[of]}.txt: all its facts are of the shared step: nothing would be left of it.")
    return parts, tuple(notes)


def _out_of_order(part: Quadruples, later: Quadruples, name: str, later_name: str) -> str:
    shared = part.t[-1] == later.t[0]
    remedy = "--overlap earlier|later gives this step whole to one of them" if shared else "cut the facts anew by date"
    return (
        f"{later_name}.txt: its first time, {later.t[0]}, is not after the last one of {name}.txt, {part.t[-1]}: "
        f"a time may stand in one part only, in the order train, valid, test; {remedy}."
    )

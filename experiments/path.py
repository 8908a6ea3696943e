"""The path of one fact from CSV to loss: which functions of the package it passes, in order, and how many.

    python -m experiments.path

Makes a small table of dated events and runs one ``tango-tucker`` training step on it: read, split, timeline, windows
and queries, encode, solve, decode, loss. Every function and method of ``src/tangokg`` that is entered on the way
counts once, where it is entered first. Not counted are lambdas, comprehensions and generator expressions, properties,
``__len__``, and the checks in ``__post_init__``; nor is making the model (settings, first weights), which no fact
passes. Functions that return at once, because the step does not need them, count like any other.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from inspect import getattr_static, getmodulename
from pathlib import Path
from types import CodeType, FrameType

import torch

import tangokg
from tangokg.models import MODELS
from tangokg.quads import read_events
from tangokg.snapshots.timeline import build_timeline
from tangokg.snapshots.windows import queries_at, windows_at
from tangokg.train import make_config

HOME = Path(tangokg.__file__).parent
LEFT_OUT = ("__len__", "__post_init__")
NAMES = ("Anna", "Ben", "Cleo", "Dora", "Emil")


def write_events(path: Path) -> None:
    """Eighty events of five people on twenty days."""
    rows = [
        (NAMES[i % 5], "visits" if i % 3 else "calls", NAMES[(i * i + 3) % 5], f"2024-03-{1 + i // 4:02}")
        for i in range(80)
    ]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("subject", "relation", "object", "date"), *rows])


def functions_to_loss() -> dict[str, list[str]]:
    """``folder/file.py: function`` of all that is entered first while reading, in making snapshots, and in the step."""
    entered: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.csv"
        write_events(path)
        with noting("read and split the table", entered):
            data = read_events(path).split(train=0.8, valid=0.1)
    with noting("make the snapshots", entered):
        timeline = build_timeline(data.train)
    generator = torch.Generator().manual_seed(0)
    settings = make_config("tango-tucker", assignments=["dim=8"]).settings
    model = MODELS["tango-tucker"].build(settings, timeline, generator)
    target = torch.arange(len(timeline) - 3, len(timeline))
    with noting("make the step", entered):
        loss = model(timeline, windows_at(timeline, target), queries_at(timeline, target), generator)
    assert loss.isfinite()
    return entered


@contextmanager
def noting(stage: str, entered: dict[str, list[str]]) -> Iterator[None]:
    """Note the functions that are called inside, in the order of first calls, but for those of earlier stages."""
    called: dict[CodeType, None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.setdefault(frame.f_code)

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
    earlier = {name for names in entered.values() for name in names}
    entered[stage] = [name for code in called if (name := counted(code)) and name not in earlier]


def counted(code: CodeType) -> str:
    """The name of a function of ours, "" where it does not count."""
    path = Path(code.co_filename)
    if not path.is_relative_to(HOME) or code.co_name.startswith("<") or code.co_name in LEFT_OUT:
        return ""
    if "<locals>" not in code.co_qualname and isinstance(_found(path, code.co_qualname), property | cached_property):
        return ""
    return f"{path.relative_to(HOME).as_posix()}: {code.co_qualname}"


def _found(path: Path, qualname: str) -> object:
    """What a qualified name stands for in the module of a file."""
    parts = path.relative_to(HOME.parent).with_suffix("").parts
    found: object = sys.modules[".".join(parts[:-1] if getmodulename(str(path)) == "__init__" else parts)]
    for name in qualname.split("."):
        found = getattr_static(found, name)
    return found


def room(name: str) -> str:
    """The folder of a function, or its file where that stands beside the folders."""
    return name.partition("/")[0] if "/" in name.partition(":")[0] else name.partition(":")[0]


def main(say: Callable[[str], object] = print) -> None:
    """List the functions with their rooms, and count them."""
    stages, before = functions_to_loss(), ""
    names = [name for each in stages.values() for name in each]
    for number, name in enumerate(names, start=1):
        say(f"{number:4}  {room(name) if room(name) != before else '':11} {name}")
        before = room(name)
    say("\n" + ", ".join(f"{room} {count}" for room, count in Counter(map(room, names)).items()))
    say(f"{len(names)} functions: " + ", ".join(f"{len(each)} {what}" for what, each in stages.items()))


if __name__ == "__main__":
    main()

"""The path of one fact from CSV to loss: which functions of the package it passes, in order, and how many.

    python -m experiments.path

Makes a small table of dated events and runs one ``tango-tucker`` training step on it: read, split, timeline, windows
and queries, encode, solve, decode, loss. Every function and method of ``src/tangokg`` that is entered on the way
counts once, where it is entered first. Not counted are lambdas, comprehensions and generator expressions, properties,
``__len__``, and the checks in ``__post_init__``; nor is making the model (settings, first weights), which no fact
passes. Functions that return at once, because the step does not need them, count like any other.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, reduce
from inspect import getattr_static
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
    lines = ["subject,relation,object,date"]
    for i in range(80):
        subject, object_ = NAMES[i % 5], NAMES[(i * i + 3) % 5]
        lines.append(f"{subject},{'visits' if i % 3 else 'calls'},{object_},2024-03-{1 + i // 4:02}")
    path.write_text("\n".join(lines), encoding="utf-8")


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
    called: dict[CodeType, str] = {}  # with their modules

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.setdefault(frame.f_code, frame.f_globals.get("__name__", ""))

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
    earlier = {name for names in entered.values() for name in names}
    names = [counted_name(code, module) for code, module in called.items()]
    entered[stage] = [name for name in names if name and name not in earlier]


def counted_name(code: CodeType, module: str) -> str:
    """``folder/file.py: function`` of a function of the package; "" where it does not count."""
    path = Path(code.co_filename)
    if not path.is_relative_to(HOME) or code.co_name.startswith("<") or code.co_name in LEFT_OUT:
        return ""
    if "<locals>" not in code.co_qualname:
        function: object = reduce(getattr_static, code.co_qualname.split("."), sys.modules[module])
        if isinstance(function, property | cached_property):
            return ""
    return f"{path.relative_to(HOME).as_posix()}: {code.co_qualname}"


def main(say: Callable[[str], object] = print) -> None:
    """List the functions with their rooms, and count them."""
    stages = functions_to_loss()
    names = [name for functions in stages.values() for name in functions]
    rooms = [re.split("[/:]", name)[0] for name in names]  # its folder, or its file where that is in none
    for number, (name, room, before) in enumerate(zip(names, rooms, ["", *rooms], strict=False), start=1):
        say(f"{number:4}  {room if room != before else '':11} {name}")
    say("\n" + ", ".join(f"{room} {count}" for room, count in Counter(rooms).items()))
    say(f"{len(names)} functions: " + ", ".join(f"{len(functions)} {stage}" for stage, functions in stages.items()))


if __name__ == "__main__":
    main()

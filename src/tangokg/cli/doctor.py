"""``tango doctor``: what this machine and this installation have."""

from __future__ import annotations

import platform
import re
import shlex
import sys
from importlib import metadata
from typing import Any

import typer

from tangokg.cli.options import Json
from tangokg.cli.output import Output


def doctor(ctx: typer.Context, as_json: Json = False) -> None:
    """Print versions, device, memory, data folders, and which extras are installed."""
    output: Output = ctx.obj
    report = examine()
    if as_json:
        output.json(report)
        return
    rows = []
    for subject, values in report.items():
        for place, (name, value) in enumerate(values.items()):
            rows.append([subject if place == 0 else "", name, "-" if value is None else str(value)])
    output.table("tango doctor", ("", "", ""), rows, left=3)


def examine() -> dict[str, dict[str, Any]]:
    """Subject -> name -> value."""
    from tangokg import __version__
    from tangokg.quads import cache_folder, data_folders, known_sets

    core, extras = _requirements()
    versions = {"tangokg": __version__, "python": sys.version.split()[0]} | {name: _installed(name) for name in core}
    places = {str(place): "found" if place.is_dir() else "not found" for place in data_folders()}
    return {
        "versions": versions,
        "machine": _machine(),
        "extras": {extra: _extra(lines) for extra, lines in extras.items()},
        "data looked for in": places,
        "cache": {"folder": str(cache_folder())},
        "known sets": {known["name"]: known["found"] or "not here" for known in known_sets()},
    }


def _machine() -> dict[str, Any]:
    import torch

    from tangokg.train.devices import usable_cores
    from tangokg.train.memory import free_bytes

    cuda = torch.cuda.is_available()
    device = torch.device("cuda" if cuda else "cpu")
    free, on_device = free_bytes(torch.device("cpu")), free_bytes(device) if cuda else None
    return {
        "system": platform.platform(),
        "device": f"{device} ({torch.cuda.get_device_name()})" if cuda else str(device),
        "device memory, GiB free": None if on_device is None else round(on_device / 2**30, 1),
        "cores": usable_cores(),
        "threads": torch.get_num_threads(),
        "memory, GiB free": None if free is None else round(free / 2**30, 1),
    }


def _requirements() -> tuple[list[str], dict[str, list[str]]]:
    """The distributions that the package needs, and the requirements of each extra."""
    core: list[str] = []
    extras: dict[str, list[str]] = {}
    for line in metadata.requires("tangokg") or []:
        extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)", line)
        if extra:
            extras.setdefault(extra[1], []).append(line.partition(";")[0].strip())
        else:
            core.append(_name(line))
    return core, extras


def _name(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _extra(requirements: list[str]) -> str:
    missing = [line for line in requirements if _installed(_name(line)) is None]
    return f"missing: pip install {shlex.join(missing)}" if missing else "installed"

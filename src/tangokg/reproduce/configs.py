"""The files in ``configs/``: one for each experiment, with the paper's numbers inside, all made from the presets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tangokg.config import to_toml
from tangokg.errors import ConfigError
from tangokg.reproduce.cells import cells_of, tables
from tangokg.reproduce.presets import Experiment, experiments
from tangokg.reproduce.view import PAPER_METRIC

HEAD = "# Made by `tango reproduce --configs configs` from the presets in the package; edit those.\n"
ORDER = "# [paper]: the numbers of each table (MRR, Hits@1, 3, 10, or seconds), and its label there as ..._in.\n"


def config_text(experiment: Experiment) -> str:
    """The config of an experiment as `tango train --config` takes it."""
    data: dict[str, Any] = {"name": experiment.source, "thin": experiment.thin}
    found: dict[str, Any] = {"model": experiment.model}
    if experiment.settings:
        found["settings"] = dict(experiment.settings)
    found |= {"train": dict(experiment.train), "data": data, "paper": _paper(experiment)}
    return HEAD + ORDER + to_toml(found)


def _paper(experiment: Experiment) -> dict[str, Any]:
    """The paper's numbers that this config is for, by table (and column, where that is not the data set).

    ``main`` are those of our table of this name in the order of its metrics, ``main_in`` is its label in the paper.
    """
    found: dict[str, Any] = {"model": experiment.row, "departures": list(experiment.departures)}
    for cell in cells_of(experiment.name):
        paper = tables()[cell.table].paper
        printed = paper.get(cell.row, cell.column, PAPER_METRIC.get(cell.metric, cell.metric)) if paper else None
        if paper and (printed or (not paper.values and cell.form == "paper form")):  # drawn, where nothing is printed
            found.setdefault(f"{cell.table}_in".replace("-", "_"), paper.label)
        if printed is None:
            continue
        own_column = cell.column != experiment.data
        key = f"{cell.table}_{cell.column}" if own_column else cell.table
        key = key.replace("-", "_").replace(" ", "_")
        found.setdefault(key, []).append(printed.value)
        if printed.spread is not None:
            found.setdefault(f"{key}_spread", []).append(printed.spread)
    return found


def config_files() -> dict[str, str]:
    """Path below ``configs/`` -> text."""
    return {f"{name}.toml": config_text(experiment) for name, experiment in experiments().items()}


def write_configs(folder: Path) -> tuple[int, list[Path]]:
    """Write all configs; returns how many there are, and those that no preset makes any more, which are deleted."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder}: expected a folder for the configs, found a file.")
    wanted = config_files()
    for name, text in wanted.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    extra = [path for path in sorted(folder.glob("*/*.toml")) if path.relative_to(folder).as_posix() not in wanted]
    made = [path for path in extra if path.read_text(encoding="utf-8").startswith(HEAD)]
    for path in made:
        path.unlink()
    return len(wanted), made

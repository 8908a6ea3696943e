"""What a run folder holds, for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tangokg.quads.values import Dataset
from tangokg.report.figures import read_log
from tangokg.showing import counted
from tangokg.train.runs import RunFolder
from tangokg.train.settings import RunConfig
from tangokg.train.stopping import why_ended

SUM = "sha256 of"  # begins the key of each file's sum


def describe(run: str | Path) -> dict[str, Any]:
    """What a run is: its settings, its data, its metrics, and how its training ended, as subject -> name -> value."""
    folder = RunFolder(Path(run))
    config, stored = folder.config(), folder.metrics()
    told = describe_parts(config, folder.dataset())
    told["run"] |= _ending(folder, config) | _made(stored)
    told["data"] |= {"goes on from": str(folder.origin)} if folder.origin else {}
    return told | {"metrics": {part: found for part in ("valid", "test") if (found := _measured(stored, part))}}


def describe_parts(config: RunConfig, dataset: Dataset) -> dict[str, dict[str, Any]]:
    """What settings and data say, without a folder."""
    tables = config.to_tables()
    run = {"model": config.model, "seed": config.seed}
    return {"run": run, "data": _data(dataset), "settings": tables.get("settings", {}), "training": tables["train"]}


def _measured(stored: dict[str, Any], part: str) -> tuple[dict[str, float], int] | None:
    """Time-aware figures and the number of queries; None if the file does not have them in the expected form."""
    try:
        values, queries = stored[part]["time-aware"], stored["queries"][part]
        return {name: float(values[name]) for name in ("mrr", "hits@1", "hits@3", "hits@10")}, int(queries)
    except (LookupError, TypeError, ValueError):
        return None


def _ending(folder: RunFolder, config: RunConfig) -> dict[str, Any]:
    """How training ended, and after how many epochs."""
    if not folder.usable:
        done = len(read_log(folder.log)) if folder.log.exists() else 0
        return {"ended": f"not finished: go on with `tango train --out {folder.path} --resume`", "epochs": done}
    progress = folder.progress()
    why = why_ended(progress, config.train) or ("finished" if progress.epoch else "nothing to train")
    best = {"best epoch": progress.best_epoch} if progress.best_epoch else {}
    return {"ended": why, "epochs": progress.epoch, **best}


def _made(stored: dict[str, Any]) -> dict[str, Any]:
    """Where and how long it was trained."""
    told = {"seconds": stored.get("train_seconds"), "device": stored.get("device"), "commit": stored.get("commit")}
    versions = stored.get("versions")
    told["version"] = versions.get("tangokg") if isinstance(versions, dict) else None
    mark = {"not comparable": stored.get("not_comparable")}
    return {key: value for key, value in (told | mark).items() if value}


def _data(dataset: Dataset) -> dict[str, Any]:
    facts = dataset.facts
    told: dict[str, Any] = {
        "name": dataset.name,
        "unit": facts.clock.unit,
        "entities": f"{facts.vocab.num_entities:,}",
        "relations": f"{facts.vocab.num_relations:,}",
    }
    for name, part in dataset.parts.items():
        first, last = (facts.clock.format(float(end(part.t))) for end in (min, max)) if len(part) else ("", "")
        told[name] = f"{counted(len(part), 'fact')}, {first} to {last}" if len(part) else "no facts"
    return told | {f"{SUM} {name}": found for name, found in dataset.files.items()}

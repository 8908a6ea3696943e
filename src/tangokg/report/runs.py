"""Readable descriptions of run folders."""

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
    """Describe a run, its settings, data, metrics and the end of its training, as subject -> name -> value."""
    folder = RunFolder(Path(run))
    config, stored = folder.config(), folder.metrics()
    parts = describe_parts(config, folder.dataset())
    parts["run"] |= _ending(folder, config) | _provenance(stored)
    parts["data"] |= {"goes on from": str(folder.origin)} if folder.origin else {}
    return parts | {"metrics": {part: figures for part in ("valid", "test") if (figures := _measured(stored, part))}}


def describe_parts(config: RunConfig, dataset: Dataset) -> dict[str, dict[str, Any]]:
    """Describe settings and data, without a run folder."""
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
    ending = why_ended(progress, config.train) or ("finished" if progress.epoch else "nothing to train")
    best = {"best epoch": progress.best_epoch} if progress.best_epoch else {}
    return {"ended": ending, "epochs": progress.epoch, **best}


def _provenance(stored: dict[str, Any]) -> dict[str, Any]:
    """Where and how long it was trained."""
    origin = {"seconds": stored.get("train_seconds"), "device": stored.get("device"), "commit": stored.get("commit")}
    versions = stored.get("versions")
    origin["version"] = versions.get("tangokg") if isinstance(versions, dict) else None
    mark = {"not comparable": stored.get("not_comparable")}
    return {key: value for key, value in (origin | mark).items() if value}


def _data(dataset: Dataset) -> dict[str, Any]:
    facts = dataset.facts
    data: dict[str, Any] = {
        "name": dataset.name,
        "unit": facts.clock.unit,
        "entities": f"{facts.vocab.num_entities:,}",
        "relations": f"{facts.vocab.num_relations:,}",
    }
    for name, part in dataset.parts.items():
        first, last = (facts.clock.format(float(end(part.t))) for end in (min, max)) if len(part) else ("", "")
        data[name] = f"{counted(len(part), 'fact')}, {first} to {last}" if len(part) else "no facts"
    return data | {f"{SUM} {name}": digest for name, digest in dataset.files.items()}

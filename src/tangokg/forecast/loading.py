"""A run folder, here or on Hugging Face, comes back as a forecaster; nothing from it is executed."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tangokg.config import read_toml
from tangokg.errors import ConfigError, DataError, RunError, checked
from tangokg.forecast.chances import load_chances
from tangokg.forecast.forecaster import Forecaster
from tangokg.quads import read_events
from tangokg.quads.adapt import adapt
from tangokg.quads.clock import Clock
from tangokg.quads.values import Dataset, Quadruples, in_time_order
from tangokg.quads.vocabulary import Vocabulary
from tangokg.train import RunFolder
from tangokg.train.devices import choose_device

HUB = "hf://"  # before owner/name of a repository
BEGIN = "begin"  # in [data] of the config of a run without facts: the first time of each part
PARTS = ("train", "valid", "test", "after")
FACTS = "history.parquet"
MEASURED = ("metrics.json", "log.csv")
FILES = ("config.toml", "weights.safetensors", "chances.safetensors", "vocab/*.parquet", FACTS, *MEASURED)


@checked
def load(path: str | Path, device: str = "auto", *, facts: Any = None) -> Forecaster:
    """The forecaster of a finished run, on ``cpu``, ``cuda``, or ``auto``: cuda where there is one.

    ``path`` is a run folder, or ``hf://owner/name``, also with ``@revision``, for a run that was shared. A run without
    its facts needs ``facts``: a :class:`Dataset`, or what :func:`tangokg.read_events` takes.
    """
    folder = RunFolder(download(path) if isinstance(path, str) and path.startswith(HUB) else Path(path))
    own_facts = None if facts is None else _place_facts(folder, facts)
    model, dataset, config = folder.load(own_facts)
    model, exposure, chances = model.to(choose_device(device)), folder.exposure(dataset), load_chances(folder.path)
    forecaster = Forecaster(model, dataset, config, folder.progress(), exposure, chances)
    forecaster.path = folder.path
    return forecaster


def _place_facts(folder: RunFolder, facts: Any) -> Dataset:
    """Facts for a run that came without them, split at the times of its parts; new names make a fact observed."""
    folder.config()
    if (folder.path / FACTS).exists():
        raise ConfigError(f"{folder.path} has its facts: load it without facts=, and give new ones to observe().")
    vocab, clock, begin = Vocabulary.load(folder.path / "vocab"), folder.clock, _begin(folder)
    events = in_time_order(adapt(_read(facts, clock), vocab, clock))
    known = (np.maximum(events.s, events.o) < vocab.num_entities) & (events.r < vocab.num_relations)
    place = np.where(known, np.searchsorted(list(begin.values()), events.t, side="right"), len(PARTS))
    before, train, valid, test, after = (events.select(place == i) for i in range(len(PARTS) + 1))
    if not len(train):
        since, until = (clock.format(float(begin[name])) for name in ("train", "valid"))
        raise DataError(
            f"none of the facts given for {folder.path} lies in its training part, from {since} until before {until}, "
            f"with names that it knows. Give the facts that it was trained on."
        )
    counts = (vocab.num_entities, vocab.num_relations, 0) if len(after) else None
    first, last = (part if len(part) else None for part in (before, after))
    return Dataset(train, valid, test, folder.name, before=first, after=last, own=counts)


def _begin(folder: RunFolder) -> dict[str, int]:
    """The first time of each part, in time order, as stored in a shared run."""
    path = folder.path / "config.toml"
    begin = read_toml(path).get("data", {}).get(BEGIN)
    valid = isinstance(begin, dict) and all(type(begin.get(name)) is int for name in PARTS)
    if not valid or (times := [begin[name] for name in PARTS]) != sorted(times):
        raise RunError(f"{path}: [data] {BEGIN} is {begin!r:.80}, expected the first time of {', '.join(PARTS)}.")
    return dict(zip(PARTS, times, strict=True))


def _read(facts: Any, clock: Clock) -> Quadruples:
    """Read facts as :meth:`Forecaster.observe` does: tables in the unit and time zone of the run."""
    if isinstance(facts, Quadruples | Dataset):
        return facts if isinstance(facts, Quadruples) else facts.facts
    if isinstance(facts, str | Path) and not Path(facts).is_file():
        return read_events(facts)
    dated = clock.origin is not None
    return read_events(facts, unit=clock.unit if dated else "step", timezone=clock.timezone if dated else None)


# Hugging Face


def hub() -> Any:
    """The package ``huggingface_hub``; if it is missing, an error says how to install it."""
    try:
        return import_module("huggingface_hub")
    except ModuleNotFoundError as error:
        if error.name != "huggingface_hub":
            raise
        raise ConfigError(
            "sharing needs the extra 'hub' (huggingface_hub is missing): pip install 'tangokg[hub]'."
        ) from None


def check_name(name: str) -> str:
    """Check that a name has the form ``owner/name``."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name, re.ASCII):
        raise ConfigError(f"{name!r} is not the name of a repository: expected owner/name.")
    return name


def download(address: str) -> Path:
    """The folder of a shared run in the user's cache: only the files that a run has are downloaded."""
    name, _, revision = address.removeprefix(HUB).partition("@")
    check_name(name)
    options = {"revision": revision or None, "allow_patterns": list(FILES), "library_name": "tangokg"}
    package = hub()
    try:
        return Path(package.snapshot_download(name, **options))
    except Exception as error:  # the network, a name, a revision, access: the package has a class for each
        raise RunError(
            f"{address}: cannot be downloaded: {hub_reason(error)}. Check the name; a private repository needs "
            f"`hf auth login` or $HF_TOKEN."
        ) from None


def hub_reason(error: Exception) -> str:
    """The first line of an error that is not empty."""
    return next((line.strip().rstrip(".") for line in str(error).splitlines() if line.strip()), type(error).__name__)

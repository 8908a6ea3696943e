"""A run folder: plain files with a schema version, from which a trained model is loaded without executing code."""

from __future__ import annotations

import json
import math
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from tangokg.config import read_toml, to_toml
from tangokg.errors import ConfigError, RunError
from tangokg.models import Model
from tangokg.quads.clock import Clock
from tangokg.quads.values import Dataset, Quadruples
from tangokg.quads.vocabulary import Vocabulary
from tangokg.snapshots.timeline import build_timeline
from tangokg.train.checkpoint import (
    Progress,
    load_note,
    load_tensors,
    load_weights,
    save_tensors,
    write_atomically,
    write_log,
)
from tangokg.train.exposure import Exposure, everything
from tangokg.train.facts import facts_file, read_facts
from tangokg.train.material import build_model
from tangokg.train.settings import SCHEMA, RunConfig, make_config
from tangokg.train.stopping import STOPPED, UNFINISHED

OLDER = "Read a run of an earlier version with that version, or train again."
REMOVED = (("copying", False),)  # settings that are gone, with the value at which they did nothing: such runs are read


@dataclass(frozen=True)
class RunFolder:
    """The files of one run."""

    path: Path

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint" / "state.safetensors"

    @property
    def weights(self) -> Path:
        return self.path / "weights.safetensors"

    @property
    def usable(self) -> bool:
        """Whether it has weights to answer with, even if training was stopped early."""
        return self.weights.exists()

    @property
    def finished(self) -> bool:
        """Whether its training has finished."""
        if not self.usable:
            return False
        with suppress(RunError):  # reading the weights says what is wrong
            progress = load_note(self.weights).get("progress")
            return not (isinstance(progress, dict) and progress.get("ended") in UNFINISHED)
        return True

    @property
    def refit_checkpoint(self) -> Path:
        return self.path / "checkpoint" / "refit.safetensors"

    @property
    def log(self) -> Path:
        return self.path / "log.csv"

    @property
    def origin(self) -> Path | None:
        """The run that this one was started from."""
        origin = self._tables().get("data", {}).get("from")
        return None if origin is None else Path(origin)

    @property
    def begun(self) -> bool:
        """Whether the folder holds a run, finished or not."""
        return (self.path / "config.toml").exists()

    @property
    def seen(self) -> str:
        """Why its figures are not comparable, if it started from a run that saw held-back facts; else ""."""
        return str(self._tables().get("data", {}).get("seen", ""))

    def create(
        self, dataset: Dataset, config: RunConfig, origin: Path | None = None, exposure: Exposure | None = None
    ) -> None:
        """Write everything but the weights under another name, then rename: a kill leaves no half-written run."""
        partial = RunFolder(self.path.absolute().with_name(f".{self.path.absolute().name}.new-{os.getpid()}"))
        data: dict[str, Any] = {"name": dataset.name, "from": None if origin is None else str(origin.absolute())}
        data["files"] = [f"{sum_} {name}" for name, sum_ in dataset.files.items()] or None
        data["own"] = dataset.own
        if exposure is not None and exposure.seen:
            data |= {"seen": exposure.seen, "until": exposure.until}
        tables = config.to_tables() | {"clock": dataset.clock.to_dict(), "data": data}
        try:
            partial.checkpoint.parent.mkdir(parents=True)
            dataset.vocab.save(partial.path / "vocab")
            write_atomically(partial.path / "history.parquet", facts_file(dataset))
            write_atomically(partial.path / "config.toml", to_toml(tables).encode())
            if self.path.is_dir():
                self.path.rmdir()  # an empty one: see claim()
            os.replace(partial.path, self.path)
        except OSError as error:
            reason = error.strerror or error
            raise RunError(f"{self.path}: cannot be created: {reason}. Free space or choose another --out.") from None
        finally:
            shutil.rmtree(partial.path, ignore_errors=True)

    def save_model(self, model: Model, progress: Progress, exposure: Exposure | None = None) -> None:
        """Write the trained weights and the log of epochs; the run is now usable, and finished if training ended."""
        write_log(self.log, progress)
        names = ("epoch", "best_epoch", "best_mrr", "ended")
        summary = {name: getattr(progress, name) for name in names if getattr(progress, name) != ""}
        # No seconds in the note: two runs with the same weights have the same file.
        note = {"progress": summary} | ({"exposure": exposure.to_note()} if exposure else {})
        save_tensors(self.weights, dict(model.state_dict()), note)

    def reopen(self, config: RunConfig) -> None:
        """Resume a run under other limits: it becomes unfinished, and its weights stay usable."""
        if self.usable:
            weights, note = load_tensors(self.weights)
            note["progress"] = {**note.get("progress", {}), "ended": STOPPED}
            save_tensors(self.weights, weights, note)
        self.refit_checkpoint.unlink(missing_ok=True)
        write_atomically(self.path / "config.toml", to_toml(self._tables() | config.to_tables()).encode())

    def progress(self) -> Progress:
        """A summary of the training of a run; `log.csv` has the epochs."""
        try:
            return Progress.of(load_note(self.weights).get("progress", {}))
        except ConfigError as error:
            raise RunError(f"{self.path}: the weights were written by another version ({error}).") from None

    def save_stopped(self, model: Model, progress: Progress, exposure: Exposure) -> None:
        """Write the best weights of a stopped training; remove figures and chances that belong to earlier weights."""
        for name in ("metrics.json", "chances.safetensors"):
            (self.path / name).unlink(missing_ok=True)
        self.save_model(model, progress, exposure)

    def exposure(self, dataset: Dataset | None = None) -> Exposure:
        """The facts that its weights depend on; ``dataset`` is the dataset of the run, if already read."""
        try:
            return Exposure.from_note(load_note(self.weights).get("exposure"), dataset or self.dataset())
        except ConfigError as error:
            raise RunError(f"{self.weights}: damaged or not of this form ({error}).") from None

    def planned_exposure(self, dataset: Dataset) -> Exposure:
        """The facts that its weights depend on before any refit, whether it has weights yet or not."""
        until = self._tables().get("data", {}).get("until", -math.inf)
        return Exposure.of(dataset, Exposure(until if isinstance(until, int | float) else math.inf), self.seen)

    def save_metrics(self, metrics: dict[str, Any]) -> None:
        """``metrics.json``, in the form of the files in ``experiments/results/``."""
        write_atomically(self.path / "metrics.json", (json.dumps(metrics, indent=2) + "\n").encode())

    def metrics(self) -> dict[str, Any]:
        """The content of ``metrics.json``; empty if it is missing or cannot be read."""
        try:
            metrics = json.loads((self.path / "metrics.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return metrics if isinstance(metrics, dict) else {}

    def config(self) -> RunConfig:
        """The resolved config of the run."""
        path = self.path / "config.toml"
        if not path.exists():
            raise RunError(f"{self.path}: no run is here (no config.toml). Make one with `tango train DATA --out RUN`.")
        tables = self._tables()
        settings = tables.get("settings", {})
        if tables.get("model") == "tango" and "heads" not in settings:
            raise RunError(f"{self.path}: this run holds the model 'tango' of an earlier version. {OLDER}")
        if isinstance(settings, dict):
            tables = tables | {"settings": {k: v for k, v in settings.items() if (k, v) not in REMOVED}}
        return make_config(tables=tables, where=str(path))

    @property
    def clock(self) -> Clock:
        """The clock of its facts."""
        try:
            return Clock(**self._tables().get("clock", {}))
        except TypeError as error:
            raise RunError(f"{self.path / 'config.toml'}: [clock] is not of this form ({error}).") from None

    @property
    def name(self) -> str:
        """The name of its data."""
        return str(self._tables().get("data", {}).get("name", "events"))

    def dataset(self) -> Dataset:
        """The facts that the run knows, in the parts they had at training."""
        clock, vocab, data = self.clock, Vocabulary.load(self.path / "vocab"), self._tables().get("data", {})
        facts = read_facts(self.path / "history.parquet", vocab, clock, self.name)
        lines = data.get("files", [])
        if not (isinstance(lines, list) and all(isinstance(line, str) for line in lines)):
            raise RunError(f"{self.path / 'config.toml'}: [data] files is {lines!r:.60}, expected sums with names.")
        sums = (line.partition(" ") for line in lines)
        return replace(facts, files={name: sum_ for sum_, _, name in sums}, own=self._counts(data.get("own"), vocab))

    def _counts(self, counts: Any, vocab: Vocabulary) -> tuple[int, int, int] | None:
        """The numbers of names and later facts that the run was made with, if recorded."""
        if counts is None:
            return None
        limits = vocab.num_entities, vocab.num_relations, math.inf
        valid = isinstance(counts, list) and len(counts) == 3 and all(type(x) is int for x in counts)
        if not valid or not all(0 <= x <= size for x, size in zip(counts, limits, strict=True)):
            raise RunError(f"{self.path / 'config.toml'}: [data] own is {counts!r:.60}, expected counts of its names.")
        return counts[0], counts[1], counts[2]

    def load(self, facts: Dataset | None = None) -> tuple[Model, Dataset, RunConfig]:
        """The trained model with its data (or those ``facts``) and config; damaged files are errors that name them."""
        config, dataset = self.config(), self.dataset() if facts is None else facts
        if not self.usable:
            raise RunError(
                f"{self.path}: the run is not finished (no weights.safetensors). "
                f"Go on with `tango train --out {self.path} --resume`."
            )
        weights, _ = load_tensors(self.weights)
        refit = self.exposure(dataset).refit
        model = _rebuild(config, (everything(dataset) if refit else dataset).train, weights)
        try:
            load_weights(model, weights)
        except ValueError as error:
            raise RunError(f"{self.path}: weights and config do not fit together ({error}). {OLDER}") from None
        return model, dataset, config

    def claim(self, overwrite: bool = False) -> RunFolder:
        """Make sure that a new run may be written here."""
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            if not overwrite:
                raise RunError(
                    f"{self.path} exists; resume it (--resume), replace it (--overwrite, overwrite=True), "
                    f"or choose another."
                )
            self.remove()
        return self

    def remove(self) -> None:
        """Delete the folder, but only if it is a run."""
        if not (self.path / "config.toml").exists():
            raise RunError(f"{self.path}: not a run folder, so --overwrite does not delete it. Choose another --out.")
        shutil.rmtree(self.path)

    def keep_facts(self, dataset: Dataset, note: dict[bytes, bytes] | None = None) -> None:
        """Write facts observed since training, with their names and a note; a kill leaves unused names at worst."""
        new, tables = self.path / f".vocab.new-{os.getpid()}", self._tables()
        tables["data"] = tables.get("data", {}) | {"own": dataset.own}
        try:
            write_atomically(self.path / "config.toml", to_toml(tables).encode())
            dataset.vocab.save(new)
            for file in sorted(new.iterdir()):
                os.replace(file, self.path / "vocab" / file.name)
            write_atomically(self.path / "history.parquet", facts_file(dataset, note))
        except OSError as error:
            raise RunError(f"{self.path}: cannot be written: {error.strerror or error}.") from None
        finally:
            shutil.rmtree(new, ignore_errors=True)

    def _tables(self) -> dict[str, Any]:
        tables = read_toml(self.path / "config.toml")
        if tables.get("schema") != SCHEMA:
            raise RunError(
                f"{self.path}: run of schema {tables.get('schema')!r}; this version reads schema {SCHEMA}. "
                f"Use the version that wrote it, or train again."
            )
        return tables


def _rebuild(config: RunConfig, past: Quadruples, weights: dict[str, Tensor]) -> Model:
    """Build the model with the size of its weights: facts observed since training may have added names."""
    model = build_model(config, build_timeline(past))
    rows = {kind: len(weights[name]) for name, kind in model.rows.items() if name in weights and weights[name].dim()}
    sizes = rows.get("entity", past.vocab.num_entities), rows.get("relation", 2 * past.vocab.num_relations) // 2
    full = past.vocab.num_entities, past.vocab.num_relations
    used = max(past.s.max(initial=-1), past.o.max(initial=-1)), past.r.max(initial=-1)
    if sizes == full or not all(u < size <= most for u, size, most in zip(used, sizes, full, strict=True)):
        return model
    return build_model(config, build_timeline(past, *sizes))

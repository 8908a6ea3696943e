"""Several models on the same data, from Python: what ``tango compare`` does, without folders."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from tangokg.config import unknown_setting
from tangokg.errors import ConfigError, DataError, RunError, checked, nearest, offer
from tangokg.forecast.forecaster import Forecaster
from tangokg.forecast.training import fit, read_with
from tangokg.models import MODELS
from tangokg.quads.values import Dataset
from tangokg.report.compare import Comparison, Measured
from tangokg.report.compare import compare as compare_measured
from tangokg.train import TrainSettings, make_config
from tangokg.train.exposure import MARK

USUAL = ("frequency", "recurrency", "tango")  # quick and telling


@checked
def compare(
    data: Any,
    models: Sequence[str | Forecaster] | Mapping[str, Forecaster] = USUAL,
    *,
    seed: int = 0,
    verbose: bool = True,
    out: str | Path | None = None,
    allow_seen: bool = False,
    **settings: Any,
) -> Comparison:
    """Train each model, unless it is a forecaster already, and rank the test part of ``data`` with all of them.

    ``settings`` go to every model that has them; those of :func:`tangokg.read_events` (``unit``, ``columns``, ...) say
    how a table or folder is read. With ``out`` each run is kept there, under the name of its model. The
    rows of the result have the best first, with a 95 % interval; ``test`` compares the first two on the same queries.
    A forecaster that saw what it is judged by is refused, or with ``allow_seen`` marked "not comparable".
    """
    dataset, settings = read_with(data, settings)
    if not len(dataset.test):
        raise DataError(f"{dataset.name}: models are compared on the test part, and there is none.")
    chosen = _named(models)
    if settings.get("refit"):
        raise ConfigError("compare(): a model that is trained on all parts (refit) cannot be compared on one of them.")
    own = _own_settings([name for name, model in chosen.items() if isinstance(model, str)], settings)
    measured = []
    for name, model in chosen.items():
        if isinstance(model, str):
            place = None if out is None else Path(out) / name
            forecaster = fit(dataset, model, seed=seed, verbose=verbose, out=place, **own[name])
        else:
            forecaster = _fair(name, _same_data(name, model, dataset), allow_seen)
        began = time.perf_counter()
        metrics = forecaster.evaluate(dataset.test)
        label = f"{name} ({MARK})" if metrics.not_comparable else name
        measured.append(Measured(label, metrics, forecaster.progress.seconds, time.perf_counter() - began))
    return compare_measured(measured, seed)


def _named(models: Any) -> dict[str, str | Forecaster]:
    """Name -> model; a wrong kind of thing, an unknown name or two of one name is an error."""
    if isinstance(models, str | Forecaster):
        models = [models]
    pairs: list[tuple[Any, Any]] = []
    if isinstance(models, Mapping):
        pairs = list(models.items())
    elif isinstance(models, Sequence):
        pairs = [(m, m) if isinstance(m, str) else (m.config.model, m) for m in models if _is_model(m)]
    if not pairs:
        raise ConfigError(f"compare(): models is {models!r:.60}, expected names of models or forecasters.")
    for name, model in pairs:
        _is_model(model)
        if isinstance(model, str) and model not in MODELS:
            raise ConfigError(f"unknown model {model!r}.{offer(nearest(model, MODELS))} Known: {', '.join(MODELS)}.")
        if sum(name == other for other, _ in pairs) > 1:
            raise ConfigError(f"compare(): two models are called {name!r}; give a dictionary, name by name.")
    return dict(pairs)


def _is_model(model: Any) -> bool:
    if not isinstance(model, str | Forecaster):
        raise ConfigError(f"compare(): {model!r:.60} is no model: expected a name such as 'tango', or a forecaster.")
    return True


def _own_settings(names: Sequence[str], settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Model -> those of the settings that it has; one that no model has is an error."""
    known = {n: {f.name for s in (MODELS[n].settings, TrainSettings()) for f in fields(s)} for n in names}
    for key in settings:
        if not any(key in own for own in known.values()):
            raise unknown_setting("compare()", key, sorted(set().union(*known.values())) if known else [])
    for name in names:
        make_config(name)
    return {name: {key: value for key, value in settings.items() if key in own} for name, own in known.items()}


def _same_data(name: str, forecaster: Forecaster, dataset: Dataset) -> Forecaster:
    """The forecaster as it was made, where that was with these data; facts that it observed later do not count."""
    from tangokg.quads.differing import what_differs

    forecaster = forecaster.as_made
    if not dataset.same_facts(forecaster.dataset):
        other = what_differs(forecaster.dataset, dataset)
        raise DataError(f"compare(): {name} was made with other data ({other}); compare on the same.")
    return forecaster


def _fair(name: str, forecaster: Forecaster, allow_seen: bool) -> Forecaster:
    if forecaster.exposure.seen and not allow_seen:
        raise RunError(
            f"compare(): {name} is {MARK}: {forecaster.exposure.seen}. Leave it out, or mark it with allow_seen=True."
        )
    return forecaster

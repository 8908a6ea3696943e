"""Small random data for all tests: irregular times, repeated facts, self loops, entities that training never saw."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator, Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from clean_environments import core as core  # fixtures of the whole session
from clean_environments import wheel as wheel
from tangokg.forecast import Forecaster, chances
from tangokg.history.hazard import Hazard, fit_hazard
from tangokg.models import MODELS
from tangokg.models.tango import Tango
from tangokg.quads.clock import Clock
from tangokg.quads.values import Dataset, Quadruples
from tangokg.quads.vocabulary import Vocabulary
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import Queries
from tangokg.train import RunConfig, TrainSettings

os.environ.pop("COLUMNS", None)  # which several processes of pytest set: tables are as wide as they need
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or every process that a test starts compiles the same files again
sys.dont_write_bytecode = False
os.environ["OMP_NUM_THREADS"] = "1"  # of the processes that tests start
torch.set_num_threads(1)  # of this one: the tensors are small, and a second thread waits in a loop on a busy machine

# Of ConvE: the next normalisation takes off whatever they add, so that their gradients are nearly 0.
TAKEN_OFF = ("decoder.norm_image.weight", "decoder.norm_image.bias", "decoder.shift")
N, R = 12, 3
NEWCOMERS = 2  # the last ids: they appear in the last third alone


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """What is imported and collected stays to the end: the garbage collector need not look at it again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _hazards_are_fitted_once() -> Iterator[None]:
    """The hazard follows from the facts alone, and the tests ask every model about the same facts."""
    fitted: dict[Any, Hazard] = {}

    def fit_once(timeline: Timeline, train: int, valid: int) -> Hazard:
        columns = [getattr(timeline, field.name) for field in fields(timeline)]
        key = train, valid, *(x.cpu().numpy().tobytes() if isinstance(x, Tensor) else x for x in columns)
        if key not in fitted:
            fitted[key] = fit_hazard(timeline, train, valid)
        return fitted[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chances, "fit_hazard", fit_once)
        yield


def make_vocab(num_entities: int = N, num_relations: int = R) -> Vocabulary:
    return Vocabulary(tuple(f"e{i}" for i in range(num_entities)), tuple(f"r{i}" for i in range(num_relations)))


def make_shared_vocab(num_entities: int = N, num_relations: int = R) -> Vocabulary:
    """Names that share words: e0 of 0, e1 of 1, e2 of 2, e3 of 0 and so on."""
    vocab = make_vocab(num_entities, num_relations)
    return replace(vocab, entities=tuple(f"{name} of {i % 3}" for i, name in enumerate(vocab.entities)))


def make_facts(seed: int = 0, snapshots: int = 9, facts: int = 7) -> Quadruples:
    """Facts that last for some snapshots, in no order; gaps of 1 to 4; one self loop; a fifth of the rows twice."""
    rng = np.random.default_rng(seed)
    times = rng.integers(1, 5, size=snapshots).cumsum()
    rows = [(3, 1, 3, int(times[1]))]
    held: list[tuple[int, int, int]] = []
    for j, t in enumerate(times):
        most = N if j >= snapshots * 2 // 3 else N - NEWCOMERS
        held = [fact for fact in held if rng.random() < 0.5]
        held += [(int(rng.integers(most)), int(rng.integers(R)), int(rng.integers(most))) for _ in range(facts // 2)]
        if most == N:
            held.append((int(rng.integers(N - NEWCOMERS)), int(rng.integers(R)), N - 1))
        rows += [(*fact, int(t)) for fact in held]
    table = np.array(rows, dtype=np.int64)
    table = rng.permutation(np.concatenate([table, table[rng.random(len(table)) < 0.2]]))
    s, r, o, t = table.T
    return Quadruples(s.copy(), r.copy(), o.copy(), t.copy(), make_vocab(), Clock("step"))


def facts_like(facts: Quadruples, rows: list[tuple[int, int, int, int]]) -> Quadruples:
    """Other facts (s, r, o, t) with the same names and clock."""
    s, r, o, t = np.array(rows, dtype=np.int64).T.copy()
    return replace(facts, s=s, r=r, o=o, t=t)


def make_dataset(seed: int = 0, snapshots: int = 9) -> Dataset:
    """Two thirds of the snapshots for training, the rest halved; the last entities are unseen in training."""
    facts = make_facts(seed, snapshots)
    times = np.unique(facts.t)
    first, second = times[snapshots * 2 // 3], times[snapshots * 5 // 6]
    middle = (facts.t >= first) & (facts.t < second)
    return Dataset(facts.before(first), facts.select(middle), facts.select(facts.t >= second), "small")


def make_timeline(seed: int = 0, snapshots: int = 9) -> Timeline:
    return build_timeline(make_facts(seed, snapshots))


def all_queries(num_windows: int, num_entities: int = N, num_relations: int = R) -> Queries:
    """Every (s, r) of both directions at every window, answers spread over the entities."""
    sizes = (num_windows, num_entities, 2 * num_relations)
    w, s, r = torch.cartesian_prod(*map(torch.arange, sizes)).T.contiguous()
    return Queries(w, s, r, (s * 5 + r) % num_entities)


def equal(a: Tensor, b: Tensor, tolerance: float = 1e-10) -> bool:
    """Same shape, and the same numbers up to ``tolerance`` absolute."""
    return a.shape == b.shape and bool(torch.allclose(a, b, rtol=0, atol=tolerance))


def make_forecaster(name: str = "tango", dataset: Dataset | None = None, **more: Any) -> Forecaster:
    """A small model of this name with its first weights, settled, in float64."""
    dataset = make_dataset(1) if dataset is None else dataset
    settings, train = MODELS[name].settings, build_timeline(dataset.train)
    small = {"dim": 5, "history": 3, "step_time": 0.4, "dropout": 0.2}
    settings = replace(settings, **{key: value for key, value in small.items() if hasattr(settings, key)}, **more)
    model = MODELS[name].build(settings, train, torch.Generator().manual_seed(2)).double()
    model.settle(train)
    return Forecaster(model, dataset, RunConfig(name, settings, TrainSettings(device="cpu", precision="64-true")))


def dated(dataset: Dataset, unit: str = "day", origin: str = "2024-01-01") -> Dataset:
    """The same facts with dates: step 0 is ``origin``."""
    parts: dict[str, Any] = {name: replace(part, clock=Clock(unit, origin)) for name, part in dataset.parts.items()}
    return replace(dataset, **parts)


def first_state(model: Tango, timeline: Timeline, known: int, entity: int) -> Tensor:
    """A newcomer's first state by the formula, one edge after the other."""
    total, size = model.prior.clone(), 1
    for j in range(known):
        g = timeline[j]
        for r in g.r[g.o == entity].tolist():
            total, size = total + model.prototype[r], size + 1
    return total / size

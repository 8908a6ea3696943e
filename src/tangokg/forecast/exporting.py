"""The states of all entities as files for the embedding projector: one line of numbers and one of metadata each."""

from __future__ import annotations

from math import floor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from tangokg.errors import RunError, harmless_line
from tangokg.forecast.questions import When, place
from tangokg.rank.evaluate import answering
from tangokg.train.checkpoint import write_atomically

if TYPE_CHECKING:
    from tangokg.forecast.forecaster import Forecaster

VECTORS, METADATA = "vectors.tsv", "metadata.tsv"


def export_states(self: Any, folder: str | Path, *, at: When = None, overwrite: bool = False) -> None:
    """Write the vector of each entity, as it is ``at`` a time, for the embedding projector.

    ``vectors.tsv`` has a line of numbers for each entity, ``metadata.tsv`` its name, the number of its facts so far and
    the time of the last one. By default the time is one usual gap after the last fact. Those of TANGO move with time.
    """
    folder = Path(folder)
    for name in (VECTORS, METADATA):
        if (folder / name).exists() and not overwrite:
            raise RunError(f"{folder / name} exists; replace it (overwrite=True), or choose another folder.")
    step = float(floor(place(self.facts, at)))
    states = _states_at(self, step)
    folder.mkdir(parents=True, exist_ok=True)
    lines = ("\t".join(f"{x:.7g}" for x in row) for row in states.double().tolist())
    write_atomically(folder / VECTORS, ("\n".join(lines) + "\n").encode())
    write_atomically(folder / METADATA, _about_entities(self, step).encode())


def _states_at(forecaster: Forecaster, step: float) -> Tensor:
    known = forecaster._known
    with answering(forecaster.model):
        encoded = forecaster.model.encode(known.whole(), known.windows(torch.tensor([step], dtype=torch.float64)))
        states = forecaster.model.states(encoded)
    if states is None:
        raise RunError(f"the model {forecaster.config.model!r} has no vectors of entities: there is nothing to export.")
    return states


def _about_entities(forecaster: Forecaster, step: float) -> str:
    facts = forecaster.facts.before(step)
    ends = np.concatenate([facts.s, facts.o])
    count = np.bincount(ends, minlength=facts.vocab.num_entities)
    last = np.full(facts.vocab.num_entities, -np.inf)
    np.maximum.at(last, ends, np.concatenate([facts.moments, facts.moments]))
    rows = zip(facts.vocab.entities, count.tolist(), last.tolist(), strict=True)
    lines = (f"{harmless_line(name)}\t{n}\t{facts.clock.format(t) if n else ''}" for name, n, t in rows)
    return "\n".join(["name\tfacts\tlast", *lines]) + "\n"

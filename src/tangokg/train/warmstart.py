"""Starting from a trained run: its state of entities and relations is copied by name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from tangokg.errors import RunError
from tangokg.models import Model
from tangokg.quads.adapt import adapt
from tangokg.quads.splits import split_at
from tangokg.quads.values import Dataset, concatenate
from tangokg.quads.vocabulary import Vocabulary


def continue_dataset(old: Dataset, new: Dataset) -> Dataset:
    """``new`` with the names and the clock of ``old``, whose facts before the new training part stay known.

    Facts of ``new`` that belong to no part (those that stand alone) stay known as well.
    """
    known, facts = old.facts, adapt(new.facts, old.vocab, old.clock)
    part = np.repeat(list(new.parts), [len(part) for part in new.parts.values()])
    inner = np.isin(part, ("train", "valid", "test"))
    test_from = facts.t[part == "test"].min(initial=facts.t[inner].max() + 1)
    valid_from = facts.t[part == "valid"].min(initial=test_from)
    joined = split_at(facts.select(inner), valid_from, test_from, name=new.name)  # a coarser clock may join times
    outside = concatenate([facts.select(~inner), *(p for p in (joined.before, joined.after) if p is not None)])
    last = max(p.t.max() for p in (joined.train, joined.valid, joined.test) if len(p))
    sides = concatenate([known, outside]).before(float(joined.train.t.min())), outside.select(outside.t > last)
    before, after = (side if len(side) else None for side in sides)
    return replace(joined, notes=new.notes, files=new.files, before=before, after=after).with_vocab(facts.vocab)


def adopt(model: Model, old: Model, vocab: Vocabulary, old_vocab: Vocabulary) -> None:
    """Copy the state of ``old`` into ``model``; a row belongs to the same name in both."""
    state, stored = model.state_dict(), old.state_dict()
    for name, tensor in state.items():
        kind = model.rows.get(name)
        if kind == "fresh":
            continue
        if name not in stored or stored[name].shape[1:] != tensor.shape[1:]:
            raise RunError(f"the run to start from has no {name!r} of this form: model and settings must be the same.")
        places = _places(kind, len(stored[name]), old_vocab, vocab) if kind else None
        state[name] = stored[name] if places is None else _merged(tensor, stored[name], places)
    model.load_state_dict(state)


def _places(kind: str, rows: int, old: Vocabulary, new: Vocabulary) -> Tensor:
    """(n, 2) rows in the old and the new table, of ``rows`` old rows; names observed after training have no old row."""
    if kind == "entity":
        return _shared(old.entities[:rows], new.entities)
    stated = _shared(old.relations[: rows // 2], new.relations)
    return torch.cat([stated, stated + torch.tensor([rows // 2, new.num_relations])])


def _shared(old: tuple[str, ...], new: tuple[str, ...]) -> Tensor:
    """(n, 2) ids, old and new, of the names that both have."""
    ids = {name: i for i, name in enumerate(new)}
    return torch.tensor([(i, ids[name]) for i, name in enumerate(old) if name in ids]).view(-1, 2)


def _merged(new: Tensor, old: Tensor, places: Tensor) -> Tensor:
    old_rows, new_rows = places.unbind(1)
    values = old.index_select(0, old_rows).to(new.dtype)
    if new.dtype == torch.bool:  # known to either
        values = values | new.index_select(0, new_rows)
    return new.index_copy(0, new_rows, values)

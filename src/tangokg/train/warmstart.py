"""Going on from a trained run: what it knows of entities and relations is taken over by name."""

from __future__ import annotations

import torch
from torch import Tensor

from tangokg.errors import RunError
from tangokg.models import Model
from tangokg.quads.adapt import adapt
from tangokg.quads.values import Dataset
from tangokg.quads.vocabulary import Vocabulary


def continue_dataset(old: Dataset, new: Dataset) -> Dataset:
    """``new`` in the names and the clock of ``old``, whose facts before the new training part stay known."""
    known = old.facts
    parts = [known.select(slice(0))]
    for part in (new.train, new.valid, new.test):
        parts.append(adapt(part, parts[-1].vocab, known.clock))
    _, train, valid, test = parts
    before = known.before(float(train.t.min()))
    joined = Dataset(train, valid, test, new.name, new.notes, before if len(before) else None)
    return joined.with_vocab(test.vocab)


def adopt(model: Model, old: Model, vocab: Vocabulary, old_vocab: Vocabulary) -> None:
    """Copy the state of ``old`` into ``model``; a row belongs to the same name in both."""
    state, given = model.state_dict(), old.state_dict()
    entities = _places(old_vocab.entities, vocab.entities)
    relations = _places(old_vocab.relations, vocab.relations)
    shift = torch.tensor([len(old_vocab.relations), len(vocab.relations)])
    places = {"entity": entities, "relation": torch.cat([relations, relations + shift])}
    for name, tensor in state.items():
        kind = model.rows.get(name)
        if kind == "fresh":
            continue
        if name not in given or given[name].shape[1:] != tensor.shape[1:]:
            raise RunError(f"the run to go on from has no {name!r} of this form: model and settings must be the same.")
        state[name] = _merged(tensor, given[name], places[kind]) if kind else given[name]
    model.load_state_dict(state)


def _places(old: tuple[str, ...], new: tuple[str, ...]) -> Tensor:
    """(n, 2) ids of the names that stand in both: there, here."""
    here = {name: i for i, name in enumerate(new)}
    return torch.tensor([(i, here[name]) for i, name in enumerate(old) if name in here]).view(-1, 2)


def _merged(new: Tensor, old: Tensor, places: Tensor) -> Tensor:
    there, here = places.unbind(1)
    values = old.index_select(0, there)
    if new.dtype == torch.bool:  # known to either
        values = values | new.index_select(0, here)
    return new.index_copy(0, here, values)

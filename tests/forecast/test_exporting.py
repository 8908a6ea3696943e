"""States come out as the numbers that the model computes with, a line for each name."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch

from conftest import dated, make_dataset, make_forecaster
from tangokg.errors import RunError
from tangokg.models import MODELS
from tangokg.rank.evaluate import answering
from tangokg.snapshots.windows import Queries, Windows

COUNTING = ("recurrency", "copy-last", "frequency", "recurrence")


def rows_of(path: Path) -> list[list[str]]:
    return list(csv.reader(path.read_text(encoding="utf-8").splitlines(), delimiter="\t"))


@pytest.mark.parametrize("name", MODELS)
def test_every_model_with_entities_has_a_vector_of_each(name: str) -> None:
    """As many as names, finite, those of the first window whatever else is encoded; counters have none."""
    forecaster = make_forecaster(name)
    timeline, model = forecaster._timeline, forecaster.model
    with answering(model):
        windows = [Windows(torch.tensor(known), timeline.t[known].clone()) for known in ([6], [6, 3])]
        one, both = (model.states(model.encode(timeline, w)) for w in windows)
    if name in COUNTING or (name == "history" and one is None):
        assert one is None
        assert both is None
        return
    assert one is not None
    assert both is not None
    assert one.shape[0] == timeline.num_entities
    assert one.isfinite().all()
    assert one.abs().max() > 0
    assert torch.allclose(one, both)


def test_the_states_of_tango_give_its_scores_and_move_with_time(tmp_path: Path) -> None:
    """DistMult by hand from the files: the sum of s * w_r * o."""
    forecaster = make_forecaster("tango-distmult", static=False)
    times = forecaster.dataset.test.t
    for place, at in (("early", int(times.min())), ("late", int(times.max()) + 1)):
        forecaster.export_states(tmp_path / place, at=at)
    early, late = (
        torch.tensor([[float(x) for x in row] for row in rows_of(tmp_path / place / "vectors.tsv")]).double()
        for place in ("early", "late")
    )
    assert not torch.allclose(early, late)
    timeline, model = forecaster._timeline, forecaster.model
    known = timeline.before(float(times.min()))
    window = Windows(torch.tensor([known]), torch.tensor([float(times.min())]).double())
    with answering(model):
        encoded = model.encode(timeline, window)
        queries = Queries(*(torch.tensor([x]) for x in (0, 2, 1, 0)))
        wanted = model.score(encoded, queries)[0]
    by_hand = (early[2] * encoded.relations[1]) @ early.T
    assert torch.allclose(by_hand, wanted, atol=1e-5)


def test_metadata_say_how_often_and_when_a_name_was_seen(tmp_path: Path) -> None:
    dataset = dated(make_dataset(1))
    forecaster = make_forecaster("distmult", dataset)
    forecaster.export_states(tmp_path, at="2024-01-12")
    heading, *rows = rows_of(tmp_path / "metadata.tsv")
    assert heading == ["name", "facts", "last"]
    assert [row[0] for row in rows] == list(dataset.vocab.entities)
    facts = dataset.facts.before(11)
    for i, (_, count, last) in enumerate(rows):
        mine = facts.select((facts.s == i) | (facts.o == i))
        assert int(count) == (facts.s == i).sum() + (facts.o == i).sum()
        assert last == (facts.clock.format(float(mine.t.max())) if len(mine) else "")
    assert len(rows_of(tmp_path / "vectors.tsv")) == len(rows)


def test_files_that_exist_are_kept_and_counters_have_nothing_to_export(tmp_path: Path) -> None:
    forecaster = make_forecaster("distmult")
    forecaster.export_states(tmp_path)
    with pytest.raises(RunError, match=r"vectors.tsv exists; replace it \(overwrite=True\)"):
        forecaster.export_states(tmp_path)
    forecaster.export_states(tmp_path, overwrite=True)
    with pytest.raises(RunError, match="the model 'frequency' has no vectors of entities"):
        make_forecaster("frequency").export_states(tmp_path / "other")
    assert not (tmp_path / "other").exists()

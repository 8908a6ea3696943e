"""TTransE against its formula, one question and one entity after the other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from conftest import N, R, all_queries, equal, make_timeline, make_vocab
from tangokg.errors import ConfigError
from tangokg.models import ttranse
from tangokg.models.ttranse import TTransE, TTransESettings, cdist, in_pieces, nearest_rows
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows, queries_at, windows_at
from tangokg.train.warmstart import adopt

ALL = pytest.mark.parametrize("more", [{}, {"norm": 2}, {"unseen": "zero"}], ids=str)


def build(timeline: Timeline, **more: Any) -> TTransE:
    """In float64; some entities are longer than 1, others shorter."""
    model = TTransE(TTransESettings(dim=4, **more), timeline, torch.Generator().manual_seed(0)).double()
    with torch.no_grad():
        model.entities.mul_(torch.linspace(0.2, 3.0, len(model.entities), dtype=torch.float64)[:, None])
    return model


def some_windows(timeline: Timeline) -> Windows:
    """Before all training times, at one, twice between two, and long after the last."""
    a, b = timeline.t[1:3].tolist()
    t = [timeline.t[0].item() - 1, a, a + 0.3 * (b - a), a + 0.6 * (b - a), timeline.t[-1].item() + 90]
    return Windows(torch.tensor([0, 1, 2, 2, len(timeline)]), torch.tensor(t, dtype=torch.float64))


def distance(model: TTransE, s: int, r: int, o: int, t: float) -> Tensor:
    """The formula."""
    known = model.t.tolist()
    row = min(range(len(known)), key=lambda j: abs(known[j] - t))
    tau = model.moments[row] * (known[row] == t or model.settings.unseen == "nearest")
    start, end = (model.entities[i] / max(1.0, model.entities[i].norm().item()) for i in (s, o))
    way: Tensor = (start + model.relations[r] + tau - end).norm(model.settings.norm)
    return way


def questions(queries: Queries, windows: Windows) -> list[tuple[int, int, int, float]]:
    """(s, r, answer, t) of each."""
    t = windows.t[queries.window]
    return [tuple(row) for row in zip(*(c.tolist() for c in (queries.s, queries.r, queries.answer, t)), strict=True)]


@ALL
def test_scores_equal_the_formula_at_known_and_unknown_times(more: dict[str, Any]) -> None:
    timeline = make_timeline(1)
    model, windows = build(timeline, **more), some_windows(timeline)
    queries = all_queries(5).select(slice(0, None, 7))
    scores = model.score(model.encode(timeline, windows), queries)
    slow = [[-distance(model, s, r, o, t).item() for o in range(N)] for s, r, _, t in questions(queries, windows)]
    assert equal(scores, torch.tensor(slow, dtype=torch.float64))


@pytest.mark.parametrize("norm", [1, 2])
def test_distances_in_pieces_are_the_same(norm: int, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = (
        torch.randn(size, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(size)) for size in (7, 30)
    )
    for cells in (1, 250, 10_000):
        monkeypatch.setattr(ttranse, "CELLS", cells)
        assert equal(in_pieces(a, b, norm), cdist(a, b, norm))
    assert cdist(a.float(), a.float(), norm).diagonal().eq(0).all()


@ALL
def test_the_loss_equals_the_formula(more: dict[str, Any]) -> None:
    timeline, target = make_timeline(1), torch.tensor([2, 5])
    windows, queries = windows_at(timeline, target), queries_at(timeline, target)
    model = build(timeline, negatives=3, **more)
    loss = model(timeline, windows, queries, torch.Generator().manual_seed(4))
    drawn = torch.randint(N, (len(queries), 3), generator=torch.Generator().manual_seed(4)).tolist()
    total = torch.zeros((), dtype=torch.float64)
    for (s, r, answer, t), wrong in zip(questions(queries, windows), drawn, strict=True):
        true = distance(model, s, r, answer, t)
        total += sum(torch.relu(1 + true - distance(model, s, r, o, t)) for o in wrong)
    assert equal(loss, total / (3 * len(queries)))


def test_first_vectors_have_length_one_and_all_get_a_gradient() -> None:
    timeline, target = make_timeline(1), torch.arange(1, 9)
    model = TTransE(TTransESettings(dim=4), timeline, torch.Generator().manual_seed(0)).double()
    for table in model.parameters():
        assert equal(table.norm(dim=1), torch.ones(len(table), dtype=torch.float64), 1e-6)
    model(timeline, windows_at(timeline, target), queries_at(timeline, target), torch.Generator()).backward()
    assert all(table.grad is not None and table.grad.abs().sum() > 0 for table in model.parameters())


def test_the_nearest_row_is_that_of_a_search_through_all() -> None:
    generator = torch.Generator().manual_seed(0)
    known = torch.randint(1, 5, (9,), generator=generator).cumsum(0).double()
    t = torch.cat([torch.rand(50, generator=generator, dtype=torch.float64) * 40 - 5, known, known + 0.5])
    slow = [min(range(9), key=lambda j: abs(known[j].item() - x)) for x in t.tolist()]
    assert nearest_rows(known, t).tolist() == slow


def test_a_run_that_goes_on_takes_names_over_and_draws_its_times_anew() -> None:
    old, new = build(make_timeline(1, 9)), build(make_timeline(2, 6))
    drawn, times = new.moments.clone(), new.t.clone()
    adopt(new, old, make_vocab(N, R), make_vocab(N, R))
    assert torch.equal(new.entities, old.entities)
    assert torch.equal(new.relations, old.relations)
    assert torch.equal(new.moments, drawn)
    assert torch.equal(new.t, times)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"dim": 0}, "dim must be at least 1, found 0"),
        ({"negatives": 0}, "negatives must be at least 1, found 0"),
        ({"norm": 3}, "norm must be 1 or 2, found 3"),
        ({"margin": 0.0}, "margin must be positive, found 0.0"),
        ({"unseen": "last"}, "unseen 'last' is unknown; choose one of nearest, zero"),
    ],
)
def test_impossible_settings_are_errors(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TTransESettings(**more)

"""The filtered loss against its formula, one query at a time."""

from __future__ import annotations

import pytest
import torch

from conftest import N, equal, make_timeline
from tangokg.decode.losses import filtered_cross_entropy, true_answers
from tangokg.snapshots.windows import queries_at, windows_at


def test_true_answers_are_the_objects_of_the_same_question() -> None:
    timeline, target = make_timeline(2), torch.tensor([2, 5, 8])
    windows, queries = windows_at(timeline, target), queries_at(timeline, target)
    distinct, row = queries.distinct()
    of, o = true_answers(timeline, windows, distinct)
    found = {(i, int(x)) for i, x in zip(of.tolist(), o.tolist(), strict=True)}
    assert found == {(int(i), int(x)) for i, x in zip(row, queries.answer, strict=True)}
    assert len(distinct) < len(queries), "the data must hold a question with two answers"
    for name in ("window", "s", "r"):
        assert torch.equal(getattr(distinct, name)[row], getattr(queries, name))
    assert (distinct.window.diff() >= 0).all()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_filtered_loss_equals_its_formula_and_has_no_gradient_where_it_is_filtered(smoothing: float) -> None:
    scores = torch.randn(3, N, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    row, answer = torch.tensor([0, 1, 2, 0, 2]), torch.tensor([0, 4, 7, 3, 1])
    true = torch.tensor([0, 0, 0, 1, 2, 2]), torch.tensor([0, 3, 5, 4, 1, 7])
    loss = filtered_cross_entropy(scores, row, answer, true, smoothing)
    expected = []
    for u, a in zip(row.tolist(), answer.tolist(), strict=True):
        gone = {int(o) for i, o in zip(*true, strict=True) if i == u and o != a}
        kept = scores[u, [o for o in range(N) if o not in gone]]
        expected.append(kept.logsumexp(0) - (1 - smoothing) * scores[u, a] - smoothing * kept.mean())
    assert equal(loss, torch.stack(expected).mean())
    (grad,) = torch.autograd.grad(loss, scores)
    assert grad[0, 5] == 0, "a true answer that nobody asks for"
    assert grad.isfinite().all()

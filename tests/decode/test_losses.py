"""The filtered loss against its formula, one query at a time."""

from __future__ import annotations

import pytest
import torch

from conftest import N, equal, make_timeline
from tangokg.decode.losses import filtered_cross_entropy, other_answers
from tangokg.snapshots.windows import queries_at, windows_at


def test_other_answers_are_the_further_objects_of_the_same_question() -> None:
    timeline, target = make_timeline(2), torch.tensor([2, 5, 8])
    windows, queries = windows_at(timeline, target), queries_at(timeline, target)
    row, o = other_answers(timeline, windows, queries)
    found = {(i, int(x)) for i, x in zip(row.tolist(), o.tolist(), strict=True)}
    asked = list(
        zip(queries.window.tolist(), queries.s.tolist(), queries.r.tolist(), queries.answer.tolist(), strict=True)
    )
    expected = {(i, b[3]) for i, a in enumerate(asked) for b in asked if a[:3] == b[:3] and a[3] != b[3]}
    assert found == expected
    assert expected, "the data must hold a question with two answers"


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_filtered_loss_equals_its_formula_and_has_no_gradient_where_it_is_filtered(smoothing: float) -> None:
    scores = torch.randn(3, N, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    answer, left_out = torch.tensor([0, 4, 7]), (torch.tensor([0, 0, 2]), torch.tensor([3, 5, 1]))
    loss = filtered_cross_entropy(scores, answer, left_out, smoothing)
    expected = []
    for b in range(3):
        gone = {int(o) for row, o in zip(*left_out, strict=True) if row == b}
        kept = scores[b, [o for o in range(N) if o not in gone]]
        expected.append(kept.logsumexp(0) - (1 - smoothing) * scores[b, answer[b]] - smoothing * kept.mean())
    assert equal(loss, torch.stack(expected).mean())
    (grad,) = torch.autograd.grad(loss, scores)
    assert not grad[left_out].any()
    assert grad.isfinite().all()

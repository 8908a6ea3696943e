"""Figures of calibration by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tangokg.rank.calibration import Bin, Calibration

ONE = Calibration(np.array([0.0, 0.2, 0.8, 1.0]), np.array([0.0, 1.0, 1.0, 1.0]), np.full(4, 0.5))


def test_brier_score_and_skill() -> None:
    assert ONE.brier == pytest.approx((0.64 + 0.04) / 4)
    assert ONE.base_brier == pytest.approx(0.25)
    assert ONE.skill == pytest.approx(1 - 0.17 / 0.25)


def test_bins_hold_equally_many_answers_that_are_not_too_small() -> None:
    assert ONE.bins(3) == [Bin(1, 0.2, 1.0), Bin(1, 0.8, 1.0), Bin(1, 1.0, 1.0)]
    assert ONE.bins(2, least=0.0) == [Bin(2, pytest.approx(0.1), 0.5), Bin(2, 0.9, 1.0)]  # type: ignore[arg-type]
    assert ONE.error(2, least=0.0) == pytest.approx((2 * 0.4 + 2 * 0.1) / 4)


def test_nothing_asked_is_no_error() -> None:
    none = Calibration(*(np.zeros(0) for _ in range(3)))
    assert (none.brier, none.error(), none.bins(), none.skill) == (0.0, 0.0, [], 0.0)


def test_a_calibration_is_a_data_frame_and_a_table_of_its_bins() -> None:
    frame = ONE.to_pandas()
    assert list(frame) == ["said", "happened", "answers"]
    assert frame["said"].tolist() == [one.said for one in ONE.bins()]
    assert frame.attrs["brier"] == ONE.brier
    html = ONE._repr_html_()
    assert html.count("<tr>") == 1 + len(ONE.bins())
    assert f"{ONE.brier:.4f}" in html
    none = Calibration(*(np.zeros(0) for _ in range(3)))
    assert len(none.to_pandas()) == 0
    assert "<table>" in none._repr_html_()

"""The estimator of scikit-learn's manner says what the forecaster inside says, and works with scikit-learn's tools."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import tangokg as tk
from tangokg.errors import ConfigError, DataError, RunError, TangoError
from tangokg.exchange import NOT_APPLICABLE, TangoForecaster

NAMES = ["Ann", "Bob", "Cid", "Dee", "Eve"]
ROWS = pd.DataFrame(
    [
        (NAMES[i % 5], ("calls", "visits")[i % 2], NAMES[(i * 3 + day // 9 + 1) % 5], f"2024-03-{day + 1:02}")
        for day in range(30)
        for i in range(6)
    ],
    columns=["subject", "relation", "object", "time"],
)
X, Y = ROWS[["subject", "relation", "time"]], ROWS["object"]
EARLY, LATE = slice(0, 150), slice(150, 180)


@pytest.fixture(scope="module")
def fitted() -> TangoForecaster:
    return TangoForecaster("recurrence").fit(X[EARLY], Y[EARLY])


def test_shares_are_those_of_the_model_in_the_order_of_the_classes(fitted: TangoForecaster) -> None:
    shares = fitted.predict_proba(X[LATE])
    assert shares.shape == (30, 5)
    assert shares.sum(1) == pytest.approx(np.ones(30))
    assert fitted.classes_.tolist() == sorted(NAMES)
    for row in (0, 7, 29):
        subject, relation, time = X.iloc[150 + row]
        answers = fitted.forecaster_.forecast(subject, relation, at=time, top=5).answers
        order = fitted.classes_[np.argsort(-shares[row], kind="stable")]
        best = {one.name for one in answers[:1]}
        assert best == {order[0]} or shares[row].max() == pytest.approx(np.sort(shares[row])[-2])
    assert fitted.predict(X[LATE]).tolist() == fitted.classes_[shares.argmax(1)].tolist()


def test_the_score_is_that_of_our_evaluator(fitted: TangoForecaster) -> None:
    data = tk.read_events(ROWS[LATE], unit="day")
    assert fitted.score(X[LATE], Y[LATE]) == fitted.forecaster_.evaluate(data)["time-aware"].mrr / 100
    assert 0 < fitted.score(X[LATE], Y[LATE]) <= 1


@pytest.mark.parametrize(
    "form",
    [
        lambda x: x.to_numpy(),
        lambda x: x.to_numpy().tolist(),
        lambda x: pl.from_pandas(x),
        lambda x: x.assign(time=pd.to_datetime(x["time"]))[["time", "relation", "subject"]],
    ],
    ids=["array", "lists", "polars", "columns by name"],
)
def test_rows_come_in_any_form(form: Any, fitted: TangoForecaster) -> None:
    other = TangoForecaster("recurrence", unit="day").fit(form(X[EARLY]), Y[EARLY].tolist())
    assert np.array_equal(other.predict_proba(form(X[LATE])), fitted.predict_proba(X[LATE]))
    assert other.score(form(X[LATE]), Y[LATE].to_numpy()) == fitted.score(X[LATE], Y[LATE])


def test_parameters_are_read_and_set() -> None:
    estimator = TangoForecaster("frequency", valid=0.2)
    assert TangoForecaster(**estimator.get_params()).get_params() == estimator.get_params()
    assert estimator.set_params(seed=3, model="recurrence").get_params()["seed"] == 3
    assert repr(estimator) == "TangoForecaster(model='recurrence', valid=0.2, seed=3)"
    with pytest.raises(ConfigError, match=r"unknown parameter 'modl'. Did you mean model"):
        estimator.set_params(modl="tango")


def test_a_fitted_estimator_is_pickled(fitted: TangoForecaster) -> None:
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict_proba(X[LATE]), fitted.predict_proba(X[LATE]))


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda f: TangoForecaster().predict(X), RunError, r"not fitted yet: call fit\(X, y\) before"),
        (lambda f: TangoForecaster().score(X, Y), RunError, "not fitted yet"),
        (lambda f: f.predict(np.zeros((4, 2))), DataError, r"X has the shape \(4, 2\); expected \(rows, 3\)"),
        (lambda f: f.predict(["a"]), DataError, r"X has the shape \(1,\)"),
        (lambda f: TangoForecaster().fit(X, None), DataError, "y has no objects; expected one for each of 180 rows"),
        (lambda f: TangoForecaster().fit(X, Y[:3]), DataError, "y has 3 objects; expected one for each of 180 rows"),
        (lambda f: TangoForecaster(valid=1.5).fit(X, Y), ConfigError, r"valid must lie in \[0, 1\), found 1.5"),
        (lambda f: f.predict([["Zed", "calls", "2024-04-01"]]), DataError, "unknown entity 'Zed'"),
        (lambda f: f.predict([["Ann", None, "2024-04-01"]]), DataError, "the relation of a row is empty"),
    ],
)
def test_wrong_rows_are_an_error(use: Any, error: type[TangoError], message: str, fitted: TangoForecaster) -> None:
    with pytest.raises(error, match=message):
        use(fitted)


def test_clone_and_grid_search_over_time_take_it() -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    from sklearn.base import clone
    from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score

    estimator = TangoForecaster("recurrence", settings={"decay": 0.5})
    copy = clone(estimator)
    assert copy is not estimator
    assert copy.get_params() == estimator.get_params()
    folds = TimeSeriesSplit(3)
    grid = {"model": ["copy-last", "recurrence"]}
    search = GridSearchCV(TangoForecaster(), grid, cv=folds, error_score="raise").fit(X, Y)
    for place, name in enumerate(grid["model"]):
        scores = cross_val_score(TangoForecaster(name), X, Y, cv=folds)
        assert search.cv_results_["mean_test_score"][place] == pytest.approx(scores.mean())
    assert search.predict(X[LATE]).shape == (30,)


def test_checks_of_scikit_learn_pass_or_are_listed_with_a_reason() -> None:
    """And none is listed that would pass."""
    checks = pytest.importorskip("sklearn.utils.estimator_checks", reason="scikit-learn is not installed")
    estimator = TangoForecaster("frequency")
    results = checks.check_estimator(estimator, expected_failed_checks=NOT_APPLICABLE, on_fail=None, on_skip=None)
    failed = {one["check_name"]: str(one["exception"]) for one in results if one["status"] == "failed"}
    assert failed == {}
    assert {one["check_name"] for one in results if one["status"] == "xfail"} == {*NOT_APPLICABLE}
    assert sum(one["status"] == "passed" for one in results) > 10


def test_the_page_lists_the_checks_and_their_reasons() -> None:
    page = (Path(__file__).parents[2] / "docs" / "exchange.md").read_text(encoding="utf-8")
    for name, reason in NOT_APPLICABLE.items():
        assert any(f"`{name}`" in line and line.endswith(f"| {reason} |") for line in page.splitlines()), name

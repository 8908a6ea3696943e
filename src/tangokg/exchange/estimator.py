"""A forecaster as a scikit-learn estimator: X has subject, relation and time, y the object."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from inspect import signature
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from tangokg.errors import ConfigError, DataError, RunError, nearest, offer
from tangokg.forecast.forecaster import Forecaster
from tangokg.forecast.questions import make_question
from tangokg.forecast.shares import all_shares
from tangokg.forecast.training import fit
from tangokg.quads.tables import read_table
from tangokg.quads.values import Quadruples

COLUMNS = ("subject", "relation", "time")

_SHAPE = "X has exactly three columns, subject, relation and time, and the check gives other numbers of them"
_TIMES = "the check asks for times before all facts, at which nothing is known: an error here"
_ERRORS = "errors descend from TangoError, and the check expects a class of scikit-learn or ValueError"
_ANY = "names are texts of any kind, so that negative numbers, NaN and infinity are names like others"
_SPARSE = "rows are names, and there is no sparse form of them"
NOT_APPLICABLE = {  # checks of scikit-learn -> why they cannot apply: the value of expected_failed_checks
    **dict.fromkeys(
        (
            "check_complex_data", "check_dtype_object", "check_estimators_dtypes", "check_estimators_fit_returns_self",
            "check_estimators_overwrite_params", "check_fit1d", "check_fit2d_1feature", "check_fit2d_1sample",
            "check_fit2d_predict1d", "check_fit_check_is_fitted", "check_fit_idempotent", "check_n_features_in",
            "check_n_features_in_after_fitting", "check_readonly_memmap_input", "check_requires_y_none",
        ),
        _SHAPE,
    ),
    **dict.fromkeys(
        (
            "check_dict_unchanged", "check_estimators_pickle", "check_f_contiguous_array_estimator",
            "check_methods_sample_order_invariance", "check_methods_subset_invariance",
        ),
        _TIMES,
    ),
    "check_estimators_empty_data_messages": _ERRORS,
    "check_estimators_unfitted": _ERRORS,
    "check_estimators_nan_inf": _ANY,
    "check_positive_only_tag_during_fit": _ANY,
    **dict.fromkeys(
        ("check_estimator_sparse_array", "check_estimator_sparse_matrix", "check_estimator_sparse_tag"), _SPARSE
    ),
}  # fmt: skip


class TangoForecaster:
    """Any of our models as an estimator: ``clone``, ``cross_val_score`` and ``GridSearchCV`` take it.

    ``X`` is a table with the columns subject, relation and time, or an array of them in this order; ``y`` are the
    objects, as names. Rows may stand in any order, but folds must be ordered by time, such as those of
    ``TimeSeriesSplit`` on sorted rows. The last ``valid`` share of what is fitted chooses the epoch. ``settings`` are
    keywords of :func:`tangokg.fit`, ``unit`` and ``timezone`` those of :func:`tangokg.read_events`.

    After :meth:`fit`, ``forecaster_`` is the :class:`tangokg.Forecaster` and ``classes_`` are all names, sorted.
    """

    def __init__(
        self,
        model: str = "tango",
        *,
        settings: Mapping[str, Any] | None = None,
        valid: float = 0.1,
        seed: int = 0,
        unit: str | None = None,
        timezone: str | None = None,
    ) -> None:
        self.model = model
        self.settings = settings
        self.valid = valid
        self.seed = seed
        self.unit = unit
        self.timezone = timezone

    def __repr__(self) -> str:
        defaults = {name: p.default for name, p in signature(type(self)).parameters.items()}
        changed = (
            f"{name}={getattr(self, name)!r}" for name, usual in defaults.items() if getattr(self, name) != usual
        )
        return f"{type(self).__name__}({', '.join(changed)})"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor arguments."""
        return {name: getattr(self, name) for name in signature(type(self)).parameters}

    def set_params(self, **params: Any) -> TangoForecaster:
        """Change arguments; they hold from the next :meth:`fit` on."""
        for name, value in params.items():
            if name not in (known := self.get_params()):
                raise ConfigError(
                    f"unknown parameter {name!r}.{offer(nearest(name, known))} Expected {', '.join(known)}; what a "
                    f"model has goes into settings."
                )
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        """The tags of the estimator, for scikit-learn only."""
        tags = import_module("sklearn.utils")
        inputs = tags.InputTags(string=True, categorical=True)
        return tags.Tags(estimator_type=None, target_tags=tags.TargetTags(required=True), input_tags=inputs)

    def fit(self, X: Any, y: Any) -> TangoForecaster:
        """Train on facts; returns itself."""
        if not 0 <= self.valid < 1:
            raise ConfigError(f"valid must lie in [0, 1), found {self.valid}.")
        facts = self._facts(X, y, self.unit, self.timezone)
        data = facts.split(train=1 - self.valid, valid=self.valid)
        self.forecaster_ = fit(data, self.model, seed=self.seed, verbose=False, **(self.settings or {}))
        self.classes_: NDArray[np.str_] = np.array(sorted(facts.vocab.entities))
        self.n_features_in_ = len(COLUMNS)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The share of each name of ``classes_`` as the object of each row, (B, N): if (subject, relation) has any."""
        forecaster = self._fitted()
        known = forecaster._known
        questions = [make_question(known.index, s, r, None, t) for s, r, t in zip(*_columns(X), strict=True)]
        pairs = torch.tensor([q.s * 2 * known.num_relations + q.r for q in questions])  # type: ignore[operator]
        steps = torch.tensor([question.step for question in questions], dtype=torch.float64)
        order, _ = known.index.vocab.ids_of(self.classes_.tolist(), [])
        shares: NDArray[np.float64] = all_shares(forecaster.model, known, pairs, steps).numpy()[:, order]
        return shares

    def predict(self, X: Any) -> NDArray[np.str_]:
        """The likeliest object of each row."""
        best = self.predict_proba(X).argmax(1)
        names: NDArray[np.str_] = self.classes_[best]
        return names

    def score(self, X: Any, y: Any) -> float:
        """The mean reciprocal rank, 0 to 1, time-aware, of both directions; each fact from what is known before it.

        Facts of ``X`` and ``y`` are known for later ones among them. Names that training never saw are candidates too.
        """
        forecaster = self._fitted()
        clock = forecaster.facts.clock
        reading = (None, None) if clock.origin is None else (clock.unit, clock.timezone)
        summary = forecaster.evaluate(self._facts(X, y, *reading))["time-aware"]
        return summary.mrr / 100

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "forecaster_")

    def _fitted(self) -> Forecaster:
        if not hasattr(self, "forecaster_"):
            raise RunError("this estimator is not fitted yet: call fit(X, y) before.")
        return self.forecaster_

    def _facts(self, X: Any, y: Any, unit: str | None, timezone: str | None) -> Quadruples:
        s, r, t = _columns(X)
        if y is None or len(y) != len(s):
            raise DataError(f"y has {'no' if y is None else len(y)} objects; expected one for each of {len(s)} rows.")
        objects = [None if o is None else str(o) for o in _listed(y)]
        table = pa.table({"subject": s, "relation": r, "object": objects, "time": pa.array(t)})
        return read_table(table, columns={name: name for name in table.column_names}, unit=unit, timezone=timezone)


def _columns(X: Any) -> tuple[list[str], list[str], list[Any]]:
    """Subjects, relations and times: the columns of these names, or three columns in this order."""
    names = list(map(str, getattr(X, "columns", ())))
    if set(COLUMNS) <= set(names):
        columns = [_listed(X[name]) for name in COLUMNS]
    else:
        cells = np.asarray(X, dtype=object)
        if cells.ndim != 2 or cells.shape[1] != len(COLUMNS):
            raise DataError(
                f"X has the shape {cells.shape}; expected (rows, 3) with the columns {', '.join(COLUMNS)}, which may "
                f"be named."
            )
        columns = [cells[:, place].tolist() for place in range(len(COLUMNS))]
    for name, column in zip(COLUMNS, columns, strict=True):
        if any(cell is None for cell in column):
            raise DataError(f"the {name} of a row is empty; expected a {'time' if name == 'time' else 'name'}.")
    return list(map(str, columns[0])), list(map(str, columns[1])), columns[2]


def _listed(column: Any) -> list[Any]:
    """The cells of a column of pandas, polars or numpy as plain Python values."""
    return list(column.tolist() if hasattr(column, "tolist") else column)

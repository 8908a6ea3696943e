"""Optuna's samplers and pruners, by name."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tangokg.errors import ConfigError
from tangokg.tune.space import Choice, Plan


def load_optuna() -> Any:
    """Optuna with a quiet log; if it is missing, the error says how to install it."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="IProgress not found")  # of bars that are not shown here
            import optuna
    except ModuleNotFoundError as error:
        if error.name != "optuna":
            raise
        raise ConfigError(
            "a search needs Optuna, which is not installed: pip install 'tangokg[tune]', "
            "or in a clone pip install -e '.[tune]'."
        ) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _tpe(plan: Plan, trial: int) -> Any:
    """Running trials count as bad ones, so that workers try different regions; each trial has its own seed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # both options are called experimental
        seed = int(np.random.SeedSequence([plan.seed, trial]).generate_state(1)[0])
        return load_optuna().samplers.TPESampler(
            seed=seed, multivariate=True, constant_liar=True, n_startup_trials=6, warn_independent_sampling=False
        )


def _grid(plan: Plan, trial: int) -> Any:
    """Points in an order drawn from the seed, the same for all workers."""
    values = {name: choice.values for name, choice in plan.space.items() if isinstance(choice, Choice)}
    return load_optuna().samplers.GridSampler(values, seed=plan.seed)


def _halving(epochs: int) -> Any:
    return load_optuna().pruners.SuccessiveHalvingPruner(min_resource=max(1, epochs // 8), reduction_factor=2)


def _median(epochs: int) -> Any:
    return load_optuna().pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=max(1, epochs // 2))


SAMPLERS: dict[str, Callable[[Plan, int], Any]] = {"grid": _grid, "tpe": _tpe}
PRUNERS: dict[str, Callable[[int], Any]] = {
    "median": _median,  # below the median of the trials so far at the same epoch
    "halving": _halving,  # among the worse half at epochs that double (ASHA)
    "none": lambda _: load_optuna().pruners.NopPruner(),
}

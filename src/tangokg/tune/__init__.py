"""Settings by search: trials on the validation part, in a study that survives a kill and is shared by workers."""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Any

from tangokg.tune.python import Tuned, tune
from tangokg.tune.sampling import PRUNERS, load_optuna
from tangokg.tune.space import PRESETS, Choice, Plan, Preset, Range, make_plan
from tangokg.tune.study import OVER, Outcome, Study, best_of
from tangokg.tune.work import Search, work, work_together

__all__ = [
    "OVER",
    "PRESETS",
    "PRUNERS",
    "Choice",
    "Outcome",
    "Plan",
    "Preset",
    "Range",
    "Search",
    "Study",
    "Tuned",
    "best_of",
    "load_optuna",
    "make_plan",
    "tune",
    "work",
    "work_together",
]


class _Callable(ModuleType):
    """``tangokg.tune(data)`` searches: function and folder share a name, and whichever is found can be called."""

    def __call__(self, *arguments: Any, **named: Any) -> Tuned:
        return tune(*arguments, **named)


sys.modules[__name__].__class__ = _Callable
__signature__ = inspect.signature(tune)

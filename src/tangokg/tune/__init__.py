"""Settings by search: trials on the validation part, in a study that survives a kill and is shared by workers."""

from __future__ import annotations

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
    "best_of",
    "load_optuna",
    "make_plan",
    "work",
    "work_together",
]

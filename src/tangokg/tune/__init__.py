"""Settings by search: trials on the validation part, in a study that survives a kill and is shared by workers."""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Any

from tangokg.tune.python import Tuned, tune

__all__ = ["Tuned", "tune"]


class _Callable(ModuleType):
    """``tangokg.tune(data)`` searches: function and folder share a name, and whichever is found can be called."""

    def __call__(self, *arguments: Any, **named: Any) -> Tuned:
        return tune(*arguments, **named)


sys.modules[__name__].__class__ = _Callable
__signature__ = inspect.signature(tune)

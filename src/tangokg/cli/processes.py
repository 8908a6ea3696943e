"""Commands that run in several processes: only the first one prints."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Any

from tangokg.errors import TangoError

PAUSE = 3.0  # seconds


def first_speaks(command: Callable[..., None]) -> Callable[..., None]:
    """Delay the error of a helper process: the first process probably has the same error, and ends this one."""

    @wraps(command)
    def run(*words: Any, **options: Any) -> None:
        try:
            command(*words, **options)
        except TangoError:
            from tangokg.train.processes import place

            if place()[0] > 0:
                time.sleep(PAUSE)
            raise

    return run

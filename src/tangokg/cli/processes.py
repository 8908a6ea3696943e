"""A command that several processes run: the first one speaks for all."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Any

from tangokg.errors import TangoError

PAUSE = 3.0  # seconds


def first_speaks(command: Callable[..., None]) -> Callable[..., None]:
    """An error of a helping process waits: most likely the first process has it too, and this one is ended."""

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

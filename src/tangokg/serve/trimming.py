"""Returns freed memory to the system."""

from __future__ import annotations

import ctypes
from contextlib import suppress

POSTS = 25  # after which it is worth 13 ms


def trim() -> None:
    """Trim the heap (Linux only). Posts replace large arrays in several threads, so free memory between blocks adds up.

    On ICEWS18 a service held 2 GB after 800 posts, two thirds of it free.
    """
    with suppress(OSError, AttributeError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)

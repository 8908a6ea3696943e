"""Which source a result came from."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path


def commit() -> str | None:
    """The commit of the source tree, where there is one; ``-dirty`` where files differ from it.

    ``$TANGOKG_COMMIT`` names it for a copy of the tree outside its repository.
    """
    if name := os.environ.get("TANGOKG_COMMIT"):
        return name
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--exclude=*"]
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
        return (done.stdout.strip() or None) if done.returncode == 0 else None
    return None

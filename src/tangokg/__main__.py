"""``python -m tangokg`` is ``tango``."""

from __future__ import annotations

import sys

from tangokg.cli import main

if __name__ == "__main__":
    sys.exit(main())

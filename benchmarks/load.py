"""How many facts a second come from text and from Parquet into snapshots, and with how much memory.

python benchmarks/load.py --out benchmarks/results/load.json

The same as tango bench load; --help shows the options, tango bench --list the parameters.
"""

from __future__ import annotations

import sys

from tangokg.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", "load", *sys.argv[1:]]))

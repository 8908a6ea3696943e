"""The encoder on touched rows against its dense twin: same result, how much faster.

python benchmarks/twin.py --data ICEWS18 --out benchmarks/results/twin.json

The same as tango bench twin; --help shows the options, tango bench --list the parameters.
"""

from __future__ import annotations

import sys

from tangokg.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", "twin", *sys.argv[1:]]))

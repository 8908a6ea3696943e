"""How soon new facts are known, and what a forecast takes.

python benchmarks/observe.py --data ICEWS18 --out benchmarks/results/observe.json

The same as tango bench observe; --help shows the options, tango bench --list the parameters.
"""

from __future__ import annotations

import sys

from tangokg.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", "observe", *sys.argv[1:]]))

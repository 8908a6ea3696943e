"""Queries ranked a second under all filters.

python benchmarks/evaluate.py --data ICEWS18 --out benchmarks/results/evaluate.json

The same as tango bench evaluate; --help shows the options, tango bench --list the parameters.
"""

from __future__ import annotations

import sys

from tangokg.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", "evaluate", *sys.argv[1:]]))

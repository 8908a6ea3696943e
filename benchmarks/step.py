"""What a training step and an epoch take, beside the scores alone.

python benchmarks/step.py --data ICEWS18 --set batch_windows=2 --out benchmarks/results/step.json

The same as tango bench step; --help shows the options, tango bench --list the parameters.
"""

from __future__ import annotations

import sys

from tangokg.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", "step", *sys.argv[1:]]))

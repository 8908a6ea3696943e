"""Direct, adjoint and interpolated reverse gradients: time, memory, error over solver steps.

python benchmarks/gradients.py --set most_steps=64 --out benchmarks/results/gradients.json

The same as tango bench gradients; --help shows the options, tango bench --list the parameters.
"""

from __future__ import annotations

import sys

from tangokg.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", "gradients", *sys.argv[1:]]))

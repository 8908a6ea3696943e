"""What the encoder and a step cost over entities, history, dimension and events.

python benchmarks/growth.py --device cpu --out benchmarks/results/growth.json

The same as tango bench growth; --help shows the options, tango bench --list the parameters.
"""

from __future__ import annotations

import sys

from tangokg.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", "growth", *sys.argv[1:]]))

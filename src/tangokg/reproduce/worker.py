"""One run in a process of its own: ``python -m tangokg.reproduce.worker ORDER``, started by :mod:`pool`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from tangokg.errors import TangoError
from tangokg.reproduce.measure import OutOfTime
from tangokg.reproduce.pool import OUT_OF_TIME
from tangokg.reproduce.runs import Job, Until, make_result
from tangokg.train.checkpoint import write_atomically


def main(order: Path) -> int:
    """Make the run of an order; the status says whether its result lies beside it."""
    found = json.loads(order.read_text(encoding="utf-8"))
    now = time.time() - time.monotonic()
    train, last = (found[key] - now if key in found else float("inf") for key in ("train", "last"))
    silent = Until(float("inf"))  # progress is read from the log of the run
    try:
        job, work = Job.from_dict(found["job"]), Path(found["work"])
        result = make_result(job, work, found["device"], train, last, silent)
    except OutOfTime:
        return OUT_OF_TIME
    except TangoError as error:
        sys.stderr.write(f"error: {error}\n")
        return int(getattr(error, "status", 2))
    write_atomically(order.with_suffix(".result.json"), json.dumps(result).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

"""One run in a process of its own: ``python -m tangokg.reproduce.worker ORDER``, started by :mod:`pool`."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from pathlib import Path

from tangokg.errors import TangoError
from tangokg.reproduce.measure import OutOfTime
from tangokg.reproduce.pool import OUT_OF_MEMORY, OUT_OF_TIME, in_a_line
from tangokg.reproduce.runs import Job, Until, make_result
from tangokg.train import Interrupted
from tangokg.train.checkpoint import write_atomically
from tangokg.train.memory import lacks_memory


def main(order: Path) -> int:
    """Make the run of an order; the status says whether its result lies beside it."""
    found = json.loads(order.read_text(encoding="utf-8"))
    now = time.time() - time.monotonic()
    train, last = (found[key] - now if key in found else float("inf") for key in ("train", "last"))
    silent = Until(float("inf"))  # progress is read from the log of the run
    own = os.getppid()
    parent = own if sys.platform == "win32" else found.get("parent", own)  # there it stays the same, and says nothing
    try:
        job, work = Job.from_dict(found["job"]), Path(found["work"])
        result = make_result(job, work, found["device"], train, last, silent, lambda: os.getppid() != parent)
    except OutOfTime:
        return OUT_OF_TIME
    except (TangoError, Interrupted) as error:
        sys.stderr.write(f"error: {error}\n")
        return OUT_OF_MEMORY if lacks_memory(error) else int(getattr(error, "status", 2))
    except Exception as error:  # the last line is what people are told; the rest stays in the file of messages
        traceback.print_exc()
        sys.stderr.write(f"error: {in_a_line(error)}\n")
        return OUT_OF_MEMORY if lacks_memory(error) else 1
    write_atomically(order.with_suffix(".result.json"), json.dumps(result).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

"""The command ``tango``: every interface of the library by name, with one clear message for whatever goes wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from tangokg.cli.output import Output, heard
from tangokg.errors import TangoError

ANYWHERE = ("-q", "--quiet", "-v", "--verbose")  # flags that may stand before or after the command


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``tango`` with these words and return its exit status: 0 done, 2 a mistake that the user can mend."""
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a name may not fit the terminal's encoding
    output = Output(words)
    try:
        with heard(output):
            status = _run(words, output)
        sys.stdout.flush()
    except BrokenPipeError:  # who reads has gone; nothing more is written, not even at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


def _run(words: list[str], output: Output) -> int:
    """The command's status; each kind of failure has its message."""
    try:
        _dispatch(words, output)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if status == 130:
            output.complain("interrupted.")
        return status
    except KeyboardInterrupt:
        output.complain("interrupted.")
        return 130
    except TangoError as error:
        return output.fail(str(error), getattr(error, "status", 2))
    except BrokenPipeError:
        raise
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return output.fail(f"{place}{error.strerror or error}.", 2)
    except Exception as error:
        if _out_of_memory(error):
            return output.fail(
                "there is not enough memory. Take a smaller state (--set dim=100), fewer windows a step "
                "(--set batch_windows=1), or a coarser time unit, so that a snapshot holds fewer facts at once.",
                2,
            )
        return output.fail(
            f"unexpected {type(error).__name__}: {error}\nThis is a defect of tangokg: please report it with the "
            f"command, what -v shows and what `tango doctor` prints.",
            1,
        )
    return 0


def _out_of_memory(error: Exception) -> bool:
    """Python, numpy and Arrow raise MemoryError, torch a RuntimeError that only its text tells apart."""
    texts = ("can't allocate memory", "not enough memory", "out of memory", "alloc_failed")
    told = isinstance(error, RuntimeError) and any(text in str(error).casefold() for text in texts)
    return told or isinstance(error, MemoryError)


def _dispatch(words: list[str], output: Output) -> None:
    from typer.main import get_command

    from tangokg.cli.app import app

    end = words.index("--") if "--" in words else len(words)
    flags = [word for word in words[:end] if word in ANYWHERE]
    rest = [word for word in words[:end] if word not in ANYWHERE]
    get_command(app).main(args=[*flags, *rest, *words[end:]], prog_name="tango", obj=output)

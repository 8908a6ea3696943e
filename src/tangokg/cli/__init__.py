"""The command ``tango``: the library from the command line, with one clear message for every error."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from tangokg.cli.output import Output, warnings_as_notes
from tangokg.errors import TangoError

ANYWHERE = ("-q", "--quiet", "-v", "--verbose")  # flags that can stand before or after the command


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``tango`` with these words and return its exit status: 0 done, 2 an error that the user can correct."""
    try:
        with _listening():
            return _main(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:  # before or after the command itself
        sys.stderr.write("error: interrupted.\n")
        return 130


def _without_passwords(words: list[str]) -> list[str]:
    """The words without passwords in database addresses, so that nothing prints or stores one."""
    if not any("://" in word for word in words):
        return words
    from tangokg.quads.addresses import without_passwords

    clean = without_passwords(words)
    if sys.argv[1:] == words:
        sys.argv[1:] = clean  # trackers write it down
    return clean


def _main(words: list[str]) -> int:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # for names that the terminal's encoding does not have
    try:
        words = _without_passwords(words)
    except TangoError as error:
        return Output().fail(str(error), 2)
    output = Output(words)
    try:
        with warnings_as_notes(output):
            status = _run(words, output)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has gone; nothing more is written, not even at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


class _Ctrlc:
    """The handler of Ctrl-C. It raises, and remembers the signal for the training loop."""

    received = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        raise KeyboardInterrupt


def _interrupt() -> None:
    """Send Ctrl-C to the main thread, also while it waits for something."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        _thread.interrupt_main()


@contextmanager
def _listening() -> Iterator[None]:
    """Never lose Ctrl-C: if it is raised in a destructor or while modules load, it is sent again."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler, hook = signal.getsignal(signal.SIGINT), sys.unraisablehook

    def send_again(lost: Any) -> None:
        if isinstance(lost.exc_value, KeyboardInterrupt):
            threading.Timer(0.05, _interrupt).start()
        else:
            hook(lost)

    if handler is signal.default_int_handler:  # unless Ctrl-C is ignored, or has another handler
        signal.signal(signal.SIGINT, _Ctrlc())
        sys.unraisablehook = send_again
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        sys.unraisablehook = hook


def _run(words: list[str], output: Output) -> int:
    """Run the command and return its status; each kind of error has its message."""
    try:
        _dispatch(words, output)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if status == 130:
            output.complain("interrupted.")
        return status
    except KeyboardInterrupt as stop:
        return output.fail(str(stop) or "interrupted.", getattr(stop, "status", 130))
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
    """Python, numpy and Arrow raise MemoryError; torch raises a RuntimeError, recognised by its text."""
    texts = ("can't allocate memory", "not enough memory", "out of memory", "alloc_failed")
    from_torch = isinstance(error, RuntimeError) and any(text in str(error).casefold() for text in texts)
    return from_torch or isinstance(error, MemoryError)


def _dispatch(words: list[str], output: Output) -> None:
    from tangokg.cli.app import command_line

    end = words.index("--") if "--" in words else len(words)
    flags = [word for word in words[:end] if word in ANYWHERE]
    rest = [word for word in words[:end] if word not in ANYWHERE]
    command_line().main(args=[*flags, *rest, *words[end:]], prog_name="tango", obj=output)

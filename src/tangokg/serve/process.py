"""Processes that answer questions: threads of one process take turns at Python's lock, processes do not."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from tangokg.forecast import load
from tangokg.serve import asking, card, schemas
from tangokg.serve.compacting import catch_up
from tangokg.serve.state import State

logger = logging.getLogger("tangokg.serve")
TRIES = 3  # starts in a row without an answer
PATIENCE = 5.0  # seconds for a process to end by itself


def number_by_rule(device: torch.device) -> int:
    """One process beside that of HTTP, where a second core could not be used otherwise."""
    return int(device.type == "cpu" and (os.cpu_count() or 1) > 1)


def warm(state: State, span: float) -> None:
    """Answer an example, so that the first question does not wait."""
    example = {key: value for key, value in card.example(state).items() if key != "at"}
    asking.answer(state, [schemas.Question(**example)], span)


class AnsweringProcess:
    """A process with a run and all posts of its journal, which it reads by itself; used by one thread.

    While it starts, and after it died, it gives no answers, and the service answers instead of it.
    """

    def __init__(self, run: Path, journal: Path, span: float) -> None:
        self._given = run, journal, span, torch.get_num_threads()
        self._tries = TRIES
        self._ready = self._ended = False

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would inherit threads and locks
        self._pipe, end = context.Pipe()
        self._process = context.Process(target=_work, args=(end, *self._given), name="tangokg-answers", daemon=True)
        self._process.start()
        end.close()  # so that the pipe ends with the process
        self._ready = False

    def answer(self, questions: Sequence[schemas.Question], position: int) -> list[Any] | None:
        """The answers from the first ``position`` posts or more; None in place of one that failed, or of all."""
        if self._ended:
            return None
        try:
            if not self._ready:
                if not self._pipe.poll():
                    return None
                self._ready = bool(self._pipe.recv())
            self._pipe.send((questions, position))
            answers: list[Any] = self._pipe.recv()
        except (EOFError, OSError):
            self._restart()
            return None
        self._tries = TRIES
        return answers

    def _restart(self) -> None:
        self._pipe.close()
        self._process.join(PATIENCE)
        self._tries -= 1
        self._ended = not self._tries
        logger.error("a process that answers questions ended (%s)", self._process.exitcode)
        if not self._ended:
            self.start()

    def stop(self) -> None:
        """End the process: it does so by itself when the pipe is closed."""
        self._ended = True
        self._pipe.close()
        self._process.join(PATIENCE)
        self._process.kill()


def _work(pipe: Connection, run: Path, journal: Path, span: float, threads: int) -> None:
    """Answer until the other end of the pipe is closed."""
    for number in (signal.SIGINT, signal.SIGTERM):  # which are sent to all processes; the service says when to end
        signal.signal(number, signal.SIG_IGN)
    logging.getLogger("tangokg").setLevel(logging.ERROR)
    torch.set_num_threads(threads)
    state = catch_up(State.of(load(run, "cpu")), journal)
    warm(state, span)
    try:
        pipe.send(True)
        while True:
            questions, position = pipe.recv()
            if state.position < position:
                state = catch_up(state, journal)
            answers = asking.answer(state, questions, span)
            pipe.send([None if isinstance(answer, BaseException) else answer for answer in answers])
    except (EOFError, OSError):
        return

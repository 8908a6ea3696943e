"""A process that answers questions: threads of one process take turns at Python's lock, processes do not."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock, Thread
from typing import Any, NamedTuple

import torch

from tangokg.forecast import load
from tangokg.serve import asking, card, schemas, trimming
from tangokg.serve.compacting import catch_up
from tangokg.serve.state import State
from tangokg.serve.worker import Turn, Worker

logger = logging.getLogger("tangokg.serve")
NICE = 10  # below the process of HTTP, which does little but must not wait, and takes the posts
TRIES = 3  # starts in a row without an answer
PATIENCE = 5.0  # seconds for a process to end by itself

AskService = Callable[[schemas.Question, Turn], Future[Any]]


def number_by_rule(device: torch.device) -> int:
    """Two processes where there are cores for them: more cost memory, and ``--processes`` asks for them."""
    cores = os.cpu_count() or 1
    return min(cores, 2) if device.type == "cpu" and cores > 1 else 0


def warm(state: State, span: float) -> None:
    """Answer an example, so that the first question does not wait."""
    example = {key: value for key, value in card.example(state).items() if key != "at"}
    asking.answer(state, [schemas.Question(**example)], span)


class Sent(NamedTuple):
    """A question on its way to the process and back."""

    number: int
    turn: Turn
    position: int  # posts that the answer must know
    question: schemas.Question


class AnsweringProcess:
    """A process with a run and all posts of its journal, which it reads by itself.

    While it starts, after it died, and where it has no answer, the service itself is asked: it tells what is wrong with
    a question.
    """

    def __init__(self, run: Path, journal: Path, span: float) -> None:
        self._given = run, journal, span, torch.get_num_threads()
        self._lock, self._numbers = Lock(), count()
        self._waiting: dict[int, tuple[Sent, Future[Any]]] = {}
        self._ready = self._ended = False

    def start(self, instead: AskService, count_batch: Callable[[int], None]) -> None:
        """``instead`` asks the service itself; ``count_batch`` is told how many questions were answered together."""
        self._instead, self._count_batch = instead, count_batch
        self._launch()
        self._thread = Thread(target=self._receive, name="tangokg-process", daemon=True)
        self._thread.start()

    def _launch(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would inherit threads and locks
        self._pipe, end = context.Pipe()
        self._process = context.Process(target=_work, args=(end, *self._given), name="tangokg-answers", daemon=True)
        self._process.start()
        end.close()  # so that the pipe ends with the process

    @property
    def load(self) -> int:
        """How many questions wait for it."""
        return len(self._waiting)

    def ask(self, question: schemas.Question, turn: Turn, position: int) -> Future[Any]:
        """The answer from the first ``position`` posts or more."""
        with self._lock:
            if self._ready:
                future: Future[Any] = Future()
                future.set_running_or_notify_cancel()  # a client that went away is answered all the same
                sent = Sent(next(self._numbers), turn, position, question)
                self._waiting[sent.number] = sent, future
                with suppress(OSError):  # the process has just died: who receives sees it too
                    self._pipe.send(sent)
                return future
        return self._instead(question, turn)

    def _receive(self) -> None:
        """Take what the process sends, and start it again if it dies."""
        tries = TRIES
        while tries:
            with suppress(EOFError, OSError):
                while True:
                    answers = self._pipe.recv()
                    if self._ready:
                        tries = TRIES
                        self._count_batch(len(answers))
                        self._hand_out(answers)
                    self._ready = True
            with self._lock:
                self._ready = False
                if self._ended:
                    break
            self._process.join(PATIENCE)
            logger.error("a process that answers questions ended (%s)", self._process.exitcode)
            self._hand_out([(number, None) for number in list(self._waiting)])
            tries -= 1
            if tries:
                self._launch()

    def _hand_out(self, answers: Sequence[tuple[int, Any]]) -> None:
        for number, answer in answers:
            sent, future = self._waiting.pop(number)
            if answer is not None:
                future.set_result(answer)
            else:
                self._instead(sent.question, sent.turn).add_done_callback(partial(_copy, future))

    def stop(self) -> None:
        """End the process: it does so by itself when the pipe is closed."""
        with self._lock:
            self._ended, self._ready = True, False
        self._process.kill()
        self._thread.join(PATIENCE)
        self._pipe.close()
        self._hand_out([(number, None) for number in list(self._waiting)])


def _copy(to: Future[Any], done: Future[Any]) -> None:
    if (error := done.exception()) is not None:
        to.set_exception(error)
    else:
        to.set_result(done.result())


def _work(pipe: Connection, run: Path, journal: Path, span: float, threads: int) -> None:
    """Answer until the other end of the pipe is closed."""
    for number in (signal.SIGINT, signal.SIGTERM):  # which are sent to all processes; the service says when to end
        signal.signal(number, signal.SIG_IGN)
    logging.getLogger("tangokg").setLevel(logging.ERROR)
    torch.set_num_threads(threads)
    if hasattr(os, "nice"):
        os.nice(NICE)
    state = catch_up(State.of(load(run, "cpu")), journal)
    warm(state, span)

    def answer(batch: Sequence[Sent]) -> Sequence[Any]:
        nonlocal state
        answers: list[Any] = [None] * len(batch)
        with suppress(Exception):
            if state.position < max(sent.position for sent in batch):
                before, state = state.position, catch_up(state, journal)
                if before // trimming.POSTS < state.position // trimming.POSTS:
                    trimming.trim()
            answers = asking.answer(state, [sent.question for sent in batch], span)
        pipe.send(
            [(sent.number, None if isinstance(x, BaseException) else x) for sent, x in zip(batch, answers, strict=True)]
        )
        return answers

    worker: Worker[Sent] = Worker(answer)
    with suppress(EOFError, OSError):
        pipe.send(None)  # ready
        worker.start()
        while True:
            sent = pipe.recv()
            worker.ask(sent, sent.turn)

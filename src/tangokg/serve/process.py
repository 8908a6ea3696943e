"""A process that answers questions: threads of one process take turns at Python's lock, processes do not."""

from __future__ import annotations

import atexit
import logging
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, NamedTuple

import torch

from tangokg.forecast import load
from tangokg.serve import asking, card, schemas, trimming
from tangokg.serve.compacting import catch_up
from tangokg.serve.state import State
from tangokg.serve.worker import Turn, Worker
from tangokg.train.devices import usable_cores

logger = logging.getLogger("tangokg.serve")
NICE = 10  # lower priority than the service, which does little but must not wait, and takes the posts
TRIES = 3  # starts in a row without an answer
PAUSE = 1.0  # seconds before another start
PATIENCE = 5.0  # seconds for a process or a thread to end
STOPPING = {signal.SIGINT, signal.SIGTERM}  # sent to all processes; the service says when they end

AskService = Callable[[schemas.Question, Turn], Future[Any]]


def default_processes(device: torch.device) -> int:
    """Two where there are cores for them; more need memory, and ``--processes`` asks for them."""
    cores = usable_cores()
    return min(cores, 2) if device.type == "cpu" and cores > 1 else 0


def warm(state: State, span: float) -> None:
    """Answer an example, so that the first question does not wait."""
    example = {key: value for key, value in card.example(state).items() if key != "at"}
    asking.answer(state, [schemas.Question(**example)], span)


class Sent(NamedTuple):
    """A question on its way to the process."""

    number: int
    turn: Turn
    position: int  # posts that the answer must know
    question: schemas.Question


class AnsweringProcess:
    """A process with a run and all posts of its journal, which it reads by itself.

    Until it is ready, after it died, and for questions that fail there, the service itself answers, and raises the
    error of a question.
    """

    def __init__(self, run: Path, journal: Path, span: float) -> None:
        self._given = run, journal, span, torch.get_num_threads()
        self._lock, self._sending, self._stopped, self._numbers = Lock(), Lock(), Event(), count()
        self._questions: dict[int, tuple[Sent, Future[Any]]] = {}
        self._process: BaseProcess | None = None
        self._thread = Thread(target=self._run, name="tangokg-process", daemon=True)
        self.ready = False

    @property
    def waiting(self) -> int:
        """How many questions wait for it."""
        return len(self._questions)

    def start(self, instead: AskService, count_batch: Callable[[int], None]) -> None:
        """``instead`` asks the service itself; ``count_batch`` is told how many questions were answered together."""
        self._instead, self._count_batch = instead, count_batch
        atexit.register(self.stop)  # where the service ends without stopping it
        self._thread.start()

    def stop(self) -> None:
        """End the process; the service answers what waits for it."""
        atexit.unregister(self.stop)
        with self._lock:
            self.ready = False
            self._stopped.set()
            if self._process is not None:
                self._process.kill()
        if self._thread.is_alive():
            self._thread.join(PATIENCE)
        self._hand_back()

    def ask(self, question: schemas.Question, turn: Turn, position: int) -> Future[Any]:
        """The answer from the first ``position`` posts or more."""
        with self._lock:
            if not self.ready:
                return self._instead(question, turn)
            future: Future[Any] = Future()
            future.set_running_or_notify_cancel()  # a client that went away is answered all the same
            sent, pipe = Sent(next(self._numbers), turn, position, question), self._pipe
            self._questions[sent.number] = sent, future
        with self._sending, suppress(OSError):  # the process has just died, and the service is asked
            pipe.send(sent)
        return future

    def _run(self) -> None:
        """Start the process, take what it sends, and start it again if it dies."""
        tries = TRIES
        while tries and self._launch():
            tries -= 1
            try:
                with suppress(EOFError, OSError):
                    while True:
                        tries = self._take(self._pipe.recv()) or tries
            finally:
                process = self._end()
                self._hand_back()
            if not self._stopped.wait(PAUSE if tries else 0):
                then = "it is started again" if tries else "it is not started again; the service answers by itself"
                logger.error("a process that answers questions ended (%s): %s", process.exitcode, then)

    def _launch(self) -> bool:
        with self._lock:
            if self._stopped.is_set():
                return False
            context = multiprocessing.get_context("spawn")  # a fork would inherit threads and locks
            self._pipe, end = context.Pipe()
            arguments = (end, *self._given)
            process = context.Process(target=_work, args=arguments, name="tangokg-answers", daemon=True)
            with _blocked(STOPPING):  # until it ignores them
                process.start()
            self._process = process
            end.close()  # so that the pipe ends with the process
        return True

    def _end(self) -> BaseProcess:
        """No more questions; the process is gone."""
        with self._lock:
            self.ready = False
        assert self._process is not None
        self._process.kill()
        self._process.join(PATIENCE)
        self._pipe.close()
        return self._process

    def _take(self, message: list[tuple[int, Any]] | None) -> int:
        """Hand out answers: as many tries as at first. The first message, None, says that the process is ready."""
        if message is None:
            with self._lock:
                self.ready = not self._stopped.is_set()
            return 0
        self._count_batch(len(message))
        for number, answer in message:
            sent, future = self._questions.pop(number)
            if answer is None:
                self._ask_service(sent, future)
            else:
                future.set_result(answer)
        return TRIES

    def _hand_back(self) -> None:
        """The service answers what waits."""
        for number in list(self._questions):
            if question := self._questions.pop(number, None):
                self._ask_service(*question)

    def _ask_service(self, sent: Sent, future: Future[Any]) -> None:
        self._instead(sent.question, sent.turn).add_done_callback(partial(_copy, future))


def _copy(to: Future[Any], done: Future[Any]) -> None:
    if (error := done.exception()) is not None:
        to.set_exception(error)
    else:
        to.set_result(done.result())


@contextmanager
def _blocked(signals: set[signal.Signals]) -> Iterator[None]:
    """Signals wait meanwhile; a process that is started inherits this. Windows has no such thing."""
    if os.name != "posix":
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # its own start, with the first process, would end the blocking
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(pipe: Connection, run: Path, journal: Path, span: float, threads: int) -> None:
    """Answer until the other end of the pipe is closed."""
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)
    if os.name == "posix":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
        os.nice(NICE)
    logging.getLogger("tangokg").setLevel(logging.ERROR)
    torch.set_num_threads(threads)
    state = catch_up(State.of(load(run, "cpu")), journal)
    warm(state, span)

    def answer(batch: Sequence[Sent]) -> Sequence[Any]:
        nonlocal state
        answers: list[Any] = [None] * len(batch)
        try:
            if state.position < max(sent.position for sent in batch):
                before, state = state.position, catch_up(state, journal)
                if before // trimming.POSTS < state.position // trimming.POSTS:
                    trimming.trim()
            answers = asking.answer(state, [sent.question for sent in batch], span)
        except Exception as error:
            logger.error("questions have to be answered by the service", exc_info=error)
        known = (None if isinstance(x, BaseException) else x for x in answers)
        pipe.send([(sent.number, x) for sent, x in zip(batch, known, strict=True)])
        return answers

    worker: Worker[Sent] = Worker(answer)
    with suppress(EOFError, OSError):
        pipe.send(None)  # ready
        worker.start()
        while True:
            sent = pipe.recv()
            worker.ask(sent, sent.turn)

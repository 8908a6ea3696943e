"""A thread that works for all requests: questions that wait are answered together, single ones before many."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import count
from typing import Any, Generic, TypeVar

MOST = 32  # questions answered together

Ask = TypeVar("Ask")
T = TypeVar("T")
Answer = Callable[[Sequence[Ask]], Sequence[Any]]  # an exception among the results is raised for its question


class Turn(IntEnum):
    """Who comes first; those of one kind in the order in which they came."""

    QUESTION = 0
    MANY = 1  # of a request with many questions
    END = 2


@dataclass(order=True)
class Waiting:
    turn: Turn
    number: int
    future: Future[Any] = field(compare=False)
    question: Any = field(compare=False, default=None)
    job: Callable[[], Any] | None = field(compare=False, default=None)


class Worker(Generic[Ask]):
    """A queue of questions and of other jobs, and a thread that takes them."""

    def __init__(self, answer: Answer[Ask], name: str = "worker") -> None:
        self._answer = answer
        self._queue: queue.PriorityQueue[Waiting] = queue.PriorityQueue()
        self._numbers = count()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def drop(self, seconds: float) -> None:
        """Give up what waits, and what is under way after so long."""
        with suppress(queue.Empty):
            while True:
                self._queue.get_nowait().future.cancel()
        self.stop(seconds)

    def stop(self, seconds: float | None = None) -> None:
        """Finish what waits, then end."""
        self._queue.put(Waiting(Turn.END, next(self._numbers), Future()))
        self._thread.join(seconds)

    def ask(self, question: Ask, turn: Turn = Turn.QUESTION) -> Future[Any]:
        """A question, answered together with others that wait."""
        future: Future[Any] = Future()
        self._queue.put(Waiting(turn, next(self._numbers), future, question=question))
        return future

    def run(self, job: Callable[[], T], turn: Turn = Turn.QUESTION) -> Future[T]:
        """Anything else that needs the model."""
        future: Future[T] = Future()
        self._queue.put(Waiting(turn, next(self._numbers), future, job=job))
        return future

    def _work(self) -> None:
        going = True
        while going:
            batch = self._take()
            going = batch[-1].turn != Turn.END
            batch = [item for item in batch if item.turn != Turn.END and item.future.set_running_or_notify_cancel()]
            for item in batch:
                if item.job is not None:
                    _settle(item.future, item.job)
            questions = [item for item in batch if item.job is None]
            if questions:
                self._answer_all(questions)

    def _take(self) -> list[Waiting]:
        """What waits, in order of turns: at least one, and not many."""
        batch = [self._queue.get()]
        while len(batch) < MOST and batch[-1].turn != Turn.END:
            try:
                batch.append(self._queue.get_nowait())
            except queue.Empty:
                break
        return batch

    def _answer_all(self, questions: list[Waiting]) -> None:
        try:
            results = self._answer([item.question for item in questions])
        except BaseException as error:
            results = [error] * len(questions)
        for item, result in zip(questions, results, strict=True):
            if isinstance(result, BaseException):
                item.future.set_exception(result)
            else:
                item.future.set_result(result)


def _settle(future: Future[Any], job: Callable[[], Any]) -> None:
    try:
        future.set_result(job())
    except BaseException as error:
        future.set_exception(error)

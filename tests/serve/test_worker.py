"""The queue before the model: questions that wait are answered together, posts do not wait for many questions."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event
from typing import Any

import pytest

from tangokg.serve.worker import MOST, Turn, Worker


def test_questions_that_wait_are_answered_together() -> None:
    sizes: list[int] = []

    def answer(questions: Sequence[int]) -> list[Any]:
        sizes.append(len(questions))
        return [q * 10 if q % 7 else ValueError(q) for q in questions]

    worker = Worker(answer)
    futures = [worker.ask(i) for i in range(1, MOST + 5)]
    worker.start()
    for i, future in enumerate(futures, 1):
        if i % 7:
            assert future.result(120) == i * 10
        else:
            with pytest.raises(ValueError, match=str(i)):
                future.result(120)
    worker.stop()
    assert sizes == [MOST, 4]


def test_single_questions_go_before_many() -> None:
    order: list[Any] = []

    def answer(questions: Sequence[str]) -> list[Any]:
        order.append(list(questions))
        return list(questions)

    worker, begun, hold = Worker(answer), Event(), Event()
    worker.start()

    def wait() -> None:
        begun.set()
        hold.wait(120)

    worker.run(wait)
    assert begun.wait(120)
    for i in range(MOST + 1):
        worker.ask(f"many {i}", Turn.MANY)
    worker.ask("single")
    hold.set()
    worker.stop()
    assert order[0][0] == "single"
    assert sum(map(len, order)) == MOST + 2


def test_what_fails_does_not_stop_the_thread() -> None:
    def answer(questions: Sequence[int]) -> list[Any]:
        raise KeyError(len(questions))

    worker = Worker(answer)
    worker.start()
    with pytest.raises(KeyError):
        worker.ask(1).result(120)
    with pytest.raises(ZeroDivisionError):
        worker.run(lambda: 1 // 0).result(120)
    assert worker.run(lambda: 7).result(120) == 7
    worker.stop()


def test_a_worker_that_is_dropped_gives_up_what_waits() -> None:
    worker, begun, hold = Worker[int](lambda questions: list(questions)), Event(), Event()
    worker.start()

    def wait() -> None:
        begun.set()
        hold.wait(120)

    worker.run(wait)
    assert begun.wait(120)
    waiting = [worker.ask(i) for i in range(3)]
    worker.drop(0.1)
    hold.set()
    assert all(future.cancelled() for future in waiting)

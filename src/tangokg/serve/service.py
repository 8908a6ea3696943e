"""The service without HTTP: the state, the threads that answer, and the one that takes posts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import lru_cache
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from tangokg.forecast import Forecaster
from tangokg.serve import asking, card, curve, record, schemas, scoring, trimming
from tangokg.serve.compacting import replay
from tangokg.serve.failures import Refused
from tangokg.serve.hub import Hub
from tangokg.serve.journal import Journal
from tangokg.serve.metrics import Gauges
from tangokg.serve.names import Names
from tangokg.serve.posting import Posting
from tangokg.serve.process import AnsweringProcess, warm
from tangokg.serve.second import Second
from tangokg.serve.settings import ServeSettings
from tangokg.serve.state import State
from tangokg.serve.worker import Turn, Worker

SLOW = 32  # requests for reasons, curves and events that may wait
PATIENCE = 2.0  # seconds to finish the current work when the service stops
T = TypeVar("T")


class Service:
    """A served run: one thread answers, a second answers slow requests, and a third takes posts one by one.

    With ``processes``, these answer instead of the first thread. The thread of the posts replaces the state as a whole;
    each answer names the position of the state it used.
    """

    def __init__(
        self,
        forecaster: Forecaster,
        settings: ServeSettings,
        run: Path,
        journal: Path,
        second: tuple[Forecaster, Path] | None = None,  # a run to compare with, and its folder
        processes: Sequence[AnsweringProcess] = (),
    ) -> None:
        self.settings = settings
        self._journal = Journal(journal)
        self.state = replay(State.of(forecaster), self._journal, run)
        self.names, self.hub, self.gauges = Names(self.state), Hub(), Gauges()
        self.gauges.position.set(self.state.position)
        self._posting = Posting(settings, self._journal, self.names, self.hub, self.gauges)
        self._processes, self._turns = processes, count()
        self.worker: Worker[schemas.Question] = Worker(self._answer, "tangokg-model")
        self._slow: Worker[schemas.Question] = Worker(self._answer_slowly, "tangokg-slow")
        self._posts: Worker[schemas.Question] = Worker(self._answer_slowly, "tangokg-posts")
        self._slow_waiting, self._lock = 0, Lock()
        self._copied: tuple[State, State] | None = None  # of the slow thread
        self.started = time.monotonic()
        self._run, self._figures = run.resolve().name, card.figures(run)
        self._second = None if second is None else Second(second[0], forecaster, second[1], journal)
        self._likely = lru_cache(maxsize=16)(self._make_likely)
        self._card = lru_cache(maxsize=1)(card.card)

    def start(self) -> None:
        """Start threads and processes, and warm up so that the first question does not wait."""
        for process in self._processes:
            process.start(self.worker.ask, self.gauges.batch.observe)
        self.worker.start()
        self._slow.start()
        self._posts.start()
        self.worker.run(self._warm)
        self._posts.run(self._warm_posts)

    def _warm(self) -> None:
        warm(self.state, self.settings.span)
        self._card(self.state)

    def _warm_posts(self) -> None:
        state = self.state.copy_for_thread()
        last = state.forecaster.facts
        scoring.score(state, last.select(last.t == state.index.t[-1]).select(slice(1)))

    def stop(self) -> None:
        self._slow.drop(PATIENCE)
        self._posts.stop()
        for process in self._processes:
            process.stop()
        self.worker.stop()
        self._journal.close()

    def _answer(self, questions: Sequence[schemas.Question]) -> list[Any]:
        self.gauges.batch.observe(len(questions))
        return asking.answer(self.state, questions, self.settings.span)

    def _pass_on(self, question: schemas.Question, turn: Turn) -> Future[Any]:
        """To the process with the fewest questions, or to our own thread."""
        ready = [process for process in self._processes if process.ready]
        if not ready:
            return self.worker.ask(question, turn)
        first = next(self._turns) % len(ready)  # among those with equally few
        process = min(ready[first:] + ready[:first], key=lambda process: process.waiting)
        return process.ask(question, turn, self.state.position)

    def ask(self, questions: Sequence[schemas.Question]) -> list[Future[Any]]:
        """Futures of the answers; unknown names raise an error immediately."""
        for question in questions:
            if not question.suppose:  # which may bring new ones
                self.state.check_names(question.subject, question.relation, question.object)
        turn = Turn.QUESTION if len(questions) == 1 else Turn.MANY
        reasons = sum(question.why for question in questions)
        if reasons:
            self._reserve(reasons)
        return [
            self._counted(self._slow.ask(question)) if question.why else self._pass_on(question, turn)
            for question in questions
        ]

    # Slow requests (seconds on large data) run on their own thread, from the state at that moment

    def _reserve(self, number: int) -> None:
        with self._lock:
            if self._slow_waiting + number > SLOW:
                raise Refused(
                    429,
                    "too many requests wait for reasons, curves or events.",
                    "Try again in 5 s.",
                    {"Retry-After": "5"},
                )
            self._slow_waiting += number

    def _counted(self, future: Future[T]) -> Future[T]:
        future.add_done_callback(lambda _: self._release())
        return future

    def _release(self) -> None:
        with self._lock:
            self._slow_waiting -= 1

    def _run_slow(self, find: Callable[[State], T]) -> Future[T]:
        self._reserve(1)
        return self._counted(self._slow.run(lambda: find(self._slow_state())))

    def _slow_state(self) -> State:
        """A copy of the state for the slow thread, made once for each state."""
        state = self.state
        if self._copied is None or self._copied[0] is not state:
            self._copied = state, state.copy_for_thread()
        return self._copied[1]

    def _answer_slowly(self, questions: Sequence[schemas.Question]) -> list[Any]:
        return asking.answer(self._slow_state(), questions, self.settings.span)

    def curve(self, request: schemas.Curve) -> Future[dict[str, Any]]:
        self.state.check_names(request.subject, request.relation, request.object)
        return self._run_slow(lambda state: curve.curve(state, request, self.settings.span))

    def compare(self, question: schemas.Question) -> list[Future[Any]]:
        """Futures of the answers of both runs."""
        if (second := self._second) is None:
            raise Refused(404, "only one run is served.", "Start the service with --beside RUN.")
        (first,) = self.ask([question])
        self._reserve(1)
        return [first, self._counted(self._slow.run(lambda: second.answer(question, self.settings.span)))]

    def likely(self, at: Any, top: int) -> Future[dict[str, Any]]:
        """The likeliest events, cached until new facts arrive."""

        def look(state: State) -> dict[str, Any]:
            events_json = self._likely(state, at)
            return events_json | {"events": events_json["events"][:top]}

        return self._run_slow(look)

    def _make_likely(self, state: State, at: Any) -> dict[str, Any]:
        return asking.likely(state, at, self.settings.span)

    def post(self, facts: Sequence[schemas.Fact], key: str | None) -> Future[dict[str, Any]]:
        """Take new facts; the future resolves when they are on disk and in use. Questions are answered meanwhile."""
        arrived = time.monotonic()

        def take() -> dict[str, Any]:
            answer = self._posting.take(self.state.copy_for_thread(), facts, key, self._know)
            self.gauges.lag.observe(time.monotonic() - arrived)
            if answer["position"] % trimming.POSTS == 0:
                self._posts.run(trimming.trim)
            return answer

        return self._posts.run(take)

    def _know(self, state: State) -> None:
        self.state = state
        self._likely.cache_clear()  # which keeps earlier states
        self._card.cache_clear()

    def record(self) -> dict[str, Any]:
        return record.record(self._journal.path, self.state.tell)

    def surprises(self, limit: int) -> dict[str, Any]:
        return record.surprises(self._journal.path, self.state.tell, limit)

    def card(self) -> dict[str, Any]:
        second = self._second.about() if self._second else None
        return self._card(self.state) | {"run": self._run, "metrics": self._figures, "beside": second}

    def health(self) -> dict[str, Any]:
        uptime = round(time.monotonic() - self.started, 3)
        return {
            "status": "ok",
            "version": self.settings.version,
            "position": self.state.position,
            "uptime": uptime,
        }

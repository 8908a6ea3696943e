"""A trained model with the facts it knows: answers by name, takes new facts, evaluates, saves and loads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from tangokg.errors import DataError
from tangokg.forecast.answers import Forecast, describe
from tangokg.forecast.questions import Question, When, make_question
from tangokg.models import Model
from tangokg.quads import read_events
from tangokg.quads.adapt import adapt
from tangokg.quads.values import Dataset, Quadruples, concatenate
from tangokg.rank import SINGLE_STEP, Metrics, Protocol, evaluate
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import Queries, Windows, queries_at
from tangokg.train import Progress, RunConfig, RunFolder
from tangokg.train.devices import choose_device

BATCH, TIMES = 256, 16  # questions scored at once, and the most distinct times among them

Floats = NDArray[np.float64]


class Forecaster:
    """Ranks who or what completes a fact, from everything observed before the time asked for."""

    def __init__(self, model: Model, dataset: Dataset, config: RunConfig, progress: Progress | None = None) -> None:
        self.model, self.dataset, self.config = model.eval(), dataset, config
        self.progress = progress or Progress()

    def __repr__(self) -> str:
        return f"Forecaster({self.config.model!r} trained on {self.dataset!r})"

    @cached_property
    def facts(self) -> Quadruples:
        """All that is known; grows with :meth:`observe`."""
        return self.dataset.facts

    # Asking

    def forecast(
        self,
        subject: str | None = None,
        relation: str | None = None,
        object: str | None = None,
        *,
        at: When = None,
        top: int = 10,
    ) -> Forecast:
        """The ``top`` likeliest completions of a fact; the one of the three that is left out (or "?") is asked for.

        ``at`` is a date or number in the data's clock, between or beyond observed times; by default one usual gap
        after the last fact. Only facts of the steps before the one that holds it are used.
        """
        question = make_question(self.facts, subject, relation, object, at)
        return self._answer([question], top)[0]

    def forecast_table(self, queries: Any, *, at: When = None, top: int = 10) -> pa.Table:
        """Many questions in (a table or file with columns subject, relation, object, time), an Arrow table out.

        A missing column or an empty cell is what is asked for; a missing time is ``at``. The answers of row i of the
        input stand in ``top`` rows with ``query`` = i, the likeliest first.
        """
        from tangokg.forecast.tables import answers_table, read_questions

        questions = read_questions(queries, self.facts, at)
        return answers_table(self._answer(questions, top))

    def _answer(self, questions: list[Question], top: int) -> list[Forecast]:
        """Questions in batches by time; those for an entity are scored together."""
        if top < 1:
            raise DataError(f"top must be at least 1, found {top}.")
        times = np.array([question.step for question in questions])
        found: dict[int, Forecast] = {}
        self.model.eval()
        with torch.inference_mode():
            for batch in _batches(times):
                t, window = np.unique(times[batch], return_inverse=True)
                encoded = self.model.encode(self._timeline, self._windows(t))
                chances = self._chances(encoded, [questions[i] for i in batch], window)
                for i, p in zip(batch.tolist(), chances, strict=True):
                    self._check_finite(p, questions[i])
                    best = torch.topk(p, min(top, len(p)))
                    found[i] = describe(self.facts, questions[i], best.indices.tolist(), best.values.tolist())
        return [found[i] for i in range(len(questions))]

    def _check_finite(self, p: Tensor, question: Question) -> None:
        if not p.isfinite().all():
            at, last = (self.facts.clock.format(t) for t in (question.t, float(self.facts.t.max())))
            raise DataError(
                f"time {at} lies too far beyond the last fact, {last}: the model's states overflow on the way. "
                f"Ask for an earlier time."
            )

    def _windows(self, t: Floats) -> Windows:
        at = torch.from_numpy(t).to(self._device)
        return Windows(torch.searchsorted(self._timeline.t, at), at)

    def _chances(self, encoded: Any, questions: list[Question], window: Any) -> list[Tensor]:
        """Probabilities of all candidates for what each question asks."""
        count = self.facts.vocab.num_relations
        chances: list[Tensor] = [torch.empty(0)] * len(questions)
        asked = [
            (i, int(window[i]), q.o if q.s is None else q.s, q.r + (count if q.s is None else 0))  # r + R: the subject
            for i, q in enumerate(questions)
            if q.r is not None
        ]
        if asked:
            rows, *columns = (list(column) for column in zip(*asked, strict=True))
            for i, p in zip(rows, self.model.probabilities(self._scores(encoded, *columns)), strict=True):
                chances[i] = p
        for i, question in enumerate(questions):
            if question.r is None:
                chances[i] = self._relation_chances(encoded, int(window[i]), question)
        return chances

    def _relation_chances(self, encoded: Any, window: int, question: Question) -> Tensor:
        r""":math:`p(r | s, o) \propto p(o | s, r) \, p(r | s)`, with p(r | s) counted in the history."""
        assert question.s is not None
        count = self.facts.vocab.num_relations
        scores = self._scores(encoded, [window] * count, [question.s] * count, list(range(count)))
        likelihood = self.model.probabilities(scores)[:, question.o]  # (R,)
        timeline = self._timeline
        known = int(timeline.offset[timeline.before(question.step)])  # edges before the step asked for, each once
        s, r = timeline.s[:known], timeline.r[:known]
        everyone = torch.bincount(r[r < count], minlength=count) + 1.0
        own = torch.bincount(r[(r < count) & (s == question.s)], minlength=count)
        prior = (own + everyone / everyone.sum()).to(likelihood)
        joint = likelihood.clamp(min=torch.finfo(likelihood.dtype).tiny) * prior
        return joint / joint.sum()

    def _scores(self, encoded: Any, window: Sequence[int], s: Sequence[int], r: Sequence[int]) -> Tensor:
        columns = (torch.tensor(column, device=self._device) for column in (window, s, r, r))
        return self.model.score(encoded, Queries(*columns))

    # New facts

    def observe(self, events: Any, **options: Any) -> int:
        """Add facts (as :func:`tangokg.read_events` takes them), new names included; returns how many were new.

        The weights stay. An entity that training never saw has a state made from its edges since.
        """
        facts = events if isinstance(events, Quadruples) else self._read(events, options)
        known = self.facts
        new = adapt(facts, known.vocab, known.clock)
        together = concatenate([known, new])
        _, first = np.unique(np.stack([together.s, together.r, together.o, together.t]), axis=1, return_index=True)
        added = new.select(np.sort(first[first >= len(known)]) - len(known))
        after = [part for part in (self.dataset.after, added) if part is not None]
        self.dataset = replace(self.dataset, after=concatenate(after)).with_vocab(new.vocab)
        for derived in ("facts", "_timeline"):
            self.__dict__.pop(derived, None)
        return len(added)

    def _read(self, events: Any, options: dict[str, Any]) -> Quadruples:
        is_table = not isinstance(events, str | Path) or Path(events).is_file()
        if is_table and self.facts.clock.origin is not None:
            options = {"unit": self.facts.clock.unit, **options}
        return read_events(events, **options)

    # Measuring

    def evaluate(self, facts: Quadruples | None = None, protocol: Protocol = SINGLE_STEP, **options: Any) -> Metrics:
        """Rank the answers of ``facts`` (default: the test part), each from what is known before its time."""
        part = self.dataset.test if facts is None else facts
        if not len(part):
            raise DataError("there are no facts to evaluate: the part is empty. Split the data with a test share.")
        new = adapt(part, self.facts.vocab, self.facts.clock)
        together = concatenate([replace(self.facts, vocab=new.vocab), new])
        timeline = build_timeline(together).to(self._device)
        asked = build_timeline(new).to(self._device)
        own = queries_at(asked, torch.arange(len(asked), device=self._device))
        only = replace(protocol, keep=lambda queries: protocol.keep(queries) & _among(queries, own))
        return evaluate(self.model, timeline, torch.searchsorted(timeline.t, asked.t), only, **options)

    @property
    def seen(self) -> Tensor:
        """(N,) bool: the entities that training saw, for the inductive protocol."""
        seen = torch.zeros(self.facts.vocab.num_entities, dtype=torch.bool)
        train = self.dataset.train
        seen[torch.from_numpy(np.concatenate([train.s, train.o]))] = True
        of_model = getattr(self.model, "seen", seen[:0]).cpu()  # a run that goes on from another saw more
        seen[: len(of_model)] |= of_model
        return seen

    # Keeping

    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Write a run folder that :func:`tangokg.load` and the command line read."""
        folder = RunFolder(Path(path)).claim(overwrite)
        folder.create(self.dataset, self.config)
        folder.save_model(self.model, self.progress)

    @cached_property
    def _timeline(self) -> Timeline:
        return build_timeline(self.facts).to(self._device)

    @property
    def _device(self) -> torch.device:
        tensors = [*self.model.parameters(), *self.model.buffers()]
        return tensors[0].device if tensors else torch.device("cpu")


def _batches(times: Floats) -> Iterator[NDArray[np.int64]]:
    """Positions in order of time, at most ``BATCH`` questions and ``TIMES`` distinct times together."""
    order = np.argsort(times, kind="stable")
    fresh = np.diff(times[order], prepend=-np.inf) > 0
    group = (np.cumsum(fresh) - 1) // TIMES  # of times
    for some in np.split(order, np.flatnonzero(np.diff(group)) + 1):
        yield from (some[i : i + BATCH] for i in range(0, len(some), BATCH))


def _among(queries: Queries, own: Queries) -> Tensor:
    """(B,) bool: which of the distinct ``queries`` stand in ``own``, a subset of them."""
    if len(queries) == len(own):
        return torch.ones_like(queries.s, dtype=torch.bool)
    rows = torch.cat([torch.stack([q.window, q.s, q.r, q.answer], dim=1) for q in (queries, own)])
    _, of, count = torch.unique(rows, dim=0, return_inverse=True, return_counts=True)
    both: Tensor = count.index_select(0, of[: len(queries)]) == 2
    return both


def load(path: str | Path, device: str = "auto") -> Forecaster:
    """The forecaster of a finished run folder, on ``cpu``, ``cuda``, or ``auto``: cuda where there is one."""
    folder = RunFolder(Path(path))
    model, dataset, config = folder.load()
    return Forecaster(model.to(choose_device(device)), dataset, config, folder.progress())

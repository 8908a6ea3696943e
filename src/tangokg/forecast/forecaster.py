"""A trained model with the facts it knows: answers by name, takes new facts, evaluates, saves and loads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
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
from tangokg.snapshots.windows import Queries, Windows
from tangokg.train import Progress, RunConfig, RunFolder

BATCH = 256  # questions scored at once


class Forecaster:
    """Ranks who or what completes a fact, from everything observed before the time asked for."""

    def __init__(self, model: Model, dataset: Dataset, config: RunConfig, progress: Progress | None = None) -> None:
        self.model, self.dataset, self.config = model.eval(), dataset, config
        self.progress = progress or Progress()

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
        after the last fact. Only facts before it are used.
        """
        if top < 1:
            raise DataError(f"top must be at least 1, found {top}.")
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
        times = np.array([question.t for question in questions])
        found: dict[int, Forecast] = {}
        self.model.eval()
        with torch.inference_mode():
            for batch in np.array_split(np.argsort(times, kind="stable"), -(-len(questions) // BATCH)):
                t, window = np.unique(times[batch], return_inverse=True)
                encoded = self.model.encode(self._timeline, self._windows(t))
                chances = self._chances(encoded, [questions[i] for i in batch], window)
                for i, p in zip(batch.tolist(), chances, strict=True):
                    best = torch.topk(p, min(top, len(p)))
                    found[i] = describe(self.facts, questions[i], best.indices.tolist(), best.values.tolist())
        return [found[i] for i in range(len(questions))]

    def _windows(self, t: np.ndarray[Any, np.dtype[np.float64]]) -> Windows:
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
        past = self.facts.t < question.t
        everyone = np.bincount(self.facts.r[past], minlength=count) + 1.0
        own = np.bincount(self.facts.r[past & (self.facts.s == question.s)], minlength=count)
        prior = torch.from_numpy(own + everyone / everyone.sum()).to(likelihood)
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
        times = torch.from_numpy(np.unique(new.t).astype(np.float64)).to(self._device)
        target = torch.searchsorted(timeline.t, times)
        return evaluate(self.model, timeline, target, protocol, **options)

    @property
    def seen(self) -> Tensor:
        """(N,) bool: the entities of the training part, for the inductive protocol."""
        seen = torch.zeros(self.facts.vocab.num_entities, dtype=torch.bool)
        past = self.dataset.past
        seen[torch.from_numpy(np.concatenate([past.s, past.o]))] = True
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


def load(path: str | Path) -> Forecaster:
    """The forecaster of a finished run folder."""
    model, dataset, config = RunFolder(Path(path)).load()
    return Forecaster(model, dataset, config)

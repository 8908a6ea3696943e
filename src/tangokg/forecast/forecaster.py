"""A trained model with the facts it knows: answers by name, takes new facts, evaluates, saves and loads."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from tangokg.errors import DataError, RunError, check_least, check_options, check_types, checked
from tangokg.forecast.answering import Answering
from tangokg.forecast.answers import Forecast
from tangokg.forecast.calibrating import Calibrations, ask_recent, calibrate
from tangokg.forecast.chances import FILE, Chances, fit_chances, save_chances
from tangokg.forecast.exporting import export_states
from tangokg.forecast.horizon import measured_times, warn_far, warn_gaps, warn_trained
from tangokg.forecast.known import Known
from tangokg.forecast.questions import Question, When, make_question
from tangokg.forecast.why import explain, number_of_answers
from tangokg.history.hazard import Hazard
from tangokg.history.hazard_queries import RECENT
from tangokg.history.index import build_index
from tangokg.models import Model
from tangokg.quads import read_events
from tangokg.quads.adapt import adapt
from tangokg.quads.addresses import is_address
from tangokg.quads.values import Dataset, Ids, Quadruples, concatenate
from tangokg.rank import SINGLE_STEP, Metrics, Protocol, evaluate, named, read_candidates
from tangokg.rank.protocols import restricted
from tangokg.showing import html_text
from tangokg.snapshots.timeline import Timeline, build_timeline
from tangokg.snapshots.windows import queries_at
from tangokg.train import Progress, RunConfig, RunFolder
from tangokg.train.devices import device_of
from tangokg.train.exposure import Exposure, everything
from tangokg.train.replacing import owning_run, removing_failed, replacing


class Forecaster:
    """Ranks who or what completes a fact, from everything observed before the time asked for."""

    def __init__(
        self,
        model: Model,
        dataset: Dataset,
        config: RunConfig,
        progress: Progress | None = None,
        exposure: Exposure | None = None,
        chances: Chances | None = None,
    ) -> None:
        self.model, self.config = model.eval(), config
        self._dataset, self._observed = dataset, list[Quadruples]()
        self.progress = progress or Progress()
        self.exposure = exposure or Exposure.of(dataset)
        self.path: Path | None = None  # of its run folder, where it was loaded from one
        if chances is not None:
            self.__dict__["chances"] = chances

    def __repr__(self) -> str:
        return f"Forecaster({self.config.model!r} trained on {self.dataset!r})"

    def _repr_html_(self) -> str:
        return f"<p>Forecaster: {html_text(self.config.model)}</p>{self.dataset._repr_html_()}"

    @property
    def dataset(self) -> Dataset:
        """The parts of the data, and what was observed later; put together when it is looked at."""
        if self._observed:
            self._dataset, self._observed = self._dataset.grow(self._observed), []
        return self._dataset

    @property
    def as_made(self) -> Forecaster:
        """The same forecaster without the facts that it observed."""
        if self.dataset.own is None:
            return self
        chances = self.__dict__.get("chances")
        return Forecaster(self.model, self.dataset.made_with, self.config, self.progress, self.exposure, chances)

    @cached_property
    def facts(self) -> Quadruples:
        """All that is known; grows with :meth:`observe`."""
        return self.dataset.facts

    @cached_property
    def chances(self) -> Chances:
        """What turns the model's shares into chances; fitted on first use if the run has none."""
        if self.exposure.refit:
            raise RunError(
                f"this run was trained on everything (--refit), and its chances ({FILE}) are lost or of another "
                f"version: they cannot be fitted on facts that the weights have learned. Restore it, or train again."
            )
        return fit_chances(self.model, self.dataset, self._device)

    @property
    def hazard(self) -> Hazard:
        """The chance that (s, r) has a fact at all, from what happened before."""
        return self.chances.hazard

    # Asking

    @checked
    def forecast(
        self,
        subject: str | None = None,
        relation: str | None = None,
        object: str | None = None,
        *,
        at: When = None,
        by: When = None,
        top: int = 10,
        why: bool | int = False,
    ) -> Forecast:
        """Answer a question about a fact: what is left out (or "?") is asked for.

        One left out: the ``top`` likeliest names for it. None: whether the fact happens. Two or three: the likeliest
        events of those active lately, a subject given alone in either role.

        ``at`` is a date or number in the data's clock, between or beyond observed times; by default one usual gap
        after the last fact. Only facts of the steps before the one that holds it are used. ``by`` asks for at least one
        time from the last fact until then.

        ``why`` gives the first answers ``reasons``, the earlier facts that raised them: True for three, or how many.
        """
        question = make_question(self._known.index, subject, relation, object, at, by)
        return self._explain([question], self._answer([question], top), why)[0]

    @checked
    def forecast_table(
        self,
        queries: Any,
        *,
        at: When = None,
        by: When = None,
        top: int = 10,
        skip_bad: bool = False,
        why: bool | int = False,
    ) -> pa.Table:
        """Many questions in (a table or file with columns subject, relation, object, time), an Arrow table out.

        A missing column or an empty cell is what is asked for; a missing time is ``at``, or with ``by`` all questions
        are until then. The answers of row i of the input stand in ``top`` rows with ``query`` = i, the best first.
        Rows that cannot be asked, such as those with an unknown name, are an error, or left out with ``skip_bad``.
        ``why`` adds a column ``reasons``, JSON texts, filled for the first answers of each question.
        """
        from tangokg.forecast.tables import answers_table, read_questions

        questions = read_questions(queries, self._known.index, at, by, skip_bad)
        batch = list(questions.values())
        return answers_table(self._explain(batch, self._answer(batch, top), why), list(questions))

    def _answer(self, questions: list[Question], top: int) -> list[Forecast]:
        warn_far(self._measured, self._known.index, [question.t for question in questions], self.path)
        warn_gaps(self._known.index, [question.step for question in questions if not question.span])
        return Answering(self.model, self._known, self.chances).answer(questions, top)

    def _explain(self, questions: list[Question], forecasts: list[Forecast], why: bool | int) -> list[Forecast]:
        if not (number := number_of_answers(why)):
            return forecasts
        facts, timeline, pairs = self.facts, self._known.whole(), zip(questions, forecasts, strict=True)
        return [explain(self.model, facts, timeline, q, forecast, number) for q, forecast in pairs]

    @cached_property
    def _known(self) -> Known:
        return Known(self.model, build_index(self.facts))

    @cached_property
    def _timeline(self) -> Timeline:
        """All that is known as snapshots, on the device of the model."""
        return build_timeline(self.facts).to(self._device)

    @cached_property
    def _measured(self) -> Ids:
        return measured_times(self.dataset)

    # New facts

    @checked
    def observe(self, events: Any, **options: Any) -> int:
        """Add facts (as :func:`tangokg.read_events` takes them), new names included; returns how many were new.

        The weights stay. An entity that training never saw has a state made from its edges since.
        """
        facts = events if isinstance(events, Quadruples) else self._read(events, options)
        known = self._known.index
        new = adapt(facts, known.vocab, known.clock)
        index, rows = known.add(new)
        if len(rows):
            self._observed.append(new.select(rows))
            self._known = Known(self.model, index)
            for grown in ("facts", "_timeline"):
                self.__dict__.pop(grown, None)
        return len(rows)

    def _read(self, events: Any, options: dict[str, Any]) -> Quadruples:
        is_table = not isinstance(events, str | Path) or is_address(events) or Path(events).is_file()
        clock = self._dataset.clock
        if is_table and clock.origin is not None:
            options = {"unit": clock.unit, "timezone": clock.timezone, **options}
        check_options("observe", read_events, options)
        facts = read_events(events, **options)
        if is_table and clock.origin is None and facts.clock.origin is not None:
            with suppress(DataError):  # numbers that look like dates are numbers here; dates are refused by adapt()
                return read_events(events, **options | {"unit": "step"})
        return facts

    def _as_facts(self, facts: Any) -> Quadruples:
        if isinstance(facts, Dataset):
            return facts.test
        if isinstance(facts, str) and facts in self.dataset.parts and not Path(facts).exists():
            return self.dataset.parts[facts]
        return facts if isinstance(facts, Quadruples) else self._read(facts, {})

    # Measuring

    def _to_measure(self, facts: Any) -> tuple[Quadruples, Timeline]:
        """The facts to evaluate (default: the test part) in the ids here, and the timeline of all true facts."""
        part = self.dataset.test if facts is None else self._as_facts(facts)
        if not len(part):
            raise DataError("there are no facts to evaluate: the part is empty. Split the data with a test share.")
        if any(part is known for known in self.dataset.parts.values()):
            self.exposure.check(part)
            return part, self._timeline
        new = adapt(part, self.facts.vocab, self.facts.clock)
        self.exposure.check(new)
        combined = concatenate([replace(self.facts, vocab=new.vocab), new])
        return new, build_timeline(combined).to(self._device)

    @checked
    def evaluate(self, facts: Any = None, protocol: Protocol | str = SINGLE_STEP, **options: Any) -> Metrics:
        """Rank the answers of ``facts`` (default: the test part), each from what is known before its time.

        ``facts`` may be facts, a table or file of them, the name of a part ("valid"), or a data set: its test part.
        ``protocol`` "tgb" adds the ranks of that benchmark; ``candidates`` may be a Parquet file of lists.
        """
        protocol, lists = named(protocol) if isinstance(protocol, str) else protocol, options.get("candidates")
        if lists is not None and not callable(lists):
            options["candidates"] = read_candidates(lists, self.facts.vocab, self.facts.clock)
        check_options("evaluate", evaluate, options, " A horizon is a protocol: protocol=tangokg.rank.horizon(3).")
        check_types("evaluate", evaluate, options)
        check_least("evaluate", 1, cells=options.get("cells"), windows_at_once=options.get("windows_at_once"))
        new, timeline = self._to_measure(facts)
        warn_trained(self.dataset, new)
        measured = build_timeline(new).to(self._device)
        only = restricted(queries_at(measured, torch.arange(len(measured), device=self._device)), protocol)
        metrics = evaluate(self.model, timeline, torch.searchsorted(timeline.t, measured.t), only, **options)
        return replace(metrics, relations=new.vocab.relations, not_comparable=self.exposure.seen)

    @checked
    def calibration(self, facts: Any = None, recent: float = RECENT, horizon: float = 0.0) -> Calibrations:
        """How far chances and shares can be trusted: what was said for the times of ``facts`` (default: the test part).

        Asked are all pairs (s, r) with a fact in the last ``recent`` usual gaps, whether they have one now or not. Of
        ``pair`` (they have any fact), ``fact`` (each of the best objects), ``share`` (the same where they have any) and
        ``raw`` (the share before it is calibrated).
        """
        check_least("calibration", 0, above=True, recent=recent)
        check_least("calibration", 0, horizon=horizon)
        new, on_device = self._to_measure(facts)
        timeline = on_device.to(torch.device("cpu"))
        target = torch.searchsorted(timeline.t, torch.from_numpy(np.unique(new.t)).double())
        queries = ask_recent(timeline, self.chances, target, recent, horizon)
        return calibrate(self.model, self.chances, on_device, timeline, queries)

    @property
    def seen(self) -> Tensor:
        """(N,) bool: the entities that training saw, for the inductive protocol."""
        train = (everything(self.dataset) if self.exposure.refit else self.dataset).train
        seen = torch.from_numpy(train.named[0])
        of_model = getattr(self.model, "seen", seen[:0]).cpu()  # a run that continues another saw more
        seen[: len(of_model)] |= of_model
        return seen

    # Keeping

    @checked
    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Write a run folder that :func:`tangokg.load` and the command line read."""
        chances = self.chances
        with owning_run(path), replacing(path, overwrite):
            folder = RunFolder(Path(path)).claim(overwrite)
            folder.create(self.dataset, self.config)
            with removing_failed(folder.path):
                save_chances(folder.path, chances)
                folder.save_model(self.model, self.progress, self.exposure)

    @checked
    def push_to_hub(
        self, name: str, *, private: bool = True, facts: bool = False, license: str = "", revision: str = "main"
    ) -> str:
        """Share the run as the repository ``owner/name`` of Hugging Face, with a model card; returns its address.

        The facts stay here unless ``facts`` says otherwise. An existing repository keeps its visibility.
        """
        from tangokg.forecast.sharing import push

        return push(self, name, private, facts, license, revision)

    export_states = checked(export_states)

    @property
    def _device(self) -> torch.device:
        return device_of(self.model)

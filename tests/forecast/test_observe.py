"""New facts without training: history grows, names grow, weights and what was answered before stay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from conftest import N, R, dated, make_dataset, make_forecaster
from tangokg.errors import DataError, RunError
from tangokg.forecast import Forecaster, load
from tangokg.forecast.shares import best_shares
from tangokg.models import MODELS
from tangokg.models.counters import COUNTERS
from tangokg.quads.clock import Clock
from tangokg.quads.values import Quadruples
from tangokg.quads.vocabulary import Vocabulary
from tangokg.snapshots.timeline import build_timeline

EVERY = pytest.mark.parametrize("name", MODELS)
LAST = int(make_dataset(1).facts.t.max())

Row = tuple[str, str, str, Any]


def named(rows: list[Row], clock: Clock | None = None) -> Quadruples:
    """Facts with a vocabulary of their own, whose ids are not those of the small data."""
    entities = tuple(sorted({name for s, _, o, _ in rows for name in (s, o)}, reverse=True))
    relations = tuple(sorted({r for _, r, _, _ in rows}, reverse=True))
    s, r, o = (np.array([row[i] for row in rows]) for i in range(3))
    s, o = (np.array([entities.index(x) for x in column], np.int64) for column in (s, o))
    ids = np.array([relations.index(x) for x in r], np.int64)
    return Quadruples(
        s, ids, o, np.array([row[3] for row in rows]), Vocabulary(entities, relations), clock or Clock("step")
    )


def by_name(facts: Quadruples) -> list[Row]:
    e, r = facts.vocab.entities, facts.vocab.relations
    return sorted(
        (e[s], r[p], e[o], facts.clock.format(t)) for s, p, o, t in zip(facts.s, facts.r, facts.o, facts.t, strict=True)
    )


NEW: list[Row] = [
    ("e0", "greets", "nobody", LAST + 2),
    ("nobody", "r1", "e3", LAST + 2),
    ("nobody", "r1", "somebody", LAST + 3),
]


def probabilities(forecaster: Forecaster, subject: str, relation: str, at: float) -> dict[str, float]:
    """What the model gives to each object."""
    facts, step = forecaster.facts, float(np.floor(at))
    timeline = build_timeline(facts)
    pair = facts.vocab.entity_id(subject) * 2 * facts.vocab.num_relations + facts.vocab.relation_id(relation)
    known, t = torch.tensor([timeline.before(step)]), torch.tensor([step], dtype=torch.float64)
    best = best_shares(forecaster.model, timeline, torch.tensor([pair]), known, t, facts.vocab.num_entities)
    order = [answer.name for answer in forecaster.forecast(subject, relation, at=at, top=10**6).answers]
    found = {facts.vocab.entities[o]: p for o, p in zip(best.o[0].tolist(), best.share[0].tolist(), strict=True)}
    assert [found[name] for name in order] == sorted(found.values(), reverse=True), "answers stand in this order"
    return found


@EVERY
def test_new_facts_and_names_are_known_and_weights_stay(name: str) -> None:
    forecaster = make_forecaster(name)
    weights = {key: tensor.clone() for key, tensor in forecaster.model.state_dict().items()}
    before = by_name(forecaster.facts)
    assert forecaster.observe(named(NEW)) == len(NEW)
    assert by_name(forecaster.facts) == sorted([*before, *((*row[:3], str(row[3])) for row in NEW)])
    vocab = forecaster.facts.vocab
    assert vocab.entities[:N] == make_dataset(1).vocab.entities, "old ids stay"
    assert (vocab.num_entities, vocab.num_relations) == (N + 2, R + 1)
    assert forecaster.model.state_dict().keys() == weights.keys()
    assert all(torch.equal(tensor, weights[key]) for key, tensor in forecaster.model.state_dict().items())


@EVERY
def test_answers_from_before_the_new_facts_stay(name: str) -> None:
    """Among the old names; the new ones take their share of the whole."""
    forecaster = make_forecaster(name)
    asked = [(s, r, t) for s in ("e0", "e3", "e7") for r in ("r1", "r2") for t in (LAST, LAST + 0.5, LAST + 2)]
    old = [probabilities(forecaster, *question) for question in asked]
    forecaster.observe(named(NEW))
    for question, expected in zip(asked, old, strict=True):
        found = probabilities(forecaster, *question)
        assert set(found) == {*expected, "nobody", "somebody"}
        rest = sum(found[key] for key in expected)
        assert {key: found[key] / rest for key in expected} == pytest.approx(expected, rel=1e-6, abs=1e-12)


@EVERY
def test_a_new_entity_can_be_asked_about_and_be_an_answer(name: str) -> None:
    forecaster = make_forecaster(name)
    with pytest.raises(DataError, match="unknown entity 'nobody'"):
        forecaster.forecast("nobody", "r1")
    forecaster.observe(named(NEW))
    found = forecaster.forecast("nobody", "r1", top=N + 2)
    assert {answer.name for answer in found.answers} == set(forecaster.facts.vocab.entities)
    assert all(0 <= answer.chance <= answer.share <= 1 for answer in found.answers)
    seen = {answer.name: (answer.seen, answer.last) for answer in found.answers if answer.seen}
    assert seen == {"e3": (1, str(LAST + 2)), "somebody": (1, str(LAST + 3))}
    backwards = forecaster.forecast(relation="greets", object="nobody", top=N + 2)
    assert {answer.name: answer.seen for answer in backwards.answers if answer.seen} == {"e0": 1}
    relation = forecaster.forecast("e0", object="nobody", top=R + 1)
    assert {answer.name: answer.seen for answer in relation.answers} == {"greets": 1, "r0": 0, "r1": 0, "r2": 0}


@pytest.mark.parametrize("name", ["cygnet", "recurrency", *COUNTERS])
def test_what_was_observed_is_what_models_that_remember_answer(name: str) -> None:
    forecaster = make_forecaster(name)
    forecaster.observe(named(NEW[:2]))
    assert forecaster.forecast("e0", "greets", top=1).answers[0].name == "nobody"
    assert forecaster.forecast("nobody", "r1", top=1).answers[0].name == "e3"


def test_the_state_of_a_newcomer_is_made_from_its_edges() -> None:
    forecaster, other = make_forecaster("tango-tucker"), make_forecaster("tango-tucker")
    forecaster.observe(named([("x", "r0", "e1", LAST + 1), ("e2", "r1", "y", LAST + 1)]))
    other.observe(named([("x", "r2", "e1", LAST + 1), ("e2", "r1", "y", LAST + 1)]))
    p, q = (probabilities(f, "x", "r1", LAST + 2) for f in (forecaster, other))
    assert p != pytest.approx(q, rel=1e-3)


def test_facts_already_known_are_not_added_again() -> None:
    forecaster = make_forecaster()
    known = forecaster.facts
    assert forecaster.observe(known) == 0
    assert len(forecaster.facts) == len(known)
    assert forecaster.observe(named([NEW[0], NEW[0], NEW[1]])) == 2
    assert forecaster.observe(named(NEW)) == 1
    assert forecaster.observe(known.select(slice(0))) == 0
    assert len(forecaster.facts) == len(known) + 3
    assert forecaster.dataset.after is not None
    assert len(forecaster.dataset.after) == 3
    assert len(forecaster.dataset.train) == len(make_dataset(1).train)


def test_a_late_report_of_an_early_fact_counts_from_its_own_time_on() -> None:
    forecaster = make_forecaster("frequency")
    t = int(np.unique(forecaster.facts.t)[4])
    forecaster.observe(named([("e0", "greets", "e5", t)]))
    assert forecaster.forecast("e0", "greets", at=t + 1).answers[0].seen == 1
    for at in (t, t + 0.5, t + 0.999):
        assert all(answer.seen == 0 for answer in forecaster.forecast("e0", "greets", at=at).answers)


@EVERY
def test_observed_facts_and_answers_come_back_from_disk(name: str, tmp_path: Path) -> None:
    forecaster = make_forecaster(name)
    forecaster.observe(named(NEW))
    forecaster.save(tmp_path / "run")
    loaded = load(tmp_path / "run")
    assert by_name(loaded.facts) == by_name(forecaster.facts)
    for part, facts in forecaster.dataset.parts.items():
        assert by_name(loaded.dataset.parts[part]) == by_name(facts), part
    assert loaded.config == forecaster.config
    for question in ({"subject": "nobody", "relation": "r1"}, {"relation": "greets", "object": "nobody"}):
        assert loaded.forecast(**question, top=99) == forecaster.forecast(**question, top=99)  # type: ignore[arg-type]
    assert loaded.forecast("e0", object="nobody") == forecaster.forecast("e0", object="nobody")
    assert loaded.evaluate().to_dict() == forecaster.evaluate().to_dict()
    assert loaded.observe(named([("e1", "meets", "another", LAST + 9)])) == 1
    loaded.save(tmp_path / "again")
    assert load(tmp_path / "again").forecast("another", "meets", top=3) == loaded.forecast("another", "meets", top=3)


def test_saving_over_something_needs_to_be_asked_for(tmp_path: Path) -> None:
    forecaster = make_forecaster("frequency")
    forecaster.save(tmp_path / "run")
    with pytest.raises(RunError, match="exists"):
        forecaster.save(tmp_path / "run")
    forecaster.observe(named(NEW))
    forecaster.save(tmp_path / "run", overwrite=True)
    assert len(load(tmp_path / "run").facts) == len(forecaster.facts)


def test_observed_facts_at_the_times_of_the_test_part_are_not_ranked_with_it() -> None:
    forecaster = make_forecaster()
    queries = forecaster.evaluate().queries
    forecaster.observe(named([("e0", "greets", "nobody", LAST)]))
    assert forecaster.evaluate().queries == queries


COLUMNS = {"subject": ["e0", "nobody"], "relation": ["r1", "r1"], "object": ["nobody", "e2"]}


def as_csv(columns: dict[str, list[Any]], folder: Path) -> Path:
    pd.DataFrame(columns).to_csv(folder / "new.csv", index=False)
    return folder / "new.csv"


SOURCES: dict[str, Callable[[dict[str, list[Any]], Path], Any]] = {
    "pandas": lambda columns, _: pd.DataFrame(columns),
    "polars": lambda columns, _: pl.DataFrame(columns),
    "arrow": lambda columns, _: pa.table(columns),
    "duckdb": lambda columns, _: duckdb.sql("select * from given", connection=_connection(columns)),
    "csv": as_csv,
    "csv by name": lambda columns, folder: str(as_csv(columns, folder)),
}


def _connection(columns: dict[str, list[Any]]) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.register("given", pa.table(columns))
    return connection


@pytest.mark.parametrize("kind", SOURCES)
def test_any_table_is_taken_whatever_its_first_date(kind: str, tmp_path: Path) -> None:
    """The small data count days from 2024-01-01; the table's own clock would begin in March."""
    forecaster = make_forecaster("frequency", dated(make_dataset(1)))
    events = SOURCES[kind](COLUMNS | {"date": ["2024-03-05", "2024-03-02"]}, tmp_path)
    assert forecaster.observe(events) == 2
    assert forecaster.dataset.after is not None
    assert by_name(forecaster.dataset.after) == [
        ("e0", "r1", "nobody", "2024-03-05"),
        ("nobody", "r1", "e2", "2024-03-02"),
    ]
    assert sorted(forecaster.dataset.after.t.tolist()) == [61, 64]


def test_tables_are_read_in_the_unit_of_the_history() -> None:
    forecaster = make_forecaster("frequency", dated(make_dataset(1), "hour"))
    assert forecaster.observe(pd.DataFrame(COLUMNS | {"time": ["2024-01-03T05:40", "2024-01-02T00:00"]})) == 2
    assert forecaster.dataset.after is not None
    assert sorted(forecaster.dataset.after.t.tolist()) == [24, 53]
    months = make_forecaster("frequency", dated(make_dataset(1), "month"))
    assert months.observe(pd.DataFrame(COLUMNS | {"time": ["2027-02-14", "2027-02"]})) == 2
    assert months.dataset.after is not None
    assert months.dataset.after.t.tolist() == [37, 37]


def test_columns_can_be_named() -> None:
    forecaster = make_forecaster("frequency")
    table = pd.DataFrame({"who": ["e0"], "did": ["r1"], "whom": ["e3"], "when": [LAST + 1]})
    roles = {"subject": "who", "relation": "did", "object": "whom", "time": "when"}
    assert forecaster.observe(table, columns=roles) == 1


def test_a_folder_is_taken_with_its_own_clock(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("0 0 1 24\n")
    (tmp_path / "test.txt").write_text("1 0 0 48\n")
    (tmp_path / "entity2id.txt").write_text("nobody\t0\ne3\t1\n")
    (tmp_path / "relation2id.txt").write_text("r2\t0\n")
    (tmp_path / "clock.toml").write_text('unit = "day"\norigin = "2024-05-01"\nstep = 24\n')
    forecaster = make_forecaster("frequency", dated(make_dataset(1)))
    for source in (tmp_path, str(tmp_path)):
        assert forecaster.observe(source) == (2 if source is tmp_path else 0)
    assert forecaster.dataset.after is not None
    assert by_name(forecaster.dataset.after) == [
        ("e3", "r2", "nobody", "2024-05-03"),
        ("nobody", "r2", "e3", "2024-05-02"),
    ]


def test_numbers_do_not_pass_for_dates_nor_dates_for_numbers() -> None:
    plain, calendar = make_forecaster("frequency"), make_forecaster("frequency", dated(make_dataset(1)))
    with pytest.raises(DataError, match="the new facts are dated by dates, those already here by numbers"):
        plain.observe(pd.DataFrame(COLUMNS | {"time": ["2024-03-05", "2024-03-02"]}))
    with pytest.raises(DataError, match="plain numbers, such as 64, which a unit of days does not make dates"):
        calendar.observe(pd.DataFrame(COLUMNS | {"time": [64, 61]}))
    for forecaster in (plain, calendar):
        assert len(forecaster.facts) == len(make_dataset(1).facts)
        assert forecaster.facts.vocab == make_dataset(1).vocab, "a refused table leaves nothing behind"


def test_after_a_warm_question_new_facts_are_seen() -> None:
    """What was derived from the old facts is not used any more."""
    forecaster = make_forecaster("copy-last")
    forecaster.forecast("e0", "r0")
    forecaster.observe(named([("e0", "r0", "e9", LAST + 1)]))
    assert forecaster.forecast("e0", "r0", top=1).answers[0].name == "e9"
    assert forecaster.forecast("e0", "r0", top=1).at == str(
        int(LAST + 1 + np.median(np.diff(np.unique(forecaster.facts.t))))
    )


def test_the_dataset_given_is_not_changed() -> None:
    data = make_dataset(1)
    forecaster = make_forecaster("frequency", data)
    forecaster.observe(named(NEW))
    assert data.after is None
    assert data.vocab == make_dataset(1).vocab

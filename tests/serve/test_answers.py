"""Answers over HTTP are those of the library, and what-if questions leave no trace."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from tangokg.forecast import Forecaster, fit, load
from tangokg.quads.world import make_world
from tangokg.serve import responses

API = "/api/v1"


@pytest.fixture(scope="module")
def library(made: Path) -> Forecaster:
    return load(made, "cpu")


def ask(client: TestClient, **question: Any) -> dict[str, Any]:
    reply = client.post(f"{API}/forecast", json=question)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


@pytest.fixture(scope="module")
def example(reader: TestClient) -> dict[str, Any]:
    found: dict[str, Any] = reader.get(f"{API}/model").json()["example"]
    return found


def names_of(library: Forecaster) -> tuple[str, str, str]:
    facts = library.facts
    s, r, o = facts.s[-1], facts.r[-1], facts.o[-1]
    return facts.vocab.entities[s], facts.vocab.relations[r], facts.vocab.entities[o]


@pytest.mark.parametrize("asked", ["object", "subject", "relation", "fact"])
@pytest.mark.parametrize("when", ["default", "at", "by"])
def test_a_forecast_is_that_of_the_library(reader: TestClient, library: Forecaster, asked: str, when: str) -> None:
    question: dict[str, Any] = dict(zip(("subject", "relation", "object"), names_of(library), strict=True))
    question |= {asked: None} if asked != "fact" else {}
    question |= {when: library.dataset.clock.format(float(library.facts.t.max() + 3))} if when != "default" else {}
    expected = library.forecast(*(question[k] for k in ("subject", "relation", "object")), top=7, **_when(question))
    found = ask(reader, **question, top=7)
    assert found["question"]["asked"] == asked
    assert found["any"] == pytest.approx(expected.happens)
    assert [one["name"] for one in found["answers"]] == [one.name for one in expected.answers]
    for one, own in zip(found["answers"], expected.answers, strict=True):
        assert (one["share"], one["chance"]) == pytest.approx((own.share, own.chance), abs=1e-6)
        assert one["seen"] == {"count": own.seen, "last": own.last}


def _when(question: dict[str, Any]) -> dict[str, Any]:
    return {key: question[key] for key in ("at", "by") if key in question}


def test_the_base_rate_is_the_share_of_known_times_with_the_fact(reader: TestClient, library: Forecaster) -> None:
    s, r, _ = names_of(library)
    facts, vocab = library.facts, library.facts.vocab
    for one in ask(reader, subject=s, relation=r)["answers"]:
        mine = (facts.s == vocab.entity_id(s)) & (facts.r == vocab.relation_id(r))
        mine &= facts.o == vocab.entity_id(one["name"])
        assert one["base"] == pytest.approx(len(np.unique(facts.t[mine])) / len(np.unique(facts.t)))


def test_questions_asked_at_once_are_answered_as_alone(reader: TestClient, library: Forecaster) -> None:
    vocab, last = library.facts.vocab, float(library.facts.t.max())
    questions = [
        {"subject": vocab.entities[i], "relation": vocab.relations[i % 3], "top": 1 + i % 4}
        | {"by" if i % 5 == 0 else "at": library.dataset.clock.format(last + 1 + i % 3)}
        for i in range(20)
    ]
    questions.append({"subject": vocab.entities[0], "relation": vocab.relations[0], "object": vocab.entities[1]})
    alone = [ask(reader, **question) for question in questions]
    reply = reader.post(f"{API}/forecasts", json={"questions": questions})
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda question: ask(reader, **question), questions))
    for batch in (reply.json()["forecasts"], together):
        for one, own in zip(batch, alone, strict=True):
            assert [a["name"] for a in one["answers"]] == [a["name"] for a in own["answers"]]
            assert [a["chance"] for a in one["answers"]] == pytest.approx(
                [a["chance"] for a in own["answers"]], abs=1e-6
            )


def test_one_bad_question_does_not_disturb_those_beside_it(reader: TestClient, example: dict[str, Any]) -> None:
    good = {key: example[key] for key in ("subject", "relation")}
    bad = [good | {"at": "1999-01-01"}, good | {"at": "9000-01-01"}, {"subject": good["subject"]}]
    with ThreadPoolExecutor(8) as pool:
        codes = list(pool.map(lambda q: reader.post(f"{API}/forecast", json=q).status_code, [good, *bad] * 5))
    assert codes == [200, 400, 400, 400] * 5


def test_reasons_cite_known_facts_and_the_strongest_first(reader: TestClient, library: Forecaster) -> None:
    s, r, _ = names_of(library)
    found = ask(reader, subject=s, relation=r, top=5, why=True)["answers"]
    assert ["why" in one for one in found] == [True] * 3 + [False] * 2
    cited = [reason for one in found[:3] for reason in one["why"]]
    assert cited
    for reason in cited:
        span = {"entity": reason["subject"], "since": reason["at"], "until": reason["at"], "limit": 1000}
        facts = reader.get(f"{API}/facts", params=span).json()["facts"]
        assert {key: reason[key] for key in ("subject", "relation", "object", "at")} in facts
    shares = [[reason["share"] for reason in one["why"]] for one in found[:3]]
    assert all(own == sorted(own, reverse=True) for own in shares)


def test_supposed_facts_change_the_answer_and_leave_no_trace(reader: TestClient, example: dict[str, Any]) -> None:
    question = {key: example[key] for key in ("subject", "relation")}
    before = ask(reader, **question)
    model = reader.get(f"{API}/model").json()
    fact = question | {"object": "Nobody Yet", "at": model["now"]}
    supposed = ask(reader, **question, suppose=[fact], top=1000)
    assert "Nobody Yet" in [one["name"] for one in supposed["answers"]]
    assert supposed["answers"] != before["answers"]
    assert ask(reader, subject="Nobody Yet", relation=question["relation"], suppose=[fact])["answers"]
    after = ask(reader, **question)
    assert after == before
    assert reader.get(f"{API}/model").json() == model
    assert reader.post(f"{API}/forecast", json=question | {"subject": "Nobody Yet"}).status_code == 404
    assert not [
        n for n in reader.get(f"{API}/names", params={"q": "Nobody"}).json()["names"] if n["name"] == "Nobody Yet"
    ]


@pytest.mark.parametrize("known_object", [True, False])
def test_a_curve_joins_single_forecasts(reader: TestClient, library: Forecaster, known_object: bool) -> None:
    s, r, o = names_of(library)
    last = float(library.facts.t.max())
    since, until = (library.dataset.clock.format(t) for t in (last - 5, last + 6))
    body = {"subject": s, "relation": r, "since": since, "until": until, "points": 12}
    reply = reader.post(f"{API}/curve", json=body | ({"object": o} if known_object else {}))
    points = reply.json()["points"]
    assert len(points) == 12
    for point in points:
        own = ask(reader, subject=s, relation=r, object=o, at=point["at"])
        expected = own["answers"][0]["chance"] if known_object else own["any"]
        assert point["chance"] == pytest.approx(expected, abs=1e-6)
    if known_object:  # as beside the answer, although the curve begins before the last fact
        assert reply.json()["base"] == pytest.approx(own["answers"][0]["base"])


def test_likely_events_are_those_of_the_library(reader: TestClient, library: Forecaster) -> None:
    expected = library.forecast(top=5).answers
    for _ in range(2):  # the second time from memory
        events = reader.get(f"{API}/likely", params={"top": 5}).json()["events"]
        assert [(e["subject"], e["relation"], e["object"]) for e in events] == [
            (e.subject, e.relation, e.object) for e in expected
        ]


def test_facts_are_found_by_entity_pair_relation_and_span(reader: TestClient, library: Forecaster) -> None:
    facts, clock = library.facts, library.dataset.clock
    s, r, o = names_of(library)
    names, relations = facts.vocab.entities, facts.vocab.relations
    rows = {
        (names[a], relations[b], names[c], clock.format(float(t)))
        for a, b, c, t in zip(facts.s, facts.r, facts.o, facts.t, strict=True)
    }
    middle = clock.format(float(np.median(facts.t)))
    choices: list[dict[str, Any]] = [
        {},
        {"entity": s},
        {"entity": s, "other": o},
        {"other": o},
        {"relation": r},
        {"entity": s, "relation": r, "since": middle},
        {"until": middle},
    ]
    for chosen in choices:
        reply = reader.get(f"{API}/facts", params=chosen | {"limit": 1000}).json()
        expected = {
            row
            for row in rows
            if chosen.get("entity", row[0]) in (row[0], row[2])
            and chosen.get("other", row[2]) in (row[0], row[2])
            and chosen.get("relation", row[1]) == row[1]
            and chosen.get("since", row[3]) <= row[3] <= chosen.get("until", row[3])
        }
        found = [tuple(one.values()) for one in reply["facts"]]
        assert set(found) == expected
        assert len(found) == reply["total"] == len(expected)
        assert all(a[3] >= b[3] for a, b in pairwise(found))


def test_neighbours_are_those_with_most_facts(reader: TestClient, library: Forecaster) -> None:
    s = reader.get(f"{API}/names", params={"kind": "entity", "limit": 1}).json()["names"][0]["name"]
    found = reader.get(f"{API}/neighbourhood", params={"entity": s, "limit": 3}).json()["neighbours"]
    assert len(found) == 3
    assert [one["facts"] for one in found] == sorted((one["facts"] for one in found), reverse=True)
    for one in found:
        pair = reader.get(f"{API}/facts", params={"entity": s, "other": one["name"]}).json()
        assert pair["total"] == one["facts"]
        assert pair["facts"][0]["at"] == one["last"]
        assert {fact["relation"] for fact in pair["facts"]} == set(one["relations"])
        assert not (one["formed"] and one["dissolved"])


def test_names_come_by_beginning_then_inside_then_nearest(reader: TestClient, library: Forecaster) -> None:
    def find(q: str, **more: Any) -> list[str]:
        names = reader.get(f"{API}/names", params={"q": q, **more}).json()["names"]
        return [one["name"] for one in names]

    entity = max(library.facts.vocab.entities, key=len)
    word = entity.split()[-1]
    assert entity in find(word[:4].upper(), limit=200)
    assert entity in find(entity[1:])
    assert find(entity[:-2] + "xx")[0] == entity
    assert find("", kind="relation", limit=200)
    assert set(find("", kind="relation", limit=200)) == set(library.facts.vocab.relations)
    for odd in ('"', "'", "* OR", "\0", "a\0b", "NEAR(", "%", "_", "🦆", " "):
        assert reader.get(f"{API}/names", params={"q": odd}).status_code == 200


def test_an_unknown_name_is_told_with_the_nearest(reader: TestClient, example: dict[str, Any]) -> None:
    name = example["subject"]
    reply = reader.post(f"{API}/forecast", json={"subject": name + "x", "relation": example["relation"]})
    assert reply.status_code == 404
    assert repr(name) in reply.json()["error"]["hint"]


def test_the_card_says_what_the_run_is(reader: TestClient, library: Forecaster) -> None:
    card = reader.get(f"{API}/model").json()
    assert card["model"] == "tango"
    assert card["data"]["facts"] == len(library.facts)
    assert card["metrics"]["test"].keys() == {"mrr", "hits@1", "hits@3", "hits@10"}
    assert card["trusted_until"] > card["now"]
    assert (
        ask(reader, subject=card["example"]["subject"], relation=card["example"]["relation"])["question"]["at"]
        == (card["example"]["at"])
    )
    assert card["next"] == card["example"]["at"]
    assert reader.get(f"{API}/health").json()["status"] == "ok"


def test_a_run_that_nothing_was_kept_to_measure_is_trusted_nowhere(tmp_path: Path, open_client: Any) -> None:
    world = make_world(0, num_actors=30, num_newcomers=2, num_days=60).dataset
    fit(world.train.split(train=1.0, valid=0.0), "frequency", verbose=False, out=tmp_path / "run", device="cpu")
    client = open_client(tmp_path / "run")
    card = client.get(f"{API}/model").json()
    assert card["trusted_until"] is None
    curve = client.post(f"{API}/curve", json={key: card["example"][key] for key in ("subject", "relation")}).json()
    assert curve["points"]
    assert curve["trusted_until"] is None
    responses.Model.model_validate(card)


def test_far_questions_warn_without_a_path(reader: TestClient, made: Path, example: dict[str, Any]) -> None:
    found = ask(reader, subject=example["subject"], relation=example["relation"], at="2026-01-01")
    assert found["warnings"]
    assert str(made) not in str(found)

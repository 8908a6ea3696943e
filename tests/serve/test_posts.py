"""New facts: taken whole or not at all, on disk before they are answered, once each, and scored by what was known."""

from __future__ import annotations

import asyncio
import json
import math
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fastapi.testclient import TestClient

from serve_runs import forecasts
from tangokg.forecast import load
from tangokg.quads.values import Quadruples, concatenate
from tangokg.rank import SINGLE_STEP
from tangokg.serve import asking, schemas, scoring
from tangokg.serve import state as serve_state
from tangokg.serve.checking import make_facts
from tangokg.serve.compacting import FILE, compact
from tangokg.serve.hub import Hub
from tangokg.serve.state import State

API = "/api/v1"
Fact = dict[str, Any]
Open = Any  # the fixture open_client


def next_days(run: Path, days: int = 3, each: int = 6) -> list[list[Fact]]:
    """Facts of the days after the last one: some that came before, some new, one with a new name."""
    forecaster = load(run, "cpu")
    facts, clock = forecaster.facts, forecaster.dataset.clock
    rng, last = np.random.default_rng(0), int(facts.t.max())
    names, relations = facts.vocab.entities, facts.vocab.relations
    found = []
    for day in range(1, days + 1):
        at = clock.format(float(last + 2 * day))
        rows = rng.integers(len(facts), size=each)
        rows = rows[np.unique(np.stack([facts.s, facts.r, facts.o])[:, rows], axis=1, return_index=True)[1]]
        own = [(names[facts.s[i]], relations[facts.r[i]], names[facts.o[i]]) for i in rows]
        own += [(names[0], relations[day % 3], names[day]), (f"Newcomer {day}", relations[0], names[day])]
        found.append([dict(zip(("subject", "relation", "object"), one, strict=True)) | {"at": at} for one in own])
    return found


def post(client: TestClient, facts: list[Fact], key: str | None = None) -> dict[str, Any]:
    reply = client.post(f"{API}/facts", json={"facts": facts}, headers={"Idempotency-Key": key} if key else {})
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def table(facts: list[Fact]) -> pa.Table:
    """As the library takes them."""
    return pa.Table.from_pylist(facts).rename_columns(["subject", "relation", "object", "time"])


def state_of(client: TestClient) -> tuple[Any, ...]:
    paths = ("model", "record", "surprises", "facts", "names")
    return tuple(client.get(f"{API}/{path}").json() for path in paths)


def test_posted_facts_are_known_at_once_and_counted(client: TestClient, run: Path) -> None:
    before = client.get(f"{API}/model").json()
    for number, facts in enumerate(next_days(run), 1):
        answer = post(client, facts)
        assert (answer["position"], answer["added"], answer["known"]) == (number, len(facts), 0)
        stored = client.get(f"{API}/facts", params={"since": facts[0]["at"], "until": facts[0]["at"]}).json()["facts"]
        assert sorted(map(str, stored)) == sorted(map(str, facts))
        assert client.get(f"{API}/model").json()["now"] == facts[0]["at"]
        found = client.get(f"{API}/names", params={"q": f"Newcomer {number}"}).json()["names"][0]
        assert found == {"name": f"Newcomer {number}", "kind": "entity", "facts": 1}
        question = {"subject": found["name"], "relation": facts[0]["relation"]}
        assert client.post(f"{API}/forecast", json=question).json()["position"] == number
    again = post(client, facts)
    assert (again["added"], again["known"]) == (0, len(facts))
    added = client.get(f"{API}/model").json()["data"]["facts"] - before["data"]["facts"]
    assert added == sum(map(len, next_days(run)))


def test_forecasts_after_posts_are_those_of_the_library(client: TestClient, run: Path) -> None:
    forecaster = load(run, "cpu")
    for facts in next_days(run):
        post(client, facts)
        forecaster.observe(table(facts))
    for entity in ("Newcomer 1", forecaster.facts.vocab.entities[0]):
        relation = forecaster.facts.vocab.relations[0]
        expected = forecaster.forecast(entity, relation).answers
        found = client.post(f"{API}/forecast", json={"subject": entity, "relation": relation}).json()["answers"]
        assert [one["name"] for one in found] == [one.name for one in expected]
        assert [one["chance"] for one in found] == pytest.approx([one.chance for one in expected], abs=1e-6)


def test_a_key_gives_the_same_answer_again_and_takes_nothing_twice(client: TestClient, run: Path) -> None:
    first, second, _ = next_days(run)
    answer = post(client, first, "one")
    after = state_of(client)
    assert post(client, first, "one") == answer
    reply = client.post(f"{API}/facts", json={"facts": second}, headers={"Idempotency-Key": "one"})
    assert reply.status_code == 409
    assert state_of(client) == after
    assert post(client, second, "two")["position"] == 2


def test_many_posts_with_one_key_at_once_are_one(client: TestClient, run: Path) -> None:
    facts = next_days(run)[0]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: post(client, facts, "one"), range(16)))
    assert answers == [answers[0]] * 16
    assert client.get(f"{API}/health").json()["position"] == 1


@pytest.mark.parametrize("compacted", [False, True, "between"])
def test_a_restart_equals_a_service_that_never_stopped(run: Path, open_client: Open, compacted: bool | str) -> None:
    days = next_days(run)
    stopped = open_client(run)
    post(stopped, days[0], "one")
    stopped.__exit__(None, None, None)
    if compacted == "between":
        assert compact(run, run / FILE) == 1
    again = open_client(run)
    post(again, days[1])
    answer = post(again, days[2])
    never = state_of(again), forecasts(again)
    again.__exit__(None, None, None)
    if compacted:
        assert compact(run, run / FILE) == 3
        assert compact(run, run / FILE) == 3
    restarted = open_client(run)
    assert (state_of(restarted), forecasts(restarted)) == never
    assert post(restarted, days[0], "one")["position"] == 1
    assert post(restarted, days[2])["position"] == answer["position"] + 1
    assert sqlite3.connect(run / FILE).execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_compacted_run_knows_the_facts_without_its_journal(client: TestClient, run: Path) -> None:
    for facts in next_days(run):
        post(client, facts)
    card = client.get(f"{API}/model").json()
    client.__exit__(None, None, None)
    compact(run, run / FILE)
    for file in run.glob(f"{FILE}*"):
        file.unlink()
    forecaster = load(run, "cpu")
    assert "Newcomer 3" in forecaster.facts.vocab.entities
    assert len(forecaster.facts) == card["data"]["facts"]
    assert forecaster.facts.clock.format(float(forecaster.facts.t.max())) == card["now"]


@pytest.mark.parametrize(
    "bad",
    [
        {"at": "1999-01-01"},
        {"at": "2999-01-01"},
        {"at": "soon"},
        {"at": 10**300},
        {"at": 1e300},
        {"at": -5},
        {"subject": "tab\tbed"},
        {"subject": "escape \x1b[31m"},
        {"subject": "nul \0"},
    ],
)
def test_one_bad_fact_refuses_the_whole_post(client: TestClient, run: Path, bad: Fact) -> None:
    before = state_of(client)
    facts = next_days(run)[0]
    reply = client.post(f"{API}/facts", json={"facts": [*facts, facts[0] | bad]})
    assert reply.status_code == 400
    assert f"fact {len(facts) + 1}" in reply.json()["error"]["message"]
    assert state_of(client) == before


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"facts": []},
        {"facts": [{"subject": "a", "relation": "b", "object": "c"}]},
        {"facts": [{"subject": "", "relation": "b", "object": "c", "at": 1}]},
        {"facts": [{"subject": "a", "relation": "b", "object": "c", "at": True}]},
        {"facts": [{"subject": "a", "relation": "b", "object": "c", "at": 1, "more": 2}]},
        {"facts": [{"subject": "a" * 501, "relation": "b", "object": "c", "at": 1}]},
        {"facts": [{"subject": "a", "relation": "b", "object": "c", "at": "1" * 41}]},
    ],
)
def test_a_body_of_another_form_is_refused(client: TestClient, body: Any) -> None:
    assert client.post(f"{API}/facts", json=body).status_code == 422
    assert client.get(f"{API}/health").json()["position"] == 0


def test_a_body_that_is_no_json_is_told_where_it_breaks(client: TestClient) -> None:
    reply = client.post(f"{API}/forecast", content='{"subject": ', headers={"Content-Type": "application/json"})
    assert reply.status_code == 422
    assert "JSON" in reply.json()["error"]["message"]
    assert "12" in reply.json()["error"]["message"]


def test_late_facts_are_taken_up_to_the_bound(run: Path, open_client: Open) -> None:
    client = open_client(run, late=5)
    forecaster = load(run, "cpu")
    last, tell = float(forecaster.facts.t.max()), forecaster.dataset.clock.format
    names = forecaster.facts.vocab.entities
    fact = {"subject": names[0], "relation": "late for", "object": names[1]}
    assert post(client, [fact | {"at": tell(last - 5)}])["added"] == 1
    assert post(client, [fact | {"at": tell(last)}])["added"] == 1
    reply = client.post(f"{API}/facts", json={"facts": [fact | {"at": tell(last - 6)}]})
    assert reply.status_code == 400
    assert "5 days" in reply.json()["error"]["message"]
    forecaster.observe(table([fact | {"at": tell(last - 5)}, fact | {"at": tell(last)}]))
    expected = forecaster.forecast(names[0], "late for").answers
    found = client.post(f"{API}/forecast", json={"subject": names[0], "relation": "late for"}).json()["answers"]
    assert [one["chance"] for one in found] == pytest.approx([one.chance for one in expected], abs=1e-6)


def test_the_track_record_is_the_single_step_evaluation_of_what_was_posted(client: TestClient, run: Path) -> None:
    """A whole day a post: each is scored by all that was known before, as the evaluator does it."""
    forecaster = load(run, "cpu")
    names, relations = forecaster.facts.vocab.entities, forecaster.facts.vocab.relations
    days = [[fact for fact in day if not fact["subject"].startswith("New")] for day in next_days(run)]
    reciprocal, chances = [], {}
    for day in days:
        for fact in day:
            own = forecaster.forecast(fact["subject"], fact["relation"], fact["object"], at=fact["at"])
            chances[fact["subject"], fact["object"], fact["at"]] = own.answers[0].chance
        metrics = forecaster.evaluate(table(day), SINGLE_STEP)
        reciprocal += [metrics["time-aware"].mrr] * metrics.queries
        forecaster.observe(table(day))
        post(client, day)
    record = client.get(f"{API}/record").json()
    assert record["batches"] == len(days)
    assert record["questions"] == len(reciprocal) == 2 * sum(map(len, days))
    assert record["mrr"] == pytest.approx(np.mean(reciprocal), abs=1e-4)
    assert sum(one["count"] for one in record["over_time"]) == record["questions"]
    assert [one["at"] for one in record["over_time"]] == [day[0]["at"] for day in days]
    assert all(0 <= one["said"] <= 1 and 0 <= one["happened"] <= 1 for one in record["reliability"])
    surprises = client.get(f"{API}/surprises", params={"limit": 100}).json()["surprises"]
    assert len(surprises) == sum(map(len, days))
    assert [one["chance"] for one in surprises] == sorted(one["chance"] for one in surprises)
    for one in surprises:
        assert one["chance"] == pytest.approx(chances[one["subject"], one["object"], one["at"]], abs=1e-6)
        assert one["relation"] in relations
        assert one["object"] in names


def test_a_day_in_several_posts_is_scored_as_it_began(run: Path, open_client: Open) -> None:
    """Ranks and chances of a day do not depend on how its facts are cut into posts, before and after a restart."""
    days = next_days(run)
    client = open_client(run)
    post(client, days[0])
    for fact in days[1][:3]:
        post(client, [fact])
    client.__exit__(None, None, None)
    client = open_client(run)
    for fact in days[1][3:]:
        post(client, [fact])
    forecaster = load(run, "cpu")
    forecaster.observe(table(days[0]))
    own = {
        (fact["subject"], fact["object"]): forecaster.forecast(
            fact["subject"], fact["relation"], fact["object"], at=fact["at"]
        )
        for fact in days[1]
        if not fact["subject"].startswith("New")
    }
    found = client.get(f"{API}/surprises", params={"limit": 100}).json()["surprises"]
    found = [one for one in found if one["at"] == days[1][0]["at"]]
    assert len(found) == len(own)
    for one in found:
        assert one["chance"] == pytest.approx(own[one["subject"], one["object"]].answers[0].chance, abs=1e-6)


def test_new_names_are_scored_once_they_are_known(client: TestClient, run: Path) -> None:
    first, second, _ = next_days(run)
    assert not [one for one in post(client, first)["surprise"] if one["subject"] == "Newcomer 1"]
    again = first[-1] | {"at": second[0]["at"]}
    assert [one["subject"] for one in post(client, [again])["surprise"]] == ["Newcomer 1"]


def test_an_answer_lists_the_names_that_are_new(client: TestClient, run: Path) -> None:
    first = next_days(run)[0]
    assert post(client, first)["new_names"] == ["Newcomer 1"]
    slip = first[0] | {"object": first[0]["object"] + "x", "relation": first[0]["relation"] + "x"}
    assert post(client, [slip], "once")["new_names"] == [slip["object"], slip["relation"]]
    assert post(client, [slip], "once")["new_names"] == [slip["object"], slip["relation"]]
    assert post(client, [slip])["new_names"] == []


def test_a_question_waits_for_a_position(run: Path, open_client: Open) -> None:
    facts = next_days(run)[0]
    question = {"subject": facts[0]["subject"], "relation": facts[0]["relation"], "min_position": 1}
    hasty = open_client(run, wait=0.1)
    assert hasty.post(f"{API}/forecast", json=question).status_code == 409
    hasty.__exit__(None, None, None)
    client = open_client(run, wait=120.0)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.post, f"{API}/forecast", json=question)
        post(client, facts)
        assert waiting.result().json()["position"] == 1


def test_every_answer_names_its_position(client: TestClient, run: Path) -> None:
    facts = next_days(run)[0]
    example = {key: facts[0][key] for key in ("subject", "relation")}
    near = {"entity": facts[0]["subject"]}
    for position in (0, 1):
        paths = ("health", "model", "names", "likely", "facts", "record", "surprises")
        replies = [client.get(f"{API}/{path}") for path in paths]
        replies.append(client.get(f"{API}/neighbourhood", params=near))
        replies += [client.post(f"{API}/{path}", json=example) for path in ("forecast", "curve")]
        replies.append(client.post(f"{API}/forecasts", json={"questions": [example]}))
        assert [reply.json()["position"] for reply in replies] == [position] * len(replies)
        assert position or post(client, facts)["position"] == 1


def test_a_post_costs_its_own_facts_not_all_that_were_posted(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fact is copied about log2(posts) times; joined anew with each post it would be posts / 2 times."""
    copied: list[int] = []

    def counting(parts: list[Quadruples]) -> Quadruples:
        copied.append(sum(map(len, parts)))
        return concatenate(parts)

    monkeypatch.setattr(serve_state, "concatenate", counting)
    state = State.of(load(run, "cpu"))
    vocab, last = state.index.vocab, int(state.index.t[-1])
    posts = 128
    posted = [(f"Newcomer {i // 4}", vocab.relations[0], vocab.entities[i % 7], last + 1 + i) for i in range(posts)]
    for position, (s, r, o, t) in enumerate(posted, 1):
        fact = schemas.Fact(subject=s, relation=r, object=o, at=state.clock.format(float(t)))
        state, new = state.with_facts(make_facts(state, [fact]), position)
        assert len(new) == 1
    assert sum(copied) <= posts * (math.log2(posts) + 1)
    facts, names = state.forecaster.facts, state.index.vocab.entities
    known = [
        (names[s], vocab.relations[r], names[o], t)
        for s, r, o, t in zip(facts.s, facts.r, facts.o, facts.t, strict=True)
    ]
    assert known[-posts:] == posted


def test_a_post_that_cannot_be_written_is_not_taken(client: TestClient, run: Path) -> None:
    facts = next_days(run)[0]
    before = state_of(client)
    with sqlite3.connect(run / FILE, isolation_level=None) as other:
        other.execute("ALTER TABLE posts RENAME TO away")
        assert client.post(f"{API}/facts", json={"facts": facts}).status_code == 503
        other.execute("ALTER TABLE away RENAME TO posts")
    assert state_of(client) == before
    assert post(client, facts)["position"] == 1


def test_listeners_hear_of_posts(run: Path) -> None:
    async def listen() -> list[str]:
        hub = Hub()
        hub.open()
        stream = hub.listen()
        found = [await anext(stream)]
        hub.publish([{"type": "facts", "position": 1, "added": 2}])
        found.append(await anext(stream))
        hub.close()
        found += [text async for text in stream]
        assert hub.listeners == 0
        return found

    first, event = asyncio.run(listen())
    assert first.startswith(":")
    assert json.loads(event.removeprefix("data: ")) == {"type": "facts", "position": 1, "added": 2}


def test_metrics_tell_of_batches_position_and_surprise(client: TestClient, run: Path) -> None:
    facts = next_days(run)[0]
    post(client, facts)
    client.post(f"{API}/forecast", json={"subject": facts[0]["subject"], "relation": facts[0]["relation"]})
    lines = dict(line.rsplit(" ", 1) for line in client.get("/metrics").text.splitlines() if line[0] != "#")
    assert float(lines["tangokg_journal_position"]) == 1
    assert float(lines["tangokg_facts_added_total"]) == len(facts)
    assert float(lines["tangokg_surprise_rank_count"]) == len(facts) - 1  # one name was new
    assert float(lines["tangokg_batch_size_count"]) == 1
    assert float(lines["tangokg_post_lag_seconds_count"]) == float(lines["tangokg_post_seconds_count"]) == 1
    record = client.get(f"{API}/record").json()["reliability"]
    for name in ("said", "happened"):
        expected = sum(one[name] * one["count"] for one in record)
        assert float(lines[f"tangokg_{name}_total"]) == pytest.approx(expected, abs=1e-9)
    assert any(line.startswith("http_requests_total") and "/api/v1/facts" in line for line in lines)


def test_slow_questions_hold_nobody_up(run: Path, open_client: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """While reasons are looked for, others are answered and facts are taken; too many that wait are refused."""
    client = open_client(run)
    facts = next_days(run)[0]
    begun, go, answer = Event(), Event(), asking.answer

    def slowly(state: Any, questions: Any, span: float) -> Any:
        if questions[0].why:
            begun.set()
            go.wait(120)
        return answer(state, questions, span)

    monkeypatch.setattr(asking, "answer", slowly)
    question = {"subject": facts[0]["subject"], "relation": facts[0]["relation"]}
    with ThreadPoolExecutor(1) as pool:
        reasons = pool.submit(client.post, f"{API}/forecast", json=question | {"why": True})
        assert begun.wait(120)
        assert post(client, facts)["position"] == 1
        assert client.post(f"{API}/forecast", json=question).json()["position"] == 1
        many = {"questions": [question | {"why": True}] * 40}
        assert client.post(f"{API}/forecasts", json=many).status_code == 429
        go.set()
        assert reasons.result().json()["answers"][0]["why"] is not None
    assert client.post(f"{API}/forecast", json=question | {"why": True}).json()["position"] == 1
    assert client.get(f"{API}/likely").json()["position"] == 1


def test_questions_are_answered_from_before_while_a_post_is_taken(
    client: TestClient, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that name the new position wait for it."""
    facts = next_days(run)[0]
    begun, go, score = Event(), Event(), scoring.score

    def slowly(*given: Any) -> Any:
        begun.set()
        go.wait(120)
        return score(*given)

    monkeypatch.setattr(scoring, "score", slowly)
    question = {"subject": facts[0]["subject"], "relation": facts[0]["relation"]}
    with ThreadPoolExecutor(2) as pool:
        posted = pool.submit(post, client, facts)
        assert begun.wait(120)
        assert client.post(f"{API}/forecast", json=question).json()["position"] == 0
        later = pool.submit(client.post, f"{API}/forecast", json=question | {"min_position": 1})
        go.set()
        assert later.result().json()["position"] == 1
        assert posted.result()["position"] == 1

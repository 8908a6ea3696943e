"""Whatever is sent, no address fails: requests made from the OpenAPI document, and odd ones written by hand."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.core.result import Ok

from serve_runs import make_service
from tangokg.serve import responses
from tangokg.serve.app import create_app

API = "/api/v1"
EXAMPLES = 25  # of each operation


@pytest.fixture(scope="module")
def target(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A service that may be changed, with a second run beside."""
    run = tmp_path_factory.mktemp("openapi") / "run"
    shutil.copytree(made, run)
    app = create_app(make_service(run, beside=made, rate="1000000/minute", wait=0.1))
    with TestClient(app, "http://localhost", raise_server_exceptions=False) as client:
        yield client


def test_requests_made_from_the_document_never_fail(target: TestClient) -> None:
    document = target.get(f"{API}/openapi.json").json()
    schema = schemathesis.openapi.from_dict(document)
    seen: Counter[tuple[str, int]] = Counter()
    answers = answers_of(document)
    operations = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
    assert len(operations) == sum(len(methods) for methods in document["paths"].values()) > 10
    for operation in operations:

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def send(case: Any) -> None:
            kwargs = case.as_transport_kwargs(base_url="http://localhost")
            if "data" in kwargs:
                kwargs["content"] = kwargs.pop("data")
            kwargs = {key: value for key, value in kwargs.items() if key in KEYS}
            reply = target.request(**kwargs)
            seen[case.operation.path, reply.status_code] += 1
            assert reply.status_code < 500, reply.text
            if reply.status_code >= 400:
                assert responses.Failed.model_validate(reply.json()).error.message
            else:
                answers[case.operation.path, case.operation.method.upper()].model_validate(reply.json())

        send()
    assert {path for path, _ in seen} == set(document["paths"])
    assert sum(number for (_, code), number in seen.items() if code == 200) > 50


def answers_of(document: Any) -> dict[tuple[str, str], type[responses.ResponseModel]]:
    """(path, method) -> what the document says of its answers: each address must say something."""
    found = {}
    for path, methods in document["paths"].items():
        for method, about in methods.items():
            reference = about["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
            found[path, method.upper()] = getattr(responses, reference.rpartition("/")[2])
    return found


def test_the_document_names_the_token_of_every_address(target: TestClient) -> None:
    document = target.get(f"{API}/openapi.json").json()
    bearer = {name for name, one in document["components"]["securitySchemes"].items() if one["scheme"] == "bearer"}
    for methods in document["paths"].values():
        assert all(set().union(*about["security"]) == bearer for about in methods.values())
    assert len(bearer) == 1


def test_the_document_describes_every_answer(target: TestClient) -> None:
    """Also those that need names of the run, which made-up requests seldom hold."""
    card = target.get(f"{API}/model").json()
    example = {key: card["example"][key] for key in ("subject", "relation")}
    facts = target.get(f"{API}/facts?limit=3").json()["facts"]
    assert facts
    pair = {"subject": facts[0]["subject"], "object": facts[0]["object"]}
    bodies: dict[str, list[Any]] = {
        "forecast": [example | {"why": True}, example | {"by": card["next"]}, pair, pair | example],
        "forecasts": [{"questions": [example, pair]}],
        "compare": [
            example,
            {
                "subject": "Nobody",
                "relation": example["relation"],
                "suppose": [
                    {"subject": "Nobody", "relation": example["relation"], "object": pair["object"], "at": card["now"]}
                ],
            },
        ],
        "curve": [example, example | pair],
        "facts": [{"facts": [{**facts[0], "at": card["next"]}]}],
    }
    queries = {"neighbourhood": {"entity": example["subject"]}, "facts": {"entity": example["subject"]}}
    for (path, method), model in answers_of(target.get(f"{API}/openapi.json").json()).items():
        name = path.rpartition("/")[2]
        if method == "POST":
            replies = [target.post(path, json=body) for body in bodies[name]]
        else:
            replies = [target.get(path, params=queries.get(name, {}))]
        for reply in replies:
            assert reply.status_code == 200, reply.text
            model.model_validate(reply.json())


KEYS = ("method", "url", "headers", "params", "json", "content", "cookies")


@pytest.mark.parametrize("path", ["forecast", "forecasts", "compare", "curve", "facts"])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"\xff\xfe",
        b'{"subject": "\\ud800", "relation": "\\udfff"}',
        b'{"facts": [{"subject": "\\ud800", "relation": "a", "object": "b", "at": 1}]}',
        b'{"subject": "a", "relation": "b", "at": NaN}',
        b'{"subject": "a", "relation": "b", "at": Infinity}',
        b'{"subject": "a", "relation": "b", "top": 1e999}',
        b'{"subject": "a", "relation": "b", "at": ' + b"9" * 5000 + b"}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
    ],
    ids=lambda body: body[:20],
)
def test_odd_bodies_are_the_fault_of_the_client(target: TestClient, path: str, body: bytes) -> None:
    reply = target.post(f"{API}/{path}", content=body, headers={"Content-Type": "application/json"})
    assert 400 <= reply.status_code < 500
    assert reply.json()["error"]["message"]


@pytest.mark.parametrize("at", ["NaN", 1e308, -1e308, 10**30, "0001-01-01", "9999-12-31", "99999-01-01", "T", "１２"])
def test_odd_times_are_the_fault_of_the_client(target: TestClient, at: Any) -> None:
    example = target.get(f"{API}/model").json()["example"]
    question = {"subject": example["subject"], "relation": example["relation"]}
    for body in ({"at": at}, {"by": at}):
        assert target.post(f"{API}/forecast", json=question | body).status_code == 400
    for body in ({"since": at}, {"until": at}):
        assert target.post(f"{API}/curve", json=question | body).status_code == 400
    assert target.get(f"{API}/likely", params={"at": at}).status_code in (400, 422)
    assert target.get(f"{API}/facts", params={"since": at}).status_code in (200, 400, 422)
    supposed = question | {"suppose": [question | {"object": example["subject"], "at": at}]}
    assert target.post(f"{API}/forecast", json=supposed).status_code in (200, 400)

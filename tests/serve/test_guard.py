"""Closed by default: who may ask, how much, from where, and what an answer never tells."""

from __future__ import annotations

import asyncio
import json
import platform
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tangokg.errors import ConfigError
from tangokg.serve import asking, fact_routes
from tangokg.serve.guard import known_host
from tangokg.serve.settings import READ, WRITE, ServeSettings, Tokens, read_tokens

API = "/api/v1"
TOKENS = Tokens(("reading-reading-reading",), ("writing-writing-writing",))
READER, WRITER = ({"Authorization": f"Bearer {token}"} for token in ("reading-reading-reading", TOKENS.write[0]))
WRONG: tuple[dict[str, str], ...] = (
    {"Authorization": "Bearer wrong"},
    {"Authorization": "Basic eDp5"},
    {"Authorization": "Bearer"},
    {},
)
READING = ("health", "model", "names", "likely", "facts", "record", "surprises", "openapi.json")
Open = Any  # the fixture open_client


def fact_of(client: TestClient, headers: dict[str, str]) -> dict[str, Any]:
    card = client.get(f"{API}/model", headers=headers).json()
    return {"subject": card["example"]["subject"], "relation": "met", "object": "Somebody", "at": card["next"]}


@pytest.mark.parametrize("headers", WRONG)
def test_another_address_needs_a_token_for_everything_but_the_page(
    run: Path, open_client: Open, headers: dict[str, str]
) -> None:
    client = open_client(run, host="0.0.0.0", tokens=TOKENS)
    for path in (*(f"{API}/{name}" for name in READING), f"{API}/events", "/metrics", "/else"):
        reply = client.get(path, headers=headers)
        assert reply.status_code == 401, path
        assert reply.headers["WWW-Authenticate"] == "Bearer"
    for path in ("forecast", "forecasts", "curve", "facts"):
        assert client.post(f"{API}/{path}", json={}, headers=headers).status_code == 401
    assert client.get("/page/none.js", headers=headers).status_code == 404


def test_a_reading_token_reads_and_a_writing_token_does_both(run: Path, open_client: Open) -> None:
    client = open_client(run, host="0.0.0.0", tokens=TOKENS)
    fact = fact_of(client, READER)
    for headers in (READER, WRITER):
        assert all(client.get(f"{API}/{path}", headers=headers).status_code == 200 for path in READING)
        question = {
            "subject": fact["subject"],
            "relation": client.get(f"{API}/model", headers=headers).json()["example"]["relation"],
        }
        assert client.post(f"{API}/forecast", json=question, headers=headers).status_code == 200
    assert client.post(f"{API}/facts", json={"facts": [fact]}, headers=READER).status_code == 403
    assert client.post(f"{API}/facts", json={"facts": [fact]}, headers=WRITER).status_code == 200


def test_on_this_machine_a_token_protects_writing_where_one_is_set(run: Path, open_client: Open) -> None:
    client = open_client(run, tokens=TOKENS)
    assert client.get(f"{API}/model").json()["write"] is False
    assert client.get(f"{API}/model", headers=READER).json()["write"] is False
    assert client.get(f"{API}/model", headers=WRITER).json()["write"] is True
    body = {"facts": [fact_of(client, {})]}
    assert [client.post(f"{API}/facts", json=body, headers=h).status_code for h in WRONG] == [401] * len(WRONG)
    told = [client.post(f"{API}/facts", json=body, headers=h).json()["error"]["message"] for h in ({}, WRONG[0])]
    assert told[0] != told[1]  # without a token, and with one that nobody knows
    assert client.post(f"{API}/facts", json=body, headers=WRITER).status_code == 200


def test_on_this_machine_without_a_token_all_is_open(client: TestClient) -> None:
    assert client.get(f"{API}/model").json()["write"] is True
    assert client.post(f"{API}/facts", json={"facts": [fact_of(client, {})]}).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_another_address_without_a_token_does_not_start(host: str) -> None:
    with pytest.raises(ConfigError, match="a token is needed"):
        ServeSettings(host=host)
    assert ServeSettings(host=host, tokens=TOKENS)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "::1", "localhost"])
def test_addresses_of_this_machine_need_no_token(host: str) -> None:
    assert ServeSettings(host=host).private


@pytest.mark.parametrize("proxied", [{"hosts": ("kg.example.org",)}, {"proxy": "127.0.0.1"}])
def test_behind_a_proxy_everything_needs_a_token(run: Path, open_client: Open, proxied: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="a token is needed"):
        ServeSettings(**proxied)
    client = open_client(run, tokens=TOKENS, **proxied)
    assert client.get(f"{API}/model").status_code == 401
    assert client.get(f"{API}/model", headers=READER).status_code == 200


def test_tokens_come_from_file_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"# ours\nread {TOKENS.read[0]}\n\nwrite {TOKENS.write[0]}\n")
    monkeypatch.setenv(WRITE, "from-the-environment")
    found = read_tokens(file)
    assert found == Tokens(TOKENS.read, ("from-the-environment", TOKENS.write[0]))
    assert TOKENS.write[0] not in repr(found)
    monkeypatch.delenv(WRITE)
    assert not read_tokens(None)
    monkeypatch.setenv(READ, "short")
    with pytest.raises(ConfigError, match="at least 16"):
        read_tokens(None)


@pytest.mark.parametrize("line", ["admin 0123456789abcdef", "write 0123456789abcdé0123", "write a b 0123456789abcdef"])
def test_a_token_file_of_another_form_is_refused(tmp_path: Path, line: str) -> None:
    file = tmp_path / "tokens"
    file.write_text(line)
    with pytest.raises(ConfigError, match="line 1"):
        read_tokens(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_tokens(tmp_path / "none")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "localhost.evil.example", "", "[::1", "a:b:c"])
def test_an_unknown_host_name_is_refused(reader: TestClient, host: str) -> None:
    for path in ("/", f"{API}/model", "/page/app.js"):
        assert reader.get(path, headers={"Host": host}).status_code == 403


def test_known_hosts_are_addresses_localhost_and_those_given(run: Path, open_client: Open) -> None:
    client = open_client(run, hosts=("kg.example.org",), tokens=TOKENS)
    for host in (
        "localhost",
        "localhost:8765",
        "127.0.0.1:1",
        "[::1]:8765",
        "192.168.1.5",
        "kg.example.org",
        "KG.example.org:443",
    ):
        assert client.get(f"{API}/health", headers={"Host": host} | READER).status_code == 200, host
    assert not known_host("kg.example.org", ())


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:1", "https://127.0.0.1", "x", "http://[", ""]
)
def test_requests_from_other_sites_are_refused(client: TestClient, origin: str) -> None:
    fact = fact_of(client, {})
    for headers in ({"Origin": origin},):
        assert client.post(f"{API}/facts", json={"facts": [fact]}, headers=headers).status_code == 403
        assert client.get(f"{API}/model", headers=headers).status_code == 403
    assert (
        client.post(f"{API}/facts", json={"facts": [fact]}, headers={"Origin": "http://localhost"}).status_code == 200
    )


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_only_json_changes_something(client: TestClient, kind: str) -> None:
    body = json.dumps({"facts": [fact_of(client, {})]})
    reply = client.post(f"{API}/facts", content=body, headers={"Content-Type": kind})
    assert reply.status_code == 415
    assert client.get(f"{API}/health").json()["position"] == 0


def test_bodies_are_limited_whether_they_say_their_length_or_not(run: Path, open_client: Open) -> None:
    client = open_client(run, body=1000)
    json_kind = {"Content-Type": "application/json"}
    for content in (b"x" * 1001, iter([b"x" * 500] * 3)):
        reply = client.post(f"{API}/facts", content=content, headers=json_kind)
        assert reply.status_code == 413
        assert "1,000" in reply.json()["error"]["message"]


def test_rate_is_limited_for_each_address(run: Path, open_client: Open) -> None:
    client = open_client(run, rate="5/minute")
    codes = [client.get(f"{API}/health").status_code for _ in range(4)]
    codes += [client.get(f"{API}/health", headers={"Host": "evil.example"}).status_code for _ in range(3)]
    assert codes == [200] * 4 + [403] + [429] * 2  # guesses of a name or a token count too
    reply = client.get(f"{API}/health")
    assert 1 <= int(reply.headers["Retry-After"]) <= 61
    with pytest.raises(ConfigError, match="--rate"):
        ServeSettings(rate="many")


def test_requests_in_flight_are_limited(run: Path, open_client: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    client = open_client(run, in_flight=1)
    begun, go, likely = Event(), Event(), asking.likely

    def slowly(*given: Any) -> Any:
        begun.set()
        go.wait(120)
        return likely(*given)

    monkeypatch.setattr(asking, "likely", slowly)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.get, f"{API}/likely")
        assert begun.wait(120)
        reply = client.get(f"{API}/health")
        go.set()
        assert (reply.status_code, reply.headers["Retry-After"]) == (429, "1")
        assert waiting.result().status_code == 200
    assert client.get(f"{API}/health").status_code == 200


def test_a_request_is_in_flight_while_its_body_comes(run: Path, open_client: Open) -> None:
    """Else many with slow bodies would all be answered at once, however low the limit."""
    client = open_client(run, in_flight=1, wait=120.0)
    begun, go = Event(), Event()

    async def receive() -> dict[str, Any]:
        begun.set()
        await asyncio.to_thread(go.wait, 120)
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        told.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    path = f"{API}/forecast"
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "client": ("127.0.0.1", 1)}
    told: list[dict[str, Any]] = []
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: asyncio.run(client.app(scope | {"query_string": b""}, receive, send)))
        assert begun.wait(120)
        reply = client.get(f"{API}/health")
        go.set()
        waiting.result(120)
    assert reply.status_code == 429
    assert told[0]["status"] == 400
    assert client.get(f"{API}/health").status_code == 200


def test_listeners_are_limited(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fact_routes, "LISTENERS", 0)
    reply = client.get(f"{API}/events")
    assert reply.status_code == 429
    assert int(reply.headers["Retry-After"]) > 0


def test_every_answer_forbids_foreign_scripts_and_frames(
    run: Path, open_client: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = open_client(run)
    monkeypatch.setattr(asking, "answer", lambda *_: 1 / 0)
    replies = [reader.get(path) for path in ("/", f"{API}/model", "/page/none", "/else", "/page/plotly.min.js")]
    replies += [reader.get("/", headers={"Host": "evil.example"}), reader.post(f"{API}/forecast", json=[])]
    replies += [reader.post(f"{API}/model", json={}), reader.post(f"{API}/forecast", content=b"x")]
    example = reader.get(f"{API}/model").json()["example"]
    failed = reader.post(f"{API}/forecast", json={key: example[key] for key in ("subject", "relation")})
    assert {one.status_code for one in replies} == {200, 404, 403, 422, 405, 415}
    assert failed.status_code == 500
    assert failed.headers["Cache-Control"] == "no-store"
    for reply in [*replies, failed]:
        policy = dict(part.strip().split(" ", 1) for part in reply.headers["Content-Security-Policy"].split(";"))
        assert policy["script-src"] == "'self'"
        assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
        assert not re.search(r"https?:|\*|unsafe-eval", str(policy))
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert not any("allow-origin" in name for name in reply.headers)


def test_an_unexpected_failure_tells_nothing(
    run: Path, open_client: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = open_client(run)
    fact = fact_of(client, {})

    def fail(*_: Any) -> None:
        raise RuntimeError(f"secret of {run} at {platform.node()}")

    monkeypatch.setattr(asking, "answer", fail)
    reply = client.post(f"{API}/forecast", json={"subject": fact["subject"], "relation": fact["relation"]})
    assert reply.status_code in (404, 500)
    reply = client.post(f"{API}/forecast", json={"subject": fact["subject"], "object": fact["subject"]})
    assert reply.status_code == 500
    assert "secret" not in reply.text
    assert "secret" in caplog.text


def test_no_answer_names_the_folder_or_the_machine(client: TestClient, run: Path) -> None:
    replies = [client.get(f"{API}/{path}") for path in (*READING, "none", "facts?since=x", "likely?at=1")]
    replies += [client.get("/metrics"), client.get("/page/../../conftest.py"), client.post(f"{API}/facts", json=[1])]
    replies += [client.request(method, f"{API}/facts", json={}) for method in ("PUT", "DELETE", "OPTIONS", "TRACE")]
    replies += [client.post(f"{API}/facts", content=b"x" * 2**21, headers={"Content-Type": "application/json"})]
    replies += [client.post(f"{API}/facts", content=b"x"), client.get(f"{API}/facts/", follow_redirects=False)]
    assert {200, 307, 400, 404, 405, 413, 415, 422} <= {reply.status_code for reply in replies}
    for reply in replies:
        assert reply.status_code < 500
        assert reply.status_code < 400 or reply.json()["error"]["message"]
        for secret in (str(run), str(run.parent), "Traceback", 'File "', platform.node() or "tangokg-nowhere"):
            assert secret not in reply.text


@pytest.mark.parametrize(
    "path",
    [
        "../settings.py",
        "%2e%2e/settings.py",
        "..%2fsettings.py",
        "%2fetc%2fpasswd",
        "/etc/passwd",
        "a%00b",
        "%2e%2e",
        "x" * 5000,
    ],
)
def test_only_files_of_the_page_are_served(reader: TestClient, path: str) -> None:
    assert reader.get(f"/page/{path}").status_code in (404, 405)


def test_plotly_comes_compressed_and_is_cached(reader: TestClient) -> None:
    plain = reader.get("/page/plotly.min.js", headers={"Accept-Encoding": "identity"})
    packed = reader.get("/page/plotly.min.js", headers={"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert int(packed.headers["Content-Length"]) < int(plain.headers["Content-Length"]) / 2
    assert packed.content == plain.content
    again = reader.get("/page/plotly.min.js", headers={"If-None-Match": plain.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")

"""Assistants ask a service through ``tango mcp``: the package's own client over stdio, a real service behind it."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from mcp import Client, StdioServerParameters
from mcp.server.mcpserver.exceptions import ToolError

from serve_runs import make_service
from tangokg.cli import main
from tangokg.errors import ConfigError
from tangokg.serve.app import create_app
from tangokg.serve.mcp import Api, make_server
from tangokg.serve.settings import Tokens
from tangokg.serve.tokens import READ, WRITE

TOKEN = "0123456789abcdef-read"


@contextmanager
def serving(run: Path, **settings: Any) -> Iterator[str]:
    """The address of a service in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(create_app(make_service(run, **settings)), log_level="warning")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive()
                time.sleep(0.02)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def service(made: Path) -> Iterator[str]:
    with serving(made) as url:
        yield url


def test_the_tools_answer_over_stdio(service: str) -> None:
    """As an assistant starts the command: a name is looked up, asked about, and its facts and reasons are read."""
    environment = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "OMP_NUM_THREADS": "1"}
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "tangokg.cli", "mcp", f"{service}/"], env=environment
    )

    async def ask() -> None:
        async with Client(command) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(tools) == {"search_names", "forecast", "facts", "reasons"}
            assert all(tool.description and tool.annotations for tool in tools.values())

            async def call(name: str, **arguments: Any) -> Any:
                result = await client.call_tool(name, arguments)
                assert not result.is_error, result.content
                return result.structured_content

            (named,) = (await call("search_names", text="", kind="entity", limit=1))["names"]
            (found,) = (await call("facts", entity=named["name"], limit=1))["facts"]
            question = {name: found[name] for name in ("subject", "relation")}
            told = await call("forecast", **question, top=3)
            assert told["question"]["asked"] == "object"
            assert len(told["answers"]) == 3
            for one in told["answers"]:
                assert 0 <= one["chance"] <= one["share"] <= 1
                assert one["name"]
            explained = await call("reasons", **question)
            assert [one["name"] for one in explained["answers"]] == [one["name"] for one in told["answers"]]
            sentences = [sentence for one in explained["answers"] for sentence in one["reasons"]]
            assert any(found["relation"] in sentence for sentence in sentences)
            certain = await call("forecast", **found | {"at": None})
            assert certain["question"]["asked"] == "fact"
            wrong = await client.call_tool("forecast", {"subject": named["name"].upper(), "relation": "no relation"})
            assert wrong.is_error
            assert "unknown" in str(wrong.content)

    asyncio.run(ask())


def test_the_answers_are_those_of_the_service(service: str) -> None:
    api = Api(service)
    names = api.search_names("", "relation")["names"]
    assert {one["kind"] for one in names} == {"relation"}
    facts = api.facts(relation=names[0]["name"], limit=5)
    assert facts["total"] >= len(facts["facts"]) == 5
    times = [fact["at"] for fact in facts["facts"]]
    assert times == sorted(times, reverse=True)
    since = api.facts(relation=names[0]["name"], since=times[-1], limit=1)
    assert since["total"] < facts["total"]
    one = facts["facts"][0]
    by = api.forecast(subject=one["subject"], relation=one["relation"], by="2030-01-01", top=2)
    assert by["question"]["by"]
    assert by["warnings"]


def test_a_token_is_needed_where_the_service_wants_one(run: Path) -> None:
    with serving(run, tokens=Tokens(read=(TOKEN,)), hosts=("example.org",)) as url:
        with pytest.raises(ToolError, match=rf"needs a token: set {READ}"):
            Api(url).search_names("")
        assert Api(url, TOKEN).search_names("")["names"]


@pytest.fixture
def strange() -> Iterator[str]:
    """Something else that answers: with a page, an error of its own, and a way to another place."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status = {"/page": 200, "/elsewhere": 302}.get(self.path.partition("/api")[0], 500)
            self.send_response(status)
            self.send_header("Location", "http://127.0.0.1:9/")
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_what_is_no_service_is_told(strange: str) -> None:
    for path in ("page", "elsewhere", "broken"):
        with pytest.raises(ToolError, match="not a service of tangokg"):
            Api(f"{strange}/{path}", TOKEN).facts()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(ToolError, match=rf"no service answers at http://127\.0\.0\.1:{port} .*`tango serve RUN`"):
        Api(f"http://127.0.0.1:{port}").facts()


@pytest.mark.parametrize("url", ["127.0.0.1:8765", "ftp://host", "http://", "http://host?x=1", "http://[1"])
def test_an_address_of_another_form_is_refused(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", url]) == 2
    assert "is not the address of a service" in capsys.readouterr().err


def test_a_password_in_an_address_is_refused() -> None:
    with pytest.raises(ConfigError, match="an address has no password"):
        make_server("http://ann:secret@host")


def test_the_token_comes_from_the_environment_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one to read where there are both."""
    given: list[str] = []

    class Started:
        def run(self) -> None:
            pass

    def started(url: str, token: str, version: str) -> Started:
        given.append(token)
        return Started()

    monkeypatch.setattr("tangokg.serve.mcp.make_server", started)
    monkeypatch.delenv(READ, raising=False)
    monkeypatch.setenv(WRITE, "0123456789abcdef-write")
    assert main(["mcp", "http://host"]) == 0
    file = tmp_path / "tokens"
    file.write_text(f"read {TOKEN}\n")
    assert main(["mcp", "http://host", "--token-file", str(file)]) == 0
    monkeypatch.delenv(WRITE)
    assert main(["mcp", "http://host"]) == 0
    assert given == ["0123456789abcdef-write", TOKEN, ""]


def test_without_the_extra_the_command_names_it() -> None:
    block = "import sys; sys.modules['mcp'] = None; from tangokg.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", block, "mcp", "http://host"]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "tangokg[mcp]" in refused.stderr
    assert "Traceback" not in refused.stderr

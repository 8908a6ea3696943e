"""A run that is shared comes back the same, says what it holds, and keeps its facts at home unless asked."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import shutil
import sys
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

import huggingface_hub
import pytest

from cli_runs import NAMES, SMALL, printed, write_events
from tangokg.cli import main
from tangokg.errors import ConfigError, DataError, RunError, TangoError
from tangokg.forecast import Forecaster, fit, load
from tangokg.forecast.loading import FILES
from tangokg.quads import read_events
from tangokg.train import RunFolder

NAME = "ann/calls"


class Hub:
    """Repositories as folders: what takes the place of the network, with the signatures of the package."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.private: dict[str, bool] = {}

    def place(self, name: str, revision: str | None) -> Path:
        return self.folder / name / (revision or "main")

    def create_repo(self, repo_id: str, *, private: bool, exist_ok: bool) -> None:
        self.private.setdefault(repo_id, private)
        assert exist_ok
        self.place(repo_id, None).mkdir(parents=True, exist_ok=True)

    def create_branch(self, repo_id: str, *, branch: str, exist_ok: bool) -> None:
        shutil.copytree(self.place(repo_id, None), self.place(repo_id, branch), dirs_exist_ok=exist_ok)

    def upload_folder(
        self, *, repo_id: str, folder_path: Path, revision: str, commit_message: str, delete_patterns: list[str]
    ) -> None:
        place = self.place(repo_id, revision)
        for file in [file for file in place.rglob("*") if file.is_file()]:
            if any(fnmatch(str(file.relative_to(place)), pattern) for pattern in delete_patterns):
                file.unlink()
        shutil.copytree(folder_path, place, dirs_exist_ok=True)

    def snapshot_download(
        self, repo_id: str, *, revision: str | None, allow_patterns: list[str], library_name: str
    ) -> str:
        place = self.place(repo_id, revision)
        if not place.is_dir():
            raise OSError(f"404 Client Error.\n\nRepository Not Found for {repo_id}.")
        cache = self.folder / "cache" / repo_id / (revision or "main")
        shutil.rmtree(cache, ignore_errors=True)
        for file in [file for file in place.rglob("*") if file.is_file()]:
            path = file.relative_to(place)
            if any(fnmatch(str(path), pattern) for pattern in allow_patterns):
                (cache / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, cache / path)
        return str(cache)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """Calls that the package itself would not take are errors."""
    fake = Hub(tmp_path / "hub")

    def replaced(owner: Any, name: str) -> Callable[..., Any]:
        shape, method = inspect.signature(getattr(owner, name)), getattr(fake, name)
        bound = "self" in shape.parameters

        def call(*arguments: Any, **named: Any) -> Any:
            shape.bind(*arguments, **named)
            return method(*arguments[bound:], **named)

        return call

    for name in ("create_repo", "create_branch", "upload_folder"):
        monkeypatch.setattr(huggingface_hub.HfApi, name, replaced(huggingface_hub.HfApi, name))
    monkeypatch.setattr(huggingface_hub, "snapshot_download", replaced(huggingface_hub, "snapshot_download"))
    return fake


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_events(tmp_path_factory.mktemp("table") / "events.csv")


@pytest.fixture(scope="module")
def run(events: Path) -> Path:
    out = events.parent / "run"
    assert main(["-q", "train", str(events), "--model", "tango-distmult", "--out", str(out), *SMALL]) == 0
    return out


def answers(forecaster: Forecaster) -> list[Any]:
    told = [forecaster.forecast(name, "calls", top=4) for name in NAMES]
    return [[(one.name, one.share, one.chance, one.seen) for one in forecast.answers] for forecast in told]


def files_of(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


def front_matter(card: str) -> Any:
    header = re.match(r"---\n(.*?)\n---\n", card, re.DOTALL)
    assert header
    return import_module("yaml").safe_load(header[1])


def test_a_run_with_its_facts_comes_back_the_same(hub: Hub, run: Path) -> None:
    own = load(run, "cpu")
    address = own.push_to_hub(NAME, facts=True)
    assert address == f"hf://{NAME}"
    found = load(address, "cpu")
    assert answers(found) == answers(own)
    assert found.dataset.same_facts(own.dataset)
    assert found.evaluate()["time-aware"].mrr == own.evaluate()["time-aware"].mrr


def test_without_facts_they_are_given_when_it_is_loaded(hub: Hub, run: Path, events: Path) -> None:
    own = load(run, "cpu")
    own.push_to_hub(NAME)
    assert "history.parquet" not in files_of(hub.place(NAME, None))
    with pytest.raises(RunError, match=r"history\.parquet: the facts are missing.*facts=events.*save\(FOLDER\)"):
        load(f"hf://{NAME}", "cpu")
    for facts in (events, read_events(events), own.dataset):
        found = load(f"hf://{NAME}", "cpu", facts=facts)
        assert found.dataset.same_facts(own.dataset)
        assert answers(found) == answers(own)
        assert found.evaluate()["time-aware"].mrr == own.evaluate()["time-aware"].mrr


def test_facts_given_may_be_newer_and_have_new_names(hub: Hub, run: Path, events: Path, tmp_path: Path) -> None:
    """As if they had been observed."""
    load(run, "cpu").push_to_hub(NAME)
    more = tmp_path / "more.csv"
    more.write_text(events.read_text() + "Zoe,calls,Bob,2024-01-21\nBob,calls,Zoe,2024-01-03\n")
    found = load(f"hf://{NAME}", "cpu", facts=more)
    observed = load(run, "cpu")
    observed.observe(more)
    assert found.dataset.own == observed.dataset.own
    assert answers(found) == answers(observed)
    assert found.as_made.dataset.same_facts(observed.as_made.dataset)


def test_a_run_with_observed_facts_is_shared_with_them(hub: Hub, run: Path, events: Path, tmp_path: Path) -> None:
    own, more = load(run, "cpu"), tmp_path / "more.csv"
    more.write_text("subject,relation,object,date\nBob,calls,Eve,2024-01-22\nBob,calls,Fay,2024-01-02\n")
    own.observe(more)
    own.push_to_hub(NAME, facts=True)
    assert answers(load(f"hf://{NAME}", "cpu")) == answers(own)
    own.push_to_hub(NAME)
    whole = tmp_path / "whole.csv"
    whole.write_text(events.read_text() + "".join(more.read_text().splitlines(keepends=True)[1:]))
    assert answers(load(f"hf://{NAME}", "cpu", facts=whole)) == answers(own)


def test_facts_that_do_not_fit_are_refused(hub: Hub, run: Path, events: Path, tmp_path: Path) -> None:
    load(run, "cpu").push_to_hub(NAME)
    late = tmp_path / "late.csv"
    late.write_text("subject,relation,object,date\nBob,calls,Eve,2025-01-22\n")
    with pytest.raises(DataError, match=r"none of the facts given .* lies in its training part, from 2024-01-01"):
        load(f"hf://{NAME}", "cpu", facts=late)
    with pytest.raises(ConfigError, match="has its facts: load it without facts="):
        load(run, "cpu", facts=events)
    config = hub.place(NAME, None) / "config.toml"
    whole = config.read_text()
    for damage in ('valid = "x"', "valid = -999", ""):
        config.write_text(re.sub(r"^valid = \d+$", damage, whole, flags=re.MULTILINE))
        with pytest.raises(RunError, match=r"\[data\] begin is .*expected the first time"):
            load(f"hf://{NAME}", "cpu", facts=events)


def test_the_repository_holds_a_run_and_a_card_and_nothing_of_this_machine(hub: Hub, run: Path) -> None:
    started = RunFolder(run.parent / "started")
    if not started.begun:
        options: dict[str, Any] = {"start_from": run, "allow_seen": True, "verbose": False}
        fit(str(run.parent / "events.csv"), load(run).config, out=started.path, **options)
    load(started.path, "cpu").push_to_hub(NAME)
    place = hub.place(NAME, None)
    expected = {"config.toml", "weights.safetensors", "chances.safetensors", "metrics.json", "log.csv", "README.md"}
    assert files_of(place) == expected | {"vocab/entities.parquet", "vocab/relations.parquet"}
    assert not [name for name in files_of(place) if str(run.parent).encode() in (place / name).read_bytes()]
    assert str(run.parent) in (started.path / "config.toml").read_text(), "here it says what it started from"
    assert "**Not comparable**" in (place / "README.md").read_text()


def test_a_later_push_without_facts_deletes_them(hub: Hub, run: Path) -> None:
    load(run, "cpu").push_to_hub(NAME, facts=True)
    (hub.place(NAME, None) / "notes.md").write_text("the owner's own")
    load(run, "cpu").push_to_hub(NAME)
    assert "history.parquet" not in files_of(hub.place(NAME, None))
    assert "notes.md" in files_of(hub.place(NAME, None))


def test_a_repository_is_private_unless_asked_and_a_branch_may_be_named(hub: Hub, run: Path) -> None:
    own = load(run, "cpu")
    own.push_to_hub(NAME)
    own.push_to_hub("ann/open", private=False)
    assert hub.private == {NAME: True, "ann/open": False}
    assert own.push_to_hub(NAME, facts=True, revision="v2") == f"hf://{NAME}@v2"
    assert answers(load(f"hf://{NAME}@v2", "cpu")) == answers(own)
    with pytest.raises(RunError, match="the facts are missing"):
        load(f"hf://{NAME}", "cpu")


def test_the_card_has_data_figures_and_calibration(hub: Hub, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = load(run, "cpu")
    own.push_to_hub(NAME, license="mit")
    card = (hub.place(NAME, None) / "README.md").read_text()
    header = front_matter(card)
    assert (header["library_name"], header["license"]) == ("tangokg", "mit")
    assert "temporal-knowledge-graph" in header["tags"]
    shown = printed(capsys, "show", str(run))["metrics"]["test"][0]
    (result,) = header["model-index"][0]["results"]
    assert {one["type"]: one["value"] for one in result["metrics"]} == pytest.approx(shown)
    assert f"| test | {shown['mrr']:.2f} |" in card
    data = own.dataset
    assert f"| train | {len(data.train):,} | {data.clock.format(float(data.train.t.min()))} |" in card
    fact = own.calibration()["fact"]
    assert f"{fact.brier:.4f}" in card
    for one in fact.bins():
        assert f"| {one.said:.1%} | {one.happened:.1%} | {one.answers:,} |" in card
    assert "facts=" in card
    own.push_to_hub(NAME, facts=True)
    assert "facts=" not in (hub.place(NAME, None) / "README.md").read_text()


def test_a_run_from_memory_is_measured_and_a_refitted_one_keeps_its_figures(hub: Hub, events: Path) -> None:
    small: dict[str, Any] = {"dim": 4, "history": 2, "epochs": 1, "device": "cpu", "verbose": False}
    memory = fit(str(events), "tango-distmult", **small)
    memory.push_to_hub(NAME)
    header = front_matter((hub.place(NAME, None) / "README.md").read_text())
    values = {one["type"]: one["value"] for one in header["model-index"][0]["results"][0]["metrics"]}
    assert values["mrr"] == memory.evaluate()["time-aware"].mrr
    fit(str(events), "tango-distmult", out=events.parent / "refit", refit=True, **small)
    load(events.parent / "refit", "cpu").push_to_hub("ann/refit")
    card = (hub.place("ann/refit", None) / "README.md").read_text()
    assert "model-index" in front_matter(card)
    assert "calibration error" in card
    found = load("hf://ann/refit", "cpu", facts=events)
    assert answers(found) == answers(load(events.parent / "refit", "cpu"))
    fit(str(events), "tango-distmult", refit=True, **small).push_to_hub("ann/unmeasured")
    assert "model-index" not in front_matter((hub.place("ann/unmeasured", None) / "README.md").read_text())


def test_a_name_of_the_data_cannot_break_the_card(hub: Hub, events: Path) -> None:
    dataset = read_events(events).split(name="a | b\n# c: {d}")
    fit(dataset, "recurrence", verbose=False).push_to_hub(NAME)
    card = (hub.place(NAME, None) / "README.md").read_text()
    assert front_matter(card)["model-index"][0]["results"][0]["dataset"]["name"] == dataset.name
    assert "\n# c" not in card.split("---\n", 2)[2]


def test_loading_executes_nothing_of_a_repository(hub: Hub, run: Path, tmp_path: Path) -> None:
    """What a run does not have is not even downloaded."""
    load(run, "cpu").push_to_hub(NAME, facts=True)
    trap = f"open({str(tmp_path / 'sprung')!r}, 'w')"
    place = hub.place(NAME, None)
    for name in ("tangokg.py", "modeling.py", "__init__.py", "vocab/__init__.py", "setup.py"):
        (place / name).write_text(trap)
    (place / "weights.pkl").write_bytes(b"cos\nsystem\n(S'touch sprung'\ntR.")
    found = load(f"hf://{NAME}", "cpu")
    assert answers(found)
    assert found.path is not None
    kept = files_of(found.path)
    assert all(any(fnmatch(name, pattern) for pattern in FILES) for name in kept)
    assert not (tmp_path / "sprung").exists()
    assert str(found.path) not in sys.path


@pytest.mark.parametrize("name", ["calls", "ann/calls/more", "ann/ca lls", "/calls", "hf://ann/calls"])
def test_a_name_of_another_form_is_refused(run: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="expected owner/name"):
        load(run, "cpu").push_to_hub(name)
    if not name.startswith("hf://"):
        with pytest.raises(ConfigError, match="expected owner/name"):
            load(f"hf://{name}")


def test_what_the_hub_refuses_is_told(hub: Hub, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunError, match=r"hf://ann/none: cannot be downloaded: 404 Client Error\. Check the name"):
        load("hf://ann/none")

    def refuse(*arguments: Any, **named: Any) -> None:
        raise OSError("\n401 Unauthorized.\nmore")

    monkeypatch.setattr(huggingface_hub.HfApi, "create_repo", refuse)
    with pytest.raises(RunError, match=r"hf://ann/calls: cannot be uploaded: 401 Unauthorized\. Check the name"):
        load(run, "cpu").push_to_hub(NAME)


def test_the_command_pushes_a_run(hub: Hub, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["push", str(run), NAME]) == 0
    shown = capsys.readouterr()
    assert shown.out == f"hf://{NAME}\n"
    assert "facts=" in shown.err
    assert main(["push", str(run), NAME, "--facts", "--public", "--license", "mit"]) == 0
    assert "history.parquet" in files_of(hub.place(NAME, None))
    there = hub.folder.parent / "there"
    assert main(["push", str(run), "ann/other", "--to", str(there)]) == 0
    assert not hub.place("ann/other", None).exists()
    assert files_of(there) == files_of(hub.place(NAME, None)) - {"history.parquet"}
    assert main(["push", str(run), "ann/other", "--to", str(there)]) == 2
    assert main(["push", str(run), "calls"]) == 2
    assert "expected owner/name" in capsys.readouterr().err


def test_a_missing_package_names_its_extra(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for call in (lambda: load("hf://ann/calls"), lambda: load(run, "cpu").push_to_hub(NAME)):
        with pytest.raises(TangoError, match=r"needs the extra 'hub' .*pip install 'tangokg\[hub\]'"):
            call()


# The package itself, against a small endpoint on loopback


class Endpoint(BaseHTTPRequestHandler):
    """As much of the hub as a push and a load need: repositories of small files, one commit after the other."""

    commits: ClassVar[list[dict[str, bytes]]] = [{}]
    asked: ClassVar[list[str]] = []

    def answer(self, value: Any = None, content: bytes = b"", **headers: str) -> None:
        body = content if value is None else json.dumps(value).encode()
        self.send_response(200)
        for name, text in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self) -> None:
        path, files = unquote(urlsplit(self.path).path), self.commits[-1]
        self.asked.append(path)
        sha = f"{len(self.commits):040x}"
        if "/tree/" in path:
            listed = [
                {"type": "file", "path": name, "size": len(files[name]), "oid": _oid(files[name])} for name in files
            ]
            self.answer(listed)
        elif "/resolve/" in path:
            content = files[path.partition("/resolve/")[2].partition("/")[2]]
            self.answer(content=content, X_Repo_Commit=sha, ETag=f'"{_oid(content)}"')
        else:
            self.answer({"id": NAME, "sha": sha, "siblings": [{"rfilename": name} for name in files], "private": True})

    do_HEAD = do_GET  # noqa: N815

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append(self.path)
        if "/preupload/" in self.path:
            named = [one["path"] for one in json.loads(body)["files"]]
            self.answer({"files": [{"path": name, "uploadMode": "regular", "shouldIgnore": False} for name in named]})
        elif "/commit/" in self.path:
            files = dict(self.commits[-1])
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    files[line["value"]["path"]] = b64decode(line["value"]["content"])
                elif line["key"] == "deletedFile":
                    del files[line["value"]["path"]]
            self.commits.append(files)
            self.answer({"commitUrl": f"https://huggingface.co/{NAME}/commit/x", "commitOid": "x", "success": True})
        else:
            self.answer(
                {"url": f"https://huggingface.co/{NAME}", "id": NAME, "name": NAME, "errors": [], "warnings": []}
            )

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


def _oid(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@pytest.fixture
def endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Endpoint]]:
    monkeypatch.setattr(Endpoint, "commits", [{}])
    monkeypatch.setattr(Endpoint, "asked", [])
    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        constants = import_module("huggingface_hub.constants")
        place, template = f"http://127.0.0.1:{server.server_port}", "HUGGINGFACE_CO_URL_TEMPLATE"
        monkeypatch.setattr(constants, template, getattr(constants, template).replace(constants.ENDPOINT, place))
        monkeypatch.setattr(constants, "ENDPOINT", place)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("HF_TOKEN", "hf_secretword")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Endpoint
        server.shutdown()
        thread.join()


def test_the_package_pushes_and_loads_through_the_network(
    endpoint: type[Endpoint], run: Path, events: Path, tmp_path: Path
) -> None:
    own = load(run, "cpu")
    own.push_to_hub(NAME, facts=True)
    assert answers(load(f"hf://{NAME}", "cpu")) == answers(own)
    own.push_to_hub(NAME)
    assert "history.parquet" not in endpoint.commits[-1]
    endpoint.commits[-1]["modeling.py"] = b"raise SystemExit"
    found = load(f"hf://{NAME}", "cpu", facts=events)
    assert answers(found) == answers(own)
    assert not [path for path in endpoint.asked if path.endswith(".py")]
    held = [file for file in [*(tmp_path / "cache").rglob("*")] if file.is_file()]
    assert not [file for file in held if b"hf_secretword" in file.read_bytes()]
    assert not any(b"hf_secretword" in content for content in endpoint.commits[-1].values())

"""A browser, a service as `tango serve` starts it, and pages that may ask nobody else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
NARROW, WIDE = 390, 1440
PATIENCE = 120  # seconds until a test gives up waiting: a busy machine is slow, and a state that never comes is rare
TOKEN = "a-token-that-may-write"


def missing(what: str) -> None:
    """A skip with its reason; where everything must be there, a failure."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is missing, and CI is true: the tests of the page must run.")
    pytest.skip(f"{what} is not installed: the page is not tested.")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("the Python package playwright")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        missing("chromium")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def site(browser: Any, made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a service on a copy of the run; it takes new facts with a token alone."""
    folder = tmp_path_factory.mktemp("page")
    run, log = folder / "run", folder / "log"
    shutil.copytree(made, run)
    command = [sys.executable, "-m", "tangokg.cli", "serve", str(run), "--beside", str(made), "--port", "0"]
    with log.open("w") as out:
        tokens = {"TANGOKG_WRITE_TOKEN": TOKEN}
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=os.environ | tokens)
    try:
        end = time.monotonic() + PATIENCE
        while (address := re.search(r"(http://127\.0\.0\.1:\d+)/", log.read_text())) is None:  # told once it answers
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.2)
        yield address[1]
    finally:
        process.terminate()
        process.wait(PATIENCE)


Open = Callable[..., Any]


@pytest.fixture
def open_page(browser: Any, site: str) -> Iterator[Open]:
    """Opens the page at a hash; afterwards no script may have failed, and no request may have left the service."""
    contexts: list[Any] = []
    requests: list[str] = []
    errors: list[str] = []

    def start(place: str = "", width: int = WIDE, scheme: str = "light", charts: bool = False) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        context.set_default_timeout(1000 * PATIENCE)
        contexts.append(context)
        page = context.new_page()
        if not charts:  # plotly takes a second to start, for nothing where no chart is looked at
            page.route("**/plotly.min.js", lambda route: route.abort())
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda told: errors.append(told.text) if "Content Security" in told.text else None)
        page.goto(f"{site}/{place}")
        return page

    yield start
    for context in contexts:
        context.close()
    assert errors == []
    strangers = [url for url in requests if not url.startswith((site, "data:", f"blob:{site}"))]
    assert strangers == []

"""A report in a browser: opened from the disk, in both colour schemes, wide and narrow, by keyboard, on paper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tangokg as tk
from page_browser import NARROW, WIDE, missing
from page_browser import browser as browser  # a fixture
from report_pages import SCRIPT, make_nasty

SMALL: dict[str, Any] = {"dim": 4, "history": 2, "layers": 1, "epochs": 2, "device": "cpu", "verbose": False}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs side by side, with names that look like markup."""
    data = make_nasty()
    runs = [tk.fit(data, "tango-distmult", **SMALL), tk.fit(data, "frequency", verbose=False)]
    return tk.write_report(runs, tmp_path_factory.mktemp("pages") / "report.html")


@pytest.fixture(params=[(WIDE, "light"), (NARROW, "dark")], ids=str)
def page(browser: Any, file: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The report as it opens; it may ask for nothing but itself, and nothing may go wrong."""
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    opened, asked, wrong = context.new_page(), [], []
    opened.on("request", lambda one: asked.append(one.url))
    opened.on("console", lambda one: wrong.append(one.text))
    opened.on("pageerror", lambda one: wrong.append(str(one)))
    opened.goto(file.as_uri())
    yield opened
    context.close()
    assert asked == [file.as_uri()]
    assert wrong == []


def test_it_opens_by_itself_and_axe_finds_nothing(page: Any, tmp_path: Path) -> None:
    try:
        from axe_playwright_python.sync_playwright import Axe
    except ImportError:
        missing("the Python package axe-playwright-python")
    page.screenshot(path=tmp_path / "report.png", full_page=True)
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    wide = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert wide[0] <= wide[1], "the page itself does not scroll sideways"
    assert page.locator("script, iframe, img, object").count() == 0
    assert page.get_by_text(SCRIPT).count() > 0


def test_colours_follow_the_scheme(browser: Any, file: Path) -> None:
    seen = {}
    for scheme in ("light", "dark"):
        page = browser.new_page(color_scheme=scheme)
        page.goto(file.as_uri())
        seen[scheme] = page.evaluate(
            "['body', 'figure .line.s0', 'caption'].map(one => getComputedStyle(document.querySelector(one)))"
            ".map(style => [style.backgroundColor, style.color, style.stroke])"
        )
        page.close()
    assert all(light != dark for light, dark in zip(seen["light"], seen["dark"], strict=True))


def test_the_keyboard_reaches_sections_tables_and_folds(browser: Any, file: Path) -> None:
    page = browser.new_page()
    page.goto(file.as_uri())
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('href')") == "#results"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('section').id") == "results"
    fold = page.locator("summary").first
    fold.focus()
    fold.press("Enter")
    assert page.evaluate("document.querySelector('details').open")
    page.close()


def test_on_paper_all_is_open_and_dark_on_white(browser: Any, file: Path) -> None:
    page = browser.new_page(color_scheme="dark")
    page.goto(file.as_uri())
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("nav").is_hidden()
    assert page.locator("details table").first.is_visible()
    page.close()

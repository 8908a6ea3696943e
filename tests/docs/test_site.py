"""The site, as ``make docs`` makes it: whole, without a warning or a network, and every link leads somewhere."""

from __future__ import annotations

import functools
import http.server
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import pytest

from docs.test_docs import PAGES, prose, text_of
from page_browser import NARROW, WIDE, browser

__all__ = ["browser"]
ROOT = Path(__file__).parents[2]
NEEDED = ("sphinx", "myst_nb", "furo", "latex2mathml", "plotly")
ALONE = """
import socket
real = socket.getaddrinfo
def getaddrinfo(host, *arguments, **named):
    if host not in ("localhost", "127.0.0.1", "::1", None):
        raise OSError(f"the site asks {host}")
    return real(host, *arguments, **named)
socket.getaddrinfo = getaddrinfo
"""


class Page(HTMLParser):
    """What a page loads, where it leads, and where one can arrive in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.ids |= {given[key] for key in ("id", "name") if key in given}
        if tag == "a":
            self.links += [given[key] for key in ("href",) if key in given]
        elif tag in ("img", "script", "link", "iframe", "source", "video", "object"):
            self.loads += [given[key] for key in ("src", "href", "data") if key in given]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made by the command of the Makefile, in a process that can reach nobody."""
    for package in NEEDED:
        pytest.importorskip(package, reason=f"{package} is not installed: the site is not made")
    folder = tmp_path_factory.mktemp("site")
    (folder / "alone").mkdir()
    (folder / "alone" / "sitecustomize.py").write_text(ALONE)
    (line,) = re.findall(r"-m sphinx (.*)$", text_of("Makefile"), re.MULTILINE)
    words = [word.replace("build/", f"{folder}/") for word in shlex.split(line)]
    paths = [str(folder / "alone"), str(ROOT / "src")]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


def navigation(page: Page, path: Path) -> set[Path]:
    """The files of the site that a page links to."""
    links = (urlsplit(link) for link in page.links)
    return {(path.parent / unquote(link.path)).resolve() for link in links if link.path and not link.scheme}


@pytest.mark.slow
def test_every_page_is_in_the_site_and_can_be_reached_from_its_front(site: Path, pages: dict[Path, Page]) -> None:
    front = navigation(pages[site / "index.html"], site / "index.html")
    for source in [*PAGES, *sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")), ROOT / "docs" / "docstrings.rst"]:
        made = site / source.relative_to(ROOT).with_suffix(".html")
        assert made in pages
        assert made in front or source == ROOT / "README.md"


@pytest.mark.slow
def test_every_link_of_the_site_leads_somewhere(site: Path, pages: dict[Path, Page]) -> None:
    checked = 0
    for path, page in pages.items():
        for link in map(urlsplit, page.links):
            if link.scheme or link.netloc:
                continue
            target = (path.parent / unquote(link.path)).resolve() if link.path else path
            assert target.is_relative_to(site), f"{path.name}: {link.geturl()}"
            assert target.exists(), f"{path.name}: {link.geturl()}"
            if link.fragment and target in pages:
                assert unquote(link.fragment) in pages[target].ids, f"{path.name}: {link.geturl()}"
                checked += 1
    assert checked > 500


@pytest.mark.slow
def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        assert [load for load in page.loads if urlsplit(load).netloc] == [], path.name
        for load in page.loads:
            assert load.startswith("data:") or (path.parent / unquote(urlsplit(load).path)).exists(), load
    for style in site.rglob("*.css"):
        addresses = re.findall(r"(?:url\(|@import)\s*[\"']?([^\"')\s]+)", style.read_text(encoding="utf-8"))
        assert not any(urlsplit(address).netloc for address in addresses), style.name


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_formulas_are_set_and_none_is_left_as_text(page: Path, site: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", prose(page.read_text(encoding="utf-8")))
    wanted = len(re.findall(r"\$\$.+?\$\$|\$[^$]+\$", text, re.DOTALL))
    html = (site / page.relative_to(ROOT).with_suffix(".html")).read_text(encoding="utf-8")
    found = re.findall(r"<math.*?</math>", html, re.DOTALL)
    assert len(found) == wanted
    for formula in found:
        shown = "".join(ElementTree.fromstring(formula).itertext())
        assert shown
        assert "\\" not in shown or "∖" in shown, shown


@pytest.mark.slow
def test_the_docstrings_of_all_listed_modules_are_in_the_site(site: Path) -> None:
    html = (site / "docs" / "docstrings.html").read_text(encoding="utf-8")
    listed = re.findall(r"^\.\. automodule:: (\S+)$", text_of("docs/docstrings.rst"), re.MULTILINE)
    assert len(listed) > 30
    assert [name for name in listed if f'id="module-{name}"' not in html] == []


@pytest.mark.slow
def test_notebooks_stand_there_executed(site: Path) -> None:
    for path in (ROOT / "docs" / "notebooks").glob("*.ipynb"):
        html = (site / "docs" / "notebooks" / f"{path.stem}.html").read_text(encoding="utf-8")
        assert html.count('class="plotly-graph-div"') >= 1
        assert html.count("<table") >= 5
        assert len(html) < 1_000_000, "the script of plotly has a file of its own"


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The site as a server has it."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(WIDE, "light"), (NARROW, "dark")])
def test_in_a_browser_it_is_searched_drawn_and_not_wider_than_the_screen(
    width: int, scheme: str, browser: Any, address: str
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    context.set_default_timeout(60_000)
    requests: list[str] = []
    errors: list[str] = []
    page = context.new_page()
    page.on("request", lambda request: requests.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    try:
        for place in ("", "docs/maths.html", "docs/api.html", "docs/results/main.html", "docs/docstrings.html"):
            page.goto(f"{address}/{place}")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, place
        page.goto(f"{address}/docs/notebooks/own-table.html")
        page.wait_for_selector(".js-plotly-plot .main-svg")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.goto(f"{address}/search.html?q=calibration")
        page.wait_for_selector("#search-results li a[href*='docs/chances.html']")
    finally:
        context.close()
    assert errors == []
    assert [url for url in requests if not url.startswith((address, "data:", "blob:"))] == []

"""The page in a browser: what a person does there."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit
from urllib.request import Request, urlopen

import pytest

from page_browser import NARROW, PATIENCE, TOKEN, WIDE, Open, missing
from page_browser import browser as browser  # fixtures
from page_browser import open_page as open_page
from page_browser import site as site

VIEWS = (
    "ask",
    "likely",
    "entity?name={subject}",
    "what-if",
    "compare",
    "record",
    "surprises",
    "watch",
    "post",
    "model",
)


def _read(site: str, path: str) -> Any:
    with urlopen(f"{site}/api/v1{path}") as answer:
        return json.load(answer)


def _field(page: Any, name: str) -> Any:
    return page.get_by_role("combobox", name=name, exact=True)


def _answers_of(page: Any) -> Any:
    return page.locator("answer-list .pick")


def _asked(page: Any) -> dict[str, str]:
    """The question that the link of the page carries."""
    return {key: value[0] for key, value in parse_qs(urlsplit(page.url).fragment.partition("?")[2]).items()}


def _body(response: Any) -> Any:
    return response.request.post_data_json


def _settled(page: Any) -> None:
    """Until the answers are those of the question in the form."""
    page.wait_for_selector("answer-list .pick")
    page.wait_for_selector(".result:not([aria-busy])")


def test_the_page_starts_on_the_example_of_the_run(open_page: Open, site: str) -> None:
    page = open_page(charts=True)
    _settled(page)
    example = _read(site, "/model")["example"]
    assert _field(page, "Subject").input_value() == example["subject"]
    assert _field(page, "Relation").input_value() == example["relation"]
    assert _answers_of(page).count() == 10
    page.wait_for_selector("chance-curve .main-svg")
    page.wait_for_selector("pair-timeline svg .tick-asked", state="attached")
    page.wait_for_selector("near-graph a", state="attached")
    reference = page.get_by_role("link", name="REST interface").get_attribute("href")
    assert "/api/v1/forecast" in json.load(urlopen(f"{site}{reference}"))["paths"]


def test_a_person_types_a_name_chooses_it_by_keyboard_and_gets_answers(open_page: Open, site: str) -> None:
    from playwright.sync_api import expect

    names = [one["name"] for one in _read(site, "/names?q=port&kind=entity&limit=8")["names"]]
    page = open_page()
    _settled(page)
    subject = _field(page, "Subject")
    subject.click()
    subject.press_sequentially("port")
    listed = page.locator("[role=option] > span:first-child")
    expect(listed).to_have_text(names, timeout=1000 * PATIENCE)  # no longer those for fewer letters
    subject.press("ArrowDown")
    subject.press("ArrowDown")
    chosen = page.locator(f"#{subject.get_attribute('aria-activedescendant')}")
    assert chosen.get_attribute("aria-selected") == "true"
    assert chosen.locator("span").first.inner_text() == names[1]
    with page.expect_response("**/forecast"):
        subject.press("Enter")
    assert subject.input_value() == names[1]
    assert subject.get_attribute("aria-expanded") == "false"
    page.get_by_role("heading", name=names[1]).wait_for()
    assert _asked(page)["subject"] == names[1]


def test_the_slider_moves_the_time_and_asks_again(open_page: Open) -> None:
    page = open_page()
    _settled(page)
    before = page.get_by_label("Time", exact=True).input_value()
    slider = page.get_by_role("slider")
    slider.focus()
    after = str(date.fromisoformat(before) + timedelta(2))
    with page.expect_response(lambda one: one.url.endswith("/forecast") and _body(one)["at"] == after):
        slider.press("ArrowRight")
        slider.press("ArrowRight")  # a slow hand is asked for the day between too
    assert page.get_by_label("Time", exact=True).input_value() == after
    assert after in slider.get_attribute("aria-valuetext")
    page.get_by_role("heading", name=after).wait_for()
    assert _asked(page)["at"] == after


def test_a_reason_opens_and_cites_a_dated_fact(open_page: Open, site: str) -> None:
    page = open_page()
    _settled(page)
    button = page.get_by_role("button", name="Why").first
    assert button.get_attribute("aria-expanded") == "false"
    button.click()
    reasons = page.locator(".why:visible .reasons li")
    reasons.first.wait_for()
    assert button.get_attribute("aria-expanded") == "true"
    subject = _read(site, "/model")["example"]["subject"]
    facts = _read(site, f"/facts?entity={subject.replace(' ', '%20')}&limit=1000")["facts"]
    known = {f"{one['subject']} {one['relation']} {one['object']}, {one['at']}" for one in facts}
    assert any(words in reasons.first.inner_text() for words in known)


def test_a_link_carries_the_question(open_page: Open, site: str) -> None:
    page = open_page()
    _settled(page)
    page.get_by_label("When").select_option("by")
    page.get_by_role("heading", name="at least once by").wait_for()
    link = page.get_by_role("link", name="Link to this question").get_attribute("href")
    other = open_page(link)
    _settled(other)
    assert _asked(other) == _asked(page)
    assert _answers_of(other).all_inner_texts() == _answers_of(page).all_inner_texts()


def test_the_same_question_as_python_gives_the_answers_of_the_page(open_page: Open) -> None:
    page = open_page()
    _settled(page)
    page.get_by_text("The same question in code").click()
    code = page.get_by_role("group", name="Python").inner_text()
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    names = _answers_of(page).evaluate_all("buttons => buttons.map((button) => button.textContent)")
    assert [line.split(" ", 1)[1].rsplit(" ", 2)[0] for line in told.splitlines()] == names


def _words(command: str) -> list[str]:
    """As a shell reads them; shlex does not know of lines that go on."""
    return shlex.split(command.replace("\\\n", ""))


def test_the_same_question_as_curl_is_that_of_the_page(open_page: Open) -> None:
    """Its words as a shell reads them; a name may hold quotes and signs that a shell would take as its own."""
    page = open_page()
    _settled(page)
    page.get_by_text("The same question in code").click()
    command, url, *options = _words(page.get_by_role("group", name="curl").inner_text())
    given = list(zip(options[::2], options[1::2], strict=True))
    headers = dict(value.split(": ", 1) for name, value in given if name == "-H")
    (body,) = (value for name, value in given if name == "-d")
    assert command == "curl"
    with urlopen(Request(url, body.encode(), headers)) as answer:
        found = json.load(answer)["answers"]
    names = _answers_of(page).evaluate_all("buttons => buttons.map((button) => button.textContent)")
    assert [one["name"] for one in found] == names
    odd = {"subject": 'O\'Neill "$HOME" `id`', "relation": "\\ & ; ' \n", "object": "", "at": "2024-01-01", "by": True}
    code = page.evaluate("async (given) => (await import('/page/take-away.js')).asCurl(given)", odd)
    told = json.loads(_words(code)[-1])
    assert told == {**{key: odd[key] for key in ("subject", "relation")}, "object": None, "by": odd["at"], "top": 10}


def test_what_is_shown_is_saved_as_csv_and_json(open_page: Open) -> None:
    page = open_page()
    _settled(page)
    first = _answers_of(page).first.inner_text()
    with page.expect_download() as table:
        page.get_by_role("button", name="CSV").click()
    lines = Path(table.value.path()).read_text(encoding="utf-8").splitlines()
    assert lines[0] == "rank,answer,share,chance,base,seen,last"
    assert lines[1].startswith(f"1,{first},")
    with page.expect_download() as plain:
        page.get_by_role("button", name="JSON").click()
    assert json.loads(Path(plain.value.path()).read_text(encoding="utf-8"))["answers"][0]["name"] == first


def test_an_unknown_name_offers_the_nearest_ones(open_page: Open, site: str) -> None:
    known = _read(site, "/model")["example"]["subject"]
    page = open_page(f"#ask?subject={known[:-1]}q&relation=allied+with")
    offer = page.get_by_role("alert").get_by_role("link", name=known)
    offer.click()
    _settled(page)
    assert _field(page, "Subject").input_value() == known


def test_an_unknown_name_like_no_other_offers_nothing_empty(open_page: Open) -> None:
    page = open_page("#ask?subject=%E2%88%9E%E2%88%9E%E2%88%9E&relation=allied+with")
    alert = page.get_by_role("alert")
    alert.wait_for()
    assert alert.get_by_role("link").count() == 0
    assert alert.locator(".row").count() == 0


def test_answers_out_of_the_order_of_their_chances_are_explained(open_page: Open) -> None:
    page = open_page()
    _settled(page)
    orders = [[0.3, 0.7], [0.7, 0.3], [0.3, 0.301], [0.5, 0.1, 0.2]]
    script = """async (orders) => {
      const { outOfOrder } = await import("/page/ask-view.js");
      return orders.map((chances) => outOfOrder(chances.map((chance) => ({ chance }))));
    }"""
    assert page.evaluate(script, orders) == [True, False, False, True]


def test_a_warning_on_the_page_names_no_code(open_page: Open) -> None:
    page = open_page()
    _settled(page)
    slider = page.get_by_role("slider")
    slider.focus()
    with page.expect_response("**/forecast"):
        slider.press("End")
    page.get_by_text("days after the last fact (").wait_for()
    told = page.locator(".warning").all_inner_texts()
    assert told
    assert not [text for text in told if "`" in text or "--" in text]


def test_a_name_is_text_and_never_markup(open_page: Open) -> None:
    page = open_page("#ask?subject=<img src=q onerror=alert(1)>&relation=<b>visits</b>")
    page.get_by_role("alert").get_by_text("<img src=q onerror=alert(1)>").wait_for()
    page.goto(page.url.replace("#ask?subject", "#entity?name"))
    page.get_by_role("alert").get_by_text("<img src=q onerror=alert(1)>").wait_for()
    assert page.locator("img, b").count() == 0


def test_supposed_facts_change_the_answers_and_are_not_kept(open_page: Open, site: str) -> None:
    position = _read(site, "/model")["position"]
    page = open_page("#what-if")
    partner = _read(site, "/names?kind=entity&limit=1")["names"][0]["name"]
    _field(page, "Object").fill(partner)
    page.get_by_role("button", name="Suppose this").click()
    page.get_by_role("table").wait_for()
    assert page.get_by_text("points").count() > 0
    assert _read(site, "/model")["position"] == position


def test_a_posted_fact_changes_the_forecast_and_enters_record_and_surprises(open_page: Open, site: str) -> None:
    model = _read(site, "/model")
    surprises = open_page("#surprises")
    surprises.locator(".live-on").wait_for()
    page = open_page(charts=True)
    _settled(page)
    subject, relation = model["example"]["subject"], model["example"]["relation"]
    first = _answers_of(page).first.evaluate("button => button.textContent")
    later = str(date.fromisoformat(model["next"]) + timedelta(3))
    before = _read_fact(page, site, subject, relation, first, later)
    page.get_by_role("link", name="Add facts").click()
    for name, value in (("Subject", subject), ("Relation", relation), ("Object", first)):
        _field(page, name).fill(value)
    page.get_by_label("Time", exact=True).fill(model["next"])
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_role("alert").get_by_text("token").first.wait_for()  # nothing was added
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_role("heading", name="1 fact added").wait_for()
    surprises.get_by_role("link", name=f"{subject} {relation} {first}").wait_for()  # without a reload
    page.get_by_role("link", name=subject).click()
    page.get_by_role("heading", name=f"{subject} {relation} whom or what").wait_for()
    page.get_by_role("link", name="Track record").click()
    page.wait_for_selector("record-view plot-box .main-svg")
    assert page.locator(".tile dd").first.inner_text().splitlines() == ["2", "in 1 batch"]
    chance, seen = _read_fact(page, site, subject, relation, first, later)
    assert chance != before[0]
    assert model["next"] in seen
    assert model["next"] not in before[1]


def _read_fact(page: Any, site: str, subject: str, relation: str, object_: str, at: str) -> tuple[str, str]:
    """Chance and past of a fact as the page has them, asked as yes or no: that answer is always there."""
    question = {"subject": subject, "relation": relation, "object": object_, "at": at}
    with page.expect_response("**/forecast"):
        page.goto(f"{site}/#ask?{urlencode(question)}")
    page.get_by_role("heading", name=f"{subject} {relation} {object_}", exact=False).wait_for()
    page.wait_for_selector(".result:not([aria-busy])")
    return page.locator(".answer .chance strong").inner_text(), page.locator(".answer .answer-name .faint").inner_text()


def test_two_runs_answer_side_by_side(open_page: Open, site: str) -> None:
    page = open_page()
    _settled(page)
    page.get_by_role("link", name="Both runs").click()
    table = page.get_by_role("table", name="Chance and place of each answer")
    table.wait_for()
    model = _read(site, "/model")
    heads = table.get_by_role("columnheader").all_inner_texts()
    assert len(set(heads)) == 3  # two runs of one name are numbered
    assert all(
        head.startswith(name) for head, name in zip(heads[1:], [model["run"], model["beside"]["run"]], strict=True)
    )
    rows = table.get_by_role("row").count() - 1
    assert rows >= 10
    figures = page.get_by_role("table", name="Figures of both runs")
    assert figures.get_by_role("row").count() == 3
    with page.expect_response("**/compare"):
        _field(page, "Object (optional)").fill(_read(site, "/names?kind=entity&limit=1")["names"][0]["name"])
        page.get_by_role("button", name="Compare").click()
    page.wait_for_selector("compare-view .result:not([aria-busy])")
    assert table.get_by_role("row").count() == 2  # yes or no
    assert "object" in _asked(page)


def test_a_watched_fact_is_judged_by_its_threshold(open_page: Open) -> None:
    page = open_page()
    _settled(page)
    page.get_by_role("button", name="Watch ").click()
    page.get_by_role("link", name="Watch list", exact=True).first.click()
    threshold = page.get_by_label("Threshold, %")
    threshold.fill("0")
    threshold.press("Tab")
    page.get_by_text("above").wait_for()
    page.reload()
    assert page.get_by_label("Threshold, %").input_value() == "0"
    page.get_by_role("button", name="Stop watching").click()
    page.get_by_text("You watch nothing yet").wait_for()


def test_a_watched_fact_with_an_unknown_name_does_not_hide_the_others(open_page: Open, site: str) -> None:
    """Another run may be served at the same address later: the browser keeps one list for both."""
    fact = _read(site, "/facts?limit=1")["facts"][0]
    known = {name: fact[name] for name in ("subject", "relation", "object")} | {"threshold": 0}
    page = open_page("#model")
    page.evaluate("(kept) => localStorage.setItem('tangokg.watch', kept)", json.dumps([known | {"object": "Q"}, known]))
    page.goto(f"{site}/#watch")
    rows = page.locator(".watched li")
    rows.nth(1).get_by_text("above").wait_for()
    rows.nth(0).get_by_text("unknown entity 'Q'").wait_for()
    assert page.get_by_role("alert").count() == 0


def test_no_word_is_broken_on_a_phone(open_page: Open, site: str) -> None:
    """Of tables, which scroll, and of buttons; a single word may be longer than the screen in other data."""
    subject = _read(site, "/facts?relation=issues+statement+to&limit=1")["facts"][0]["subject"]
    page = open_page(f"#entity?{urlencode({'name': subject})}", width=NARROW)
    page.get_by_role("table").wait_for()
    assert _broken(page) == []
    page.goto(f"{site}/#what-if")
    _field(page, "Object").fill(subject)
    page.get_by_role("button", name="Suppose this").click()
    page.get_by_role("table").wait_for()
    assert _broken(page) == []


def _broken(page: Any) -> Any:
    """Words that stand on two lines."""
    script = """() => [...document.querySelectorAll("td, button")].flatMap((element) => {
      const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
      const broken = [];
      while (walker.nextNode())
        for (const word of walker.currentNode.data.matchAll(/\\p{L}+/gu)) {
          const range = document.createRange();
          range.setStart(walker.currentNode, word.index);
          range.setEnd(walker.currentNode, word.index + word[0].length);
          if (new Set([...range.getClientRects()].map((box) => box.top)).size > 1) broken.push(word[0]);
        }
      return broken;
    })"""
    return page.evaluate(script)


def test_a_service_that_is_gone_is_said_and_asked_again(open_page: Open) -> None:
    page = open_page()
    _settled(page)
    page.context.route("**/forecast", lambda route: route.abort())
    page.get_by_role("button", name="Ask", exact=True).click()
    page.get_by_role("alert").wait_for()
    page.context.unroute("**/forecast")
    page.get_by_role("button", name="Try again").click()
    _settled(page)
    assert page.get_by_role("alert").count() == 0


def test_text_and_times_are_told_as_the_data_have_them(open_page: Open) -> None:
    page = open_page("#model")

    def call(module: str, function: str, *given: Any) -> Any:
        return page.evaluate(f"async (given) => (await import('/page/{module}.js')).{function}(...given)", list(given))

    later = [("2024-12-31", 2, "day", "2025-01-02"), ("2024-02-26", 1, "week", "2024-03-04"), (7, 3, "step", "10")]
    later += [("2024-11", 3, "month", "2025-02"), ("2024-Q4", 1, "quarter", "2025-Q1"), ("1999", 2, "year", "2001")]
    later += [("2024-01-01T23:30:00+00:00", 1, "hour", "2024-01-02T00:30:00+00:00"), ("-3", 1, "step", "-2")]
    for time_, steps, unit, expected in later:
        assert call("times", "addSteps", time_, steps, unit) == expected
        assert call("times", "toSteps", expected, unit) - call("times", "toSteps", time_, unit) == pytest.approx(steps)
    assert [call("words", "percent", x).replace("\xa0", " ") for x in (0, 0.0004, 0.031, 0.42, 0.995, 0.9996, 1)] == [
        *("0 %", "< 0.1 %", "3.1 %", "42 %", "99.5 %", "> 99.9 %", "100 %")
    ]
    assert call("take-away", "csvLine", ["=1+1", 'a "b", c', 0.5, None]) == '\'=1+1,"a ""b"", c",0.5,'
    fact = {"subject": 'A "x", B', "relation": "visits", "object": "C", "at": "2024-01-01"}
    assert call("post-view", "factsFrom", '"A ""x"", B", visits, C, 2024-01-01\n\n') == [fact]
    block = 'event: x\ndata: {"type": "facts",\ndata: "added": 1}'
    assert call("api", "eventData", block) == {"type": "facts", "added": 1}
    assert call("api", "eventData", ": still here") is None


def _drawn(page: Any, view: str) -> None:
    """Until the view is there, with nothing to come: no note of loading, no chart without its lines."""
    script = """(view) => {
      const name = `${view.split("?")[0]}-view`;
      const coming = ".note-loading, [aria-busy], plot-box:not(:has(.main-svg)), near-graph:empty, pair-timeline:empty";
      const here = document.querySelector(`main > ${name}`);
      return here?.childElementCount && !here.querySelector(coming) && !here.textContent.includes("Connecting");
    }"""
    page.wait_for_function(script, arg=view)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation_and_a_phone_needs_no_sideways_scroll(open_page: Open, site: str, scheme: str) -> None:
    try:
        from axe_playwright_python.sync_playwright import Axe
    except ImportError:
        missing("the Python package axe-playwright-python")
    subject = _read(site, "/model")["example"]["subject"].replace(" ", "+")
    watched = json.dumps(
        [{"subject": subject.replace("+", " "), "relation": "visits", "object": "nobody", "threshold": 0.5}]
    )
    page = open_page(width=NARROW if scheme == "light" else WIDE, scheme=scheme, charts=True)
    page.evaluate("(kept) => localStorage.setItem('tangokg.watch', kept)", watched)
    for view in VIEWS:
        page.goto(f"{site}/#{view.format(subject=subject)}")
        _drawn(page, view)
        if view == "ask":
            page.get_by_role("button", name="Why").first.click()
            page.locator(".why:visible .reasons").wait_for()
            for summary in page.locator("summary").all():
                summary.click()
        found = Axe().run(page).response["violations"]
        assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == [], view
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view

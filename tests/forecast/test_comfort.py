"""From Python: the API shows itself, values become data frames and HTML, and wrong arguments are our errors."""

from __future__ import annotations

import inspect
import logging
import pydoc
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from html import escape
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tangokg as tk
from conftest import dated, make_dataset, make_forecaster
from tangokg.errors import DataError, TangoError
from tangokg.quads import read_events
from tangokg.rank import SINGLE_STEP
from tangokg.showing import Share, html_table
from tangokg.train.display import Display
from tangokg.train.notebook import NotebookDisplay, default_display, in_notebook

EVIL = "<script>alert(1)</script>\x1b[2J"


def frame(days: int = 30) -> pd.DataFrame:
    rows = [("Ann", "calls", "Bob", day) for day in range(days)] + [("Bob", "visits", EVIL, day) for day in range(days)]
    table = pd.DataFrame(rows, columns=["who", "does", "whom", "day"])
    return table.assign(day=pd.Timestamp("2024-01-01") + pd.to_timedelta(table["day"], unit="D"))


COLUMNS = {"subject": "who", "relation": "does", "object": "whom", "time": "day"}


def test_the_api_shows_itself() -> None:
    assert set(tk.__all__) <= set(dir(tk))
    assert all(getattr(tk, name) is not None for name in dir(tk))
    shown = pydoc.render_doc(tk)
    assert all(name in shown for name in ("fit", "forecast", "compare", "read_events", "plot"))


def test_tune_is_a_function_whatever_was_imported_first() -> None:
    first = tk.tune
    from tangokg.tune.work import Search

    assert Search is not None
    assert callable(first)
    assert callable(tk.tune)
    assert "trials" in inspect.signature(tk.tune).parameters


def test_a_data_frame_is_read_with_named_columns_and_unit() -> None:
    forecaster = tk.fit(frame(), "recurrence", unit="week", columns=COLUMNS, verbose=False)
    assert forecaster.dataset.clock.unit == "week"
    assert forecaster.forecast("Ann", "calls").answers[0].name == "Bob"
    with pytest.raises(TangoError, match="read already"):
        tk.fit(make_dataset(1), "recurrence", unit="week")


def test_values_become_data_frames() -> None:
    dataset = dated(make_dataset(1))
    facts = dataset.train
    table = facts.to_pandas()
    assert list(table) == ["subject", "relation", "object", "time"]
    assert len(table) == len(facts)
    again = read_events(table).to_pandas()
    assert sorted(again.itertuples(index=False)) == sorted(table.itertuples(index=False))
    timed = table.assign(time=table["time"] + "T18:30:00")
    assert set(read_events(timed, unit="week").to_pandas()["time"]) == set(timed["time"]), "moments, not steps"
    whole = dataset.to_pandas()
    assert whole["part"].value_counts().to_dict() == {name: len(part) for name, part in dataset.parts.items()}
    forecaster = make_forecaster("recurrence", dataset)
    answer = forecaster.forecast("e1", "r1", top=3)
    assert answer.to_pandas()["name"].tolist() == [candidate.name for candidate in answer.answers]
    assert answer.to_pandas().attrs["subject"] == "e1"
    metrics = forecaster.evaluate()
    row = metrics.to_pandas().set_index("filter").loc["time-aware"]
    assert row["mrr"] == metrics["time-aware"].mrr
    assert row["queries"] == metrics.queries


def test_without_pandas_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(TangoError, match="pip install pandas"):
        make_dataset(1).to_pandas()


def displays() -> dict[str, Callable[[], Any]]:
    """What a notebook shows; wherever a name can stand there is one that tries to be markup."""
    forecaster = tk.fit(frame(), "recurrence", columns=COLUMNS, verbose=False)
    asked = partial(forecaster.forecast, "Bob", "visits")
    named = replace(forecaster.dataset, name=EVIL)
    return {
        "forecast": asked,
        "forecast of the subject": lambda: forecaster.forecast(None, "visits", EVIL),
        "yes or no": partial(asked, EVIL, by="2024-02-05"),
        "events": lambda: forecaster.forecast(top=3),
        "reasons beside answers": partial(asked, why=True),
        "reasons": lambda: asked(why=True).answers[0].reasons,
        "metrics": forecaster.evaluate,
        "not comparable": lambda: replace(forecaster.evaluate(), not_comparable=EVIL),
        "facts": lambda: forecaster.facts,
        "data": lambda: named,
        "forecaster": lambda: tk.Forecaster(forecaster.model, named, forecaster.config),
        "comparison": lambda: tk.compare(forecaster.dataset, {EVIL: forecaster, "again": forecaster}),
        "calibration": lambda: forecaster.calibration()["pair"],
        "calibrations": forecaster.calibration,
    }


WITHOUT_NAMES = ("metrics", "calibration", "calibrations")


@pytest.fixture(scope="module")
def shown() -> dict[str, str]:
    return {name: make()._repr_html_() for name, make in displays().items()}


@pytest.mark.parametrize("name", [*displays()])
def test_values_show_themselves_in_a_notebook_and_names_do_no_harm(name: str, shown: dict[str, str]) -> None:
    html = shown[name]
    assert "<table>" in html
    assert ("&lt;script&gt;" in html) == (name not in WITHOUT_NAMES)
    assert "\x1b" not in html
    assert set(re.findall(r"<(\w+)", html)) <= {"p", "table", "thead", "tbody", "tr", "th", "td", "details", "summary"}


def test_a_notebook_has_the_reasons_of_an_answer_below_it() -> None:
    forecaster = make_forecaster("frequency")
    asked, plain = forecaster.forecast("e1", "r1", why=2), forecaster.forecast("e1", "r1")
    told = [answer.reasons for answer in asked.answers if answer.reasons is not None]
    assert any(reasons.facts for reasons in told)
    html = asked._repr_html_()
    assert html.count("<details>") == len(told) == 2
    assert all(escape(cell) in html for reasons in told for cells in reasons.rows() for cell in cells)
    assert "<details>" not in plain._repr_html_()


def test_a_bar_in_a_table_is_as_long_as_its_number_says() -> None:
    html = html_table("", ["chance"], [[Share(0.25)], [Share(1.5)], [0.25]])
    assert re.findall(r">([\d.%]+)</td>", html) == ["25.0%", "150.0%", "0.25"]
    assert re.findall(r"transparent ([\d.]+)%", html) == ["25.0", "100.0"]


def test_a_notebook_sees_what_a_comparison_says() -> None:
    found = tk.compare(make_dataset(1), ["recurrence", "frequency"], verbose=False)
    html = found._repr_html_()
    assert found.test is not None
    assert escape(found.sentence) in html
    assert all(f"{value:+.2f}" in html for value in (found.test.difference, found.test.low, found.test.high))
    assert all(f"{row.low:.2f} to {row.high:.2f}" in html for row in found.rows)


def test_calibrations_are_a_dictionary_with_a_table() -> None:
    said = make_forecaster("recurrence").calibration()
    table = said.to_pandas().set_index("kind")
    assert list(table.index) == list(said)
    assert all(table.loc[kind, "brier"] == one.brier for kind, one in said.items())
    assert all(f"{one.brier:.4f}" in said._repr_html_() for one in said.values())


def test_a_notebook_shows_the_chance_of_any_fact() -> None:
    forecaster = make_forecaster("recurrence")
    asked, event = forecaster.forecast("e1", "r1", top=2), forecaster.forecast("e1", top=2)
    assert asked.happens is not None
    assert f"{asked.condition} has a fact: {asked.happens:.1%}" in asked._repr_html_()
    assert asked.to_pandas()["happens"].tolist() == [asked.happens] * 2
    assert event.happens is None
    assert "has a fact" not in event._repr_html_()
    assert "happens" not in event.to_pandas()


def test_figures_by_relation_have_its_name() -> None:
    forecaster = make_forecaster("recurrence")
    metrics = forecaster.evaluate()
    assert set(metrics.by_relation("raw")) <= set(forecaster.facts.vocab.relations)
    total = sum(summary.queries for summary in metrics.by_relation("raw").values())
    assert total == metrics.queries


def test_facts_to_evaluate_come_as_people_hold_them(tmp_path: Path) -> None:
    dataset = dated(make_dataset(1))
    forecaster = make_forecaster("recurrence", dataset)
    wanted = forecaster.evaluate(dataset.test).to_dict()
    dataset.test.to_pandas().to_csv(tmp_path / "test.csv", index=False)
    for facts in (None, "test", dataset, dataset.test.to_pandas(), tmp_path / "test.csv", str(tmp_path / "test.csv")):
        assert forecaster.evaluate(facts).to_dict() == wanted
    assert forecaster.evaluate("valid").to_dict() == forecaster.evaluate(dataset.valid).to_dict()


WRONG: dict[str, Callable[[tk.Forecaster], Any]] = {
    "fit a number": lambda f: tk.fit(5),
    "fit nothing": lambda f: tk.fit(None),
    "fit a list": lambda f: tk.fit([1, 2]),
    "a config that is a number": lambda f: tk.fit(f.dataset, 5),  # type: ignore[arg-type]
    "an unknown model": lambda f: tk.fit(f.dataset, "tangoo"),
    "an unknown setting": lambda f: tk.fit(f.dataset, "tango", dimm=3),
    "a setting of another type": lambda f: tk.fit(f.dataset, "tango", dim="many"),
    "columns that are a list": lambda f: tk.fit(f.dataset, columns=["a"]),  # type: ignore[arg-type]
    "a unit that is a number": lambda f: tk.fit(frame(), unit=5),  # type: ignore[arg-type]
    "an unknown unit": lambda f: tk.fit(frame(), unit="fortnight", columns=COLUMNS),
    "a seed that is a text": lambda f: tk.fit(f.dataset, "recurrence", seed="one"),  # type: ignore[arg-type]
    "a folder that is a number": lambda f: tk.fit(f.dataset, "recurrence", out=5),  # type: ignore[arg-type]
    "load a number": lambda f: tk.load(5),  # type: ignore[arg-type]
    "load on no device": lambda f: tk.load("nothing", device="gpu"),
    "read a number": lambda f: tk.read_events(5),
    "read nothing": lambda f: tk.read_events(None),
    "columns that are a number": lambda f: tk.read_events(frame(), columns=5),  # type: ignore[arg-type]
    "a time zone that is a number": lambda f: tk.fit(frame(), "recurrence", timezone=5),  # type: ignore[arg-type]
    "a date format that is a number": lambda f: tk.read_events(frame(), date_format=5),  # type: ignore[arg-type]
    "a relation that is a number": lambda f: tk.fit(frame(), "recurrence", relation=5),  # type: ignore[arg-type]
    "split by a text": lambda f: f.dataset.train.split(train="most"),  # type: ignore[arg-type]
    "at a date and until one": lambda f: f.forecast("e1", "r1", at="2024-06-01", by="2024-06-02"),
    "forecast an unknown name": lambda f: f.forecast("nobody", "r1"),
    "forecast a number": lambda f: f.forecast(5, "r1"),  # type: ignore[arg-type]
    "at a list": lambda f: f.forecast("e1", "r1", at=[1]),  # type: ignore[arg-type]
    "at no date": lambda f: f.forecast("e1", "r1", at="soon"),
    "top of a text": lambda f: f.forecast("e1", "r1", top="all"),  # type: ignore[arg-type]
    "top of nothing": lambda f: f.forecast("e1", "r1", top=0),
    "a table of questions that is a number": lambda f: f.forecast_table(5),
    "observe a number": lambda f: f.observe(5),
    "observe with an unknown option": lambda f: f.observe(frame(), colums=COLUMNS),
    "evaluate a number": lambda f: f.evaluate(5),
    "evaluate a part that is not there": lambda f: f.evaluate("tset"),
    "evaluate by no protocol": lambda f: f.evaluate(protocol="multi-step"),
    "evaluate with an unknown option": lambda f: f.evaluate(horizon=3),
    "an unknown filter": lambda f: f.evaluate()["time"],
    "an unknown direction": lambda f: f.evaluate().by_relation("raw", "up"),  # type: ignore[arg-type]
    "an unknown filter by time": lambda f: f.evaluate().by_time("time"),
    "save to a number": lambda f: f.save(5),  # type: ignore[arg-type]
    "compare nothing": lambda f: tk.compare(f.dataset, []),
    "compare a number": lambda f: tk.compare(f.dataset, [5]),  # type: ignore[list-item]
    "compare an unknown model": lambda f: tk.compare(f.dataset, ["tangoo"]),
    "compare with an unknown setting": lambda f: tk.compare(f.dataset, ["recurrence"], dimm=3),
    "compare on other data": lambda f: tk.compare(make_dataset(2), [f]),
    "draw a number": lambda f: tk.plot(5, "x.png"),
    "draw into a word": lambda f: tk.plot(f.evaluate(), "x.docx"),
    "draw into a number": lambda f: tk.plot(f.evaluate(), 5),  # type: ignore[arg-type]
    "draw no epochs": lambda f: tk.plot(f, "x.png"),
    "tune a number": lambda f: tk.tune(5),
    "tune an unknown model": lambda f: tk.tune(f.dataset, "tangoo"),
    "tune by no preset": lambda f: tk.tune(f.dataset, preset="guess"),
    "tune with trials of text": lambda f: tk.tune(f.dataset, trials="few"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_argument_is_our_error(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TangoError) as caught:
        WRONG[case](make_forecaster("recurrence"))
    assert len(str(caught.value)) > 20


def test_models_are_compared_from_python(tmp_path: Path) -> None:
    dataset = make_dataset(1)
    trained = tk.fit(dataset, "frequency", verbose=False)
    found = tk.compare(dataset, ["recurrence", trained], verbose=False)
    table = found.to_pandas()
    assert set(table["model"]) == {"recurrence", "frequency"}
    assert table["mrr"].is_monotonic_decreasing
    assert table.attrs["paired"]["first"] == table["model"][0]
    assert "<table>" in found._repr_html_()
    assert tk.plot(found, tmp_path / "compare.png").stat().st_size > 1000
    kept = tk.compare(dataset, ["recurrence"], out=tmp_path / "runs", verbose=False)
    assert tk.load(tmp_path / "runs" / "recurrence").evaluate()["time-aware"].mrr == kept.rows[0].figures.mrr


def test_figures_are_drawn_from_python(tmp_path: Path) -> None:
    forecaster = tk.fit(make_dataset(1), "tango-distmult", dim=4, history=2, epochs=2, verbose=False)
    metrics = forecaster.evaluate()
    said = forecaster.calibration()
    for number, what in enumerate((forecaster, metrics, {1.0: metrics, 2.0: metrics}, said, said["pair"])):
        assert tk.plot(what, tmp_path / f"{number}.svg").read_text().startswith("<?xml")


def test_epochs_of_a_loaded_run_are_those_of_its_log(tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    options: dict[str, Any] = {"dim": 4, "history": 2, "epochs": 2, "verbose": False}
    trained = tk.fit(make_dataset(1), "tango-distmult", out=tmp_path / "run", **options)
    loaded = tk.load(tmp_path / "run", "cpu")
    for kept, drawn in zip(tk.plot(trained).data, tk.plot(loaded).data, strict=True):
        assert [*drawn.x] == [1, 2]
        assert [*drawn.y] == pytest.approx([*kept.y])
    (tmp_path / "run" / "log.csv").unlink()
    for without in (tk.load(tmp_path / "run", "cpu"), make_forecaster("frequency")):
        with pytest.raises(DataError, match="no epochs to draw"):
            tk.plot(without)


def test_settings_are_searched_from_python(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    dataset = make_dataset(1, snapshots=12)
    found = tk.tune(dataset, "tango-distmult", trials=2, verbose=False, dim=4, layers=1, epochs=1, history=[1, 2])
    assert len(found.trials) == 2
    assert found.config.settings.dim == 4
    assert set(found.to_pandas()["history"]) <= {1, 2}
    assert tk.plot(found, tmp_path / "study.png").exists()
    trials, best = tk.plot(found).data
    assert [*trials.y] == [trial.mrr for trial in found.trials]
    assert max(trials.y) == best.y[-1] == found.best.mrr
    assert all(
        f"history={trial.values['history']}" in told
        for trial, told in zip(found.trials, trials.customdata, strict=True)
    )
    assert "validation MRR" in repr(found)
    html = found._repr_html_()
    assert html.count("<tr>") == 1 + len(found.trials)
    assert all(f">{name}</th>" in html for name in found.to_pandas())
    assert tk.fit(dataset, found.config, epochs=1, verbose=False).config.settings == found.config.settings


def test_silence_and_logging(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "tangokg"):
        tk.fit(make_dataset(1), "tango-distmult", dim=4, history=2, epochs=2, verbose=False)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
    epochs = [record.getMessage() for record in caplog.records if record.name == "tangokg"]
    assert len([line for line in epochs if line.startswith("epoch")]) == 2


class Handle:
    def __init__(self, shown: Any) -> None:
        self.all = [shown]

    def update(self, shown: Any) -> None:
        self.all.append(shown)


def test_a_notebook_sees_progress_within_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    handles: list[Handle] = []

    def display(shown: Any, display_id: bool) -> Handle:
        handles.append(Handle(shown))
        return handles[-1]

    ipython, area = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    area.display, area.HTML = display, str  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", area)
    monkeypatch.setattr("tangokg.train.notebook.REFRESH", 0.0)
    assert in_notebook()
    tk.fit(make_dataset(1), "tango-distmult", dim=4, history=2, epochs=2, batch_windows=1)
    (handle,) = handles
    within = [text for text in handle.all if "░" in text and "loss" in text]
    assert within  # before an epoch is over
    lines = handle.all[-1].removeprefix("<pre>").splitlines()
    assert [line.split()[0] for line in lines] == ["epoch", "epoch", "training"]  # why it ended comes last
    ipython.get_ipython = lambda: None  # type: ignore[attr-defined]
    assert type(default_display()) is Display
    assert not isinstance(default_display(verbose=False), NotebookDisplay)


def test_a_far_question_says_how_little_is_known(caplog: pytest.LogCaptureFixture) -> None:
    dataset = dated(make_dataset(1))
    forecaster = make_forecaster("recurrence", dataset)
    last = float(dataset.facts.t.max())
    forecaster.forecast("e1", "r1")
    forecaster.forecast("e1", "r1", at=dataset.clock.format(last + 1))
    assert not [record for record in caplog.records if "lies" in record.message]
    forecaster.forecast("e1", "r1", at=dataset.clock.format(last + 400))
    (record,) = [record for record in caplog.records if "lies" in record.message]
    assert record.levelno == logging.WARNING
    assert "400 days after the last fact" in record.getMessage()
    assert "too short to measure it" in record.getMessage()
    caplog.clear()
    forecaster.forecast("e1", "r1", at=dataset.clock.format(last + 6))
    assert "horizon(6)" in caplog.text
    caplog.clear()
    times = [dataset.clock.format(last + 1), dataset.clock.format(last + 90), dataset.clock.format(last + 80)]
    forecaster.forecast_table(pd.DataFrame({"subject": ["e1"] * 3, "relation": ["r1"] * 3, "time": times}))
    assert "2 of 3 questions lie up to 90 days" in caplog.text


def test_where_days_are_missing_the_chance_of_a_day_says_what_it_holds_for(caplog: pytest.LogCaptureFixture) -> None:
    gappy = dated(make_dataset(1))
    whole = replace_times(gappy)
    for dataset, told in ((gappy, True), (whole, False)):
        forecaster, last = make_forecaster("recurrence", dataset), float(dataset.facts.t.max())
        for when, own in (({"at": last + 1}, told), ({"by": last + 1}, False), ({"at": last}, False)):
            caplog.clear()
            asked: dict[str, Any] = {key: dataset.clock.format(t) for key, t in when.items()}
            forecaster.forecast("e1", "r1", **asked)
            assert ("hold facts" in caplog.text) == own


def replace_times(dataset: tk.Dataset) -> tk.Dataset:
    """The same facts, a day after the other."""
    times = np.unique(dataset.facts.t)
    train, valid, test = (
        replace(part, t=np.searchsorted(times, part.t)) for part in (dataset.train, dataset.valid, dataset.test)
    )
    return replace(dataset, train=train, valid=valid, test=test)


@pytest.mark.parametrize("missing", [float("nan"), pd.NaT])
def test_a_missing_time_is_refused(missing: Any) -> None:
    forecaster = make_forecaster("recurrence", dated(make_dataset(1)))
    for key in ("at", "by"):
        with pytest.raises(TangoError):
            forecaster.forecast("e1", "r1", **{key: missing})


def test_facts_that_were_trained_on_are_told(caplog: pytest.LogCaptureFixture) -> None:
    forecaster = make_forecaster("recurrence")
    forecaster.evaluate()
    assert "trained on" not in caplog.text
    forecaster.evaluate(forecaster.dataset.facts)
    assert "trained on" in caplog.text


def test_a_fact_that_stands_alone_does_not_make_a_question_near(caplog: pytest.LogCaptureFixture) -> None:
    dataset = dated(make_dataset(1))
    own = dataset.facts
    facts = own.select(np.concatenate([np.tile(np.arange(len(own)), 20), [0]]))
    facts.t[-1] += 60 * 365
    last = facts.clock.format(float(facts.usual.t.max()) + 400)
    make_forecaster("recurrence", facts.split()).forecast("e1", "r1", at=last)
    assert "400 days after the last fact" in caplog.text


def test_single_step_is_still_the_default() -> None:
    assert inspect.signature(tk.Forecaster.evaluate).parameters["protocol"].default is SINGLE_STEP

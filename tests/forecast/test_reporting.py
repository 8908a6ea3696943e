"""``tangokg.write_report``: the figures of a page are those of ``evaluate``, and the page is safe to pass on."""

from __future__ import annotations

import re
import socket
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import torch

import tangokg as tk
from conftest import make_dataset, make_forecaster
from report_pages import NASTY, SCRIPT, make_nasty, tables
from tangokg import rank
from tangokg.errors import TangoError
from tangokg.forecast.measuring import drawn
from tangokg.models import MODELS
from tangokg.quads.values import Dataset
from tangokg.report.figures import read_log
from tangokg.train import RunFolder

SMALL: dict[str, Any] = {"dim": 4, "history": 2, "layers": 1, "epochs": 2, "device": "cpu", "verbose": False}


def row(summary: rank.Summary) -> list[str]:
    return [f"{value:.2f}" for value in summary.to_dict().values()]


def named(rows: list[list[str]], *first: str) -> list[str]:
    """The rest of the one row that begins so."""
    (found,) = (cells for cells in rows if tuple(cells[: len(first)]) == first)
    return found[len(first) :]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run on data with names like markup."""
    path = tmp_path_factory.mktemp("somewhere") / "run"
    tk.fit(make_nasty(), "tango-distmult", out=path, **SMALL)
    return path


@pytest.fixture(scope="module")
def page(run: Path) -> str:
    return tk.write_report(run, horizons=[1, 2.5]).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def loaded(run: Path) -> tk.Forecaster:
    return tk.load(run)


def test_figures_are_those_of_evaluate(page: str, loaded: tk.Forecaster) -> None:
    found, metrics, model = tables(page), loaded.evaluate(), "tango-distmult"
    for name in rank.FILTERS:
        assert named(found["By filter, in per cent"], name, model) == row(metrics[name])
    own = metrics["time-aware"]
    cells = named(found[f"{own.queries} questions of the test part, time-aware, in per cent"], model)
    assert [cells[0], *cells[2:5]] == row(own)
    relations = found["MRR by relation, time-aware, in per cent, the most frequent first"]
    for relation, summary in metrics.by_relation("time-aware").items():
        cells = named(relations, relation)
        assert (cells[0], cells[-1]) == (row(summary)[0], f"{summary.queries}")
    for t, summary in metrics.by_time("time-aware").items():
        assert named(found["MRR by time, time-aware, in per cent"], loaded.facts.clock.format(t))[0] == row(summary)[0]
    for dt in (1, 2.5):
        far = loaded.evaluate(protocol=rank.horizon(dt))["time-aware"]
        assert named(found["By horizon, time-aware, in per cent"], f"{dt:g}", model) == row(far)
    for asked, direction in (("object asked: (s, r, ?)", "object"), ("subject asked: (?, r, o)", "subject")):
        parts = metrics.by_relation("time-aware", direction).values()  # type: ignore[arg-type]
        total = sum(part.queries for part in parts)
        mrr = sum(part.mrr * part.queries for part in parts) / total
        cells = named(found["By what is asked, time-aware, in per cent"], asked, model)
        assert (cells[0], cells[4]) == (f"{mrr:.2f}", f"{total}")


def test_groups_are_those_of_the_facts_before(page: str, loaded: tk.Forecaster) -> None:
    groups = tables(page)["By what was known, time-aware, in per cent"]
    new = loaded.evaluate(protocol=rank.inductive(loaded.seen))["time-aware"]
    assert named(groups, "newcomers", "tango-distmult")[:5] == [*row(new), f"{new.queries}"]
    facts, counts = loaded.facts, {"recurrent": 0, "pair-only": 0, "cold": 0}
    test = {
        (s, r, o, t) for s, r, o, t in zip(*(getattr(loaded.dataset.test, c).tolist() for c in "srot"), strict=True)
    }
    for s, r, o, t in test:
        before = facts.before(t)
        known = set(zip(before.s.tolist(), before.r.tolist(), before.o.tolist(), strict=True))
        for a, b in ((s, o), (o, s)):  # asked for the object, then for the subject
            met = any((x, y) in ((a, b), (b, a)) for x, _, y in known)
            counts["recurrent" if (s, r, o) in known else "pair-only" if met else "cold"] += 1
    listed = {cells[0]: cells[6] for cells in groups[1:] if cells[1] == "tango-distmult" and cells[0] in counts}
    assert listed == {name: f"{count}" for name, count in counts.items() if count}


def test_chances_are_those_of_calibration(page: str, loaded: tk.Forecaster) -> None:
    found = tables(page)
    for kind, one in loaded.calibration().items():
        told = named(found["Probabilities beside what happened"], kind, "tango-distmult")
        assert (told[0], told[2], told[3]) == (f"{len(one):,}", f"{one.brier:.4f}", f"{one.base_brier:.4f}")
    (line,) = re.findall(r"base rate, ([\d.]+) %", page)[:1]
    assert float(line) == pytest.approx(100 * loaded.calibration()["pair"].happened.mean(), abs=0.06)


def test_questions_show_what_the_model_said(page: str, loaded: tk.Forecaster) -> None:
    found, metrics = tables(page), loaded.evaluate()
    hardest = found["Hardest questions"][1:]
    ranks = metrics.ranks["time-aware"].realistic
    assert float(hardest[0][4]) == float(ranks.max())
    easiest = [float(cells[4]) for cells in found["Easiest questions"][1:]]
    assert set(easiest) == {float(ranks.min())}
    for question, at, true, said, _, share in hardest:
        names = unescape(question).strip("()").split(", ")
        answer = loaded.forecast(*(None if name == "?" else _known(loaded, name) for name in names), at=at, top=12)
        told = [f"{tk_line(one.name)} {one.share:.1%}" for one in answer.answers]
        assert said == " ".join(told[:3])
        (mine,) = (one for one in answer.answers if tk_line(one.name) == true)
        assert share == f"{mine.share:.1%}"
    explained = {tuple(cells[:2]) for kind in ("Hardest", "Easiest") for cells in found[f"{kind} questions"][1:3]}
    assert page.count("first; its own share, not calibrated") == len(explained)


def tk_line(name: str) -> str:
    from tangokg.errors import harmless_line

    return harmless_line(name)


def _known(loaded: tk.Forecaster, shown: str) -> str:
    """The name that is shown so."""
    vocab = loaded.facts.vocab
    return next(name for name in (*vocab.entities, *vocab.relations) if tk_line(name) == shown)


def test_the_epochs_and_the_run_are_told(page: str, run: Path) -> None:
    for line in read_log(run / "log.csv"):
        assert f"tango-distmult: {line['epoch']:,.4g}, {line['loss']:,.4g}</title>" in page
    told = dict(tables(page)["tango-distmult: training"][1:])
    assert told["learning_rate"] == str(RunFolder(run).config().train.learning_rate)
    assert dict(tables(page)["tango-distmult: run"][1:])["version"] == tk.__version__


def test_names_are_text(page: str) -> None:
    assert "<script" not in page.casefold()
    assert "onerror=alert(1)&gt;" in page
    assert "<img" not in page
    assert "<b>" not in page
    assert "\u202e" not in page
    assert {cell for cells in tables(page).values() for line in cells for cell in line} & {SCRIPT, "<b>calls</b>"}


def test_the_page_asks_nobody_for_anything(page: str, run: Path) -> None:
    markup = page.replace(NASTY[-1], "")  # a name that is an address is text
    assert re.findall(r"https?:|//|url\(|@import", markup) == []
    links = re.findall(r"(?:href|src|action|data)=\"([^\"]*)\"", page)
    assert {link for link in links if not link.startswith("#")} == {"data:,"}
    assert set(re.findall(r"<(\w+)[^>]* http-equiv=\"([^\"]*)\"", page)) == {("meta", "Content-Security-Policy")}
    assert "default-src &#x27;none&#x27;" in page
    idents = re.findall(r" id=\"([^\"]*)\"", page)
    assert len(set(idents)) == len(idents)
    assert {link[1:] for link in links if link.startswith("#")} <= set(idents)
    for secret in (str(run), str(run.parent), str(Path.home()), socket.gethostname()):
        assert secret not in page


def test_few_questions_are_drawn_and_the_page_says_so(run: Path, tmp_path: Path, loaded: tk.Forecaster) -> None:
    page = tk.write_report(run, tmp_path, questions=10, horizons=[1]).read_text(encoding="utf-8")
    drawn_metrics = loaded.evaluate(protocol=drawn(10))
    assert drawn_metrics.queries == 10
    assert torch.equal(loaded.evaluate(protocol=rank.horizon(2, drawn(10))).answer, drawn_metrics.answer)
    total = loaded.evaluate().queries
    assert f"10 of {total} questions, drawn evenly" in page
    found = tables(page)
    assert named(found["By filter, in per cent"], "raw", "tango-distmult") == row(drawn_metrics["raw"])
    (whole,) = (rows for caption, rows in found.items() if caption.startswith("All questions of the part"))
    assert whole[1][1:5] == row(loaded.evaluate()["time-aware"])


def test_runs_stand_side_by_side_with_the_test_of_compare(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "run"
    tk.fit(make_nasty(), "tango-distmult", out=other, seed=1, **SMALL)
    counted = tk.fit(make_nasty(), "frequency", verbose=False)
    page = tk.write_report([run, other, counted], tmp_path / "all.html", horizons=[1]).read_text(encoding="utf-8")
    found = tables(page)
    wanted = tk.compare(make_nasty(), {"a": tk.load(run), "b": tk.load(other), "c": counted}, verbose=False)
    names = {f"tango-distmult ({run.parent.name}/run)", "tango-distmult (other/run)", "frequency", "recurrency"}
    (head,) = (rows for caption, rows in found.items() if "questions of the test part" in caption)
    assert {cells[0] for cells in head[1:]} == names
    assert wanted.test is not None
    assert f"MRR {wanted.test.difference:+.2f}, 95 % interval {wanted.test.low:+.2f}" in page
    for name in names - {"recurrency"}:
        assert named(found["Probabilities beside what happened"], "fact", name)
    assert any("is furthest ahead of" in caption for caption in found)
    assert str(tmp_path) not in page


def test_runs_on_other_data_are_refused_before_anything_is_measured(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    make_forecaster("frequency", make_dataset(2)).save(other)
    with pytest.raises(TangoError, match=r"other was made with other data.*same facts as the first, tango-distmult"):
        tk.write_report([run, other], tmp_path / "both.html")
    assert not (tmp_path / "both.html").exists()


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_a_report(name: str, tmp_path: Path) -> None:
    """Whether it looks back or not, takes its windows one by one, or counts; plain steps instead of dates."""
    forecaster = make_forecaster(name, make_dataset(1))
    page = tk.write_report(forecaster, tmp_path, split="valid", horizons=[1]).read_text(encoding="utf-8")
    wanted = row(forecaster.evaluate("valid")["raw"])
    assert named(tables(page)["By filter, in per cent"], "raw", name) == wanted


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("there.html", {}, r"there.html exists; replace it \(--overwrite, overwrite=True\)"),
        ("report.pdf", {}, "expected a name that ends in .html or .htm"),
        ("no/report.html", {}, "expected the name of a file in an existing folder"),
        (None, {}, "no run folder; give a path"),
        ("a.html", {"questions": 0}, "questions is 0, expected at least 1"),
        ("a.html", {"horizons": [0]}, "horizons is 0, expected more than 0"),
        ("a.html", {"split": "train"}, "split is 'train'"),
    ],
)
def test_what_cannot_be_written_is_told_first(
    path: str | None, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    (tmp_path / "there.html").write_text("mine")
    with pytest.raises(TangoError, match=message):
        tk.write_report(make_forecaster("frequency"), None if path is None else tmp_path / path, **options)
    assert (tmp_path / "there.html").read_text() == "mine"


def test_a_part_without_facts_and_no_runs_at_all_are_errors(tmp_path: Path) -> None:
    data = make_dataset(1)
    empty = Dataset(data.train, data.valid, data.test.select(slice(0)), "small")
    with pytest.raises(TangoError, match="the test part is empty"):
        tk.write_report(make_forecaster("frequency", empty), tmp_path / "a.html")
    with pytest.raises(TangoError, match="runs is empty"):
        tk.write_report([], tmp_path / "a.html")
    with pytest.raises(TangoError, match="3 is not a run: expected its folder, or a forecaster"):
        tk.write_report([3], tmp_path / "a.html")  # type: ignore[list-item]
    with pytest.raises(TangoError, match="no run is here"):
        tk.write_report(str(tmp_path / "nowhere"), tmp_path / "a.html")


def test_an_existing_report_is_replaced_if_that_is_wanted_and_progress_is_told(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("old")
    told: list[tuple[int, int, str]] = []
    file = tk.write_report(
        make_forecaster("frequency"), tmp_path, overwrite=True, progress=lambda *step: told.append(step)
    )
    assert file == tmp_path / "report.html"
    assert file.read_text().startswith("<!DOCTYPE html>")
    done = [step[0] for step in told]
    assert done == sorted(done)
    assert {step[1] for step in told} == {told[-1][0]}
    assert {"ranking: frequency", "calibration: frequency", "questions"} <= {step[2] for step in told}


def test_a_run_that_saw_too_much_is_marked_and_not_compared_unless_that_is_allowed(tmp_path: Path) -> None:
    runs = [make_forecaster("frequency"), make_forecaster("copy-last")]
    runs[1].exposure = replace(runs[1].exposure, seen="it saw <all>")
    marked = tk.write_report(runs[1], tmp_path / "a.html", horizons=[1]).read_text()
    assert "copy-last (not comparable)" in marked
    assert "it saw &lt;all&gt;" in marked
    with pytest.raises(TangoError, match="copy-last is not comparable: it saw <all>"):
        tk.write_report(runs, tmp_path / "b.html")
    page = tk.write_report(runs, tmp_path / "b.html", allow_seen=True, horizons=[1]).read_text()
    assert "copy-last (not comparable)" in page
    assert "sign-flip" not in page

"""Findings -> the sections about single answers: how far chances hold, the hardest and easiest questions, reasons."""

from __future__ import annotations

from collections.abc import Sequence

from tangokg.rank.calibration import BIN, Calibration
from tangokg.report.charts import Axis, Line, chart, style_of
from tangokg.report.findings import Example, Explained, Findings, Said
from tangokg.report.markup import Html, folded, joined, table, tag

DRAWN = ("pair", "fact", "share")  # kinds of probabilities with a figure; the table has all
SAID = ("said", "rank", "share of the true answer")


def calibration(found: Findings) -> Html:
    """What was said against what happened, beside the base rate."""
    figures = [_reliability(found, kind) for kind in found.kinds if kind in DRAWN]
    rows = [[kind, run.name, *_figures(run.calibration[kind])] for kind in found.kinds for run in found.runs]
    columns = ("kind", "model", "answers", "happened", "Brier", "base rate's", "skill", "error (points)")
    parts: list[object] = [
        tag("div", *figures, class_="figures"),
        table("calibration", "Probabilities beside what happened", columns, rows, (0, 1), True),
        tag("ul", *(tag("li", f"{kind}: {told.partition(': ')[2]}.") for kind, told in found.kinds.items())),
        tag(
            "p",
            "On the dashed diagonal a probability is right. The dotted line is the base rate: the share of all answers "
            "that happened. Skill is the part of the base rate's Brier score that is gone: 100 % is perfect, 0 % no "
            "better than to say how often it was so before. The error is how far said and happened are apart.",
        ),
    ]
    bins = [
        [kind, run.name, f"{one.said:.1%}", f"{one.happened:.1%}", f"{one.answers:,}"]
        for kind in found.kinds
        for run in found.runs
        for one in run.calibration[kind].bins()
    ]
    told = table("bins", "Answers in bins of equally many", ("kind", "model", *BIN), bins, (0, 1), True)
    if len(found.runs[0].calibration["pair"]) == found.pairs:
        parts.insert(0, tag("p", f"A sample: {found.pairs:,} pairs, drawn evenly.", class_="notice"))
    return joined([*parts, folded("The figures as a table", told)])


def _reliability(found: Findings, kind: str) -> Html:
    """One kind of probability of all runs; their base rates are one line where they are the same."""
    bins = {run.name: run.calibration[kind].bins() for run in found.runs}
    curves = [[(100 * b.said, 100 * b.happened) for b in own] for own in bins.values()]
    lines = [Line(name, own, style_of(k)) for k, (name, own) in enumerate(zip(bins, curves, strict=True)) if own]
    rates = {round(_rate(run.calibration[kind]), 1): run.name for run in reversed(found.runs)}
    for base, name in reversed(rates.items()):
        told = f"base rate of {name}, {base} %" if len(rates) > 1 else f"base rate, {base} %"
        lines.append(Line(told, [(0, base), (100, base)], "base"))
    lines.append(Line("as said", [(0, 0), (100, 100)], "guide"))
    title = found.kinds[kind].partition(":")[0].capitalize()
    about = f"How often it happened, in per cent, by the probability that was said. {found.kinds[kind].capitalize()}."
    axes = Axis("said (per cent)", 0, 100), Axis("happened (per cent)", 0, 100)
    return chart(f"calibration-{kind}", title, about, lines, *axes)


def _rate(one: Calibration) -> float:
    return 100 * float(one.happened.mean()) if len(one) else 0.0


def _figures(one: Calibration) -> list[str]:
    figures = [f"{one.brier:.4f}", f"{one.base_brier:.4f}", f"{one.skill:.1%}", f"{100 * one.error():.1f}"]
    return [f"{len(one):,}", f"{_rate(one):.1f} %", *figures]


def examples(found: Findings) -> Html:
    """Questions with names: what was asked, what was true, what each run said."""
    make = _side_by_side if len(found.runs) > 1 else _alone
    return joined(make(f"examples-{k}", title, asked, found) for k, (title, asked) in enumerate(found.examples.items()))


def _alone(ident: str, title: str, asked: Sequence[Example], found: Findings) -> Html:
    rows = [[one.question, one.at, one.answer, *_said(one.said[0])] for one in asked]
    return table(ident, title, ("question", "time", "true answer", *SAID), rows, (0, 1, 2, 3))


def _side_by_side(ident: str, title: str, asked: Sequence[Example], found: Findings) -> Html:
    """A question with a row for each run."""
    rows = []
    for one in asked:
        question = joined([one.question, tag("br"), one.at, tag("br"), f"true: {one.answer}"])
        rows += [[question, run.name, *_said(said)] for run, said in zip(found.runs, one.said, strict=True)]
    return table(ident, title, ("question", "model", *SAID), rows, (0, 1, 2), True)


def _said(said: Said) -> list[object]:
    """The first names with their shares, the rank and the share of the true answer."""
    first = tag("ol", *(tag("li", f"{name} {share:.1%}") for name, share in said.first), class_="said")
    return [first, f"{said.rank:,.1f}".removesuffix(".0"), f"{said.truth:.1%}"]


def reasons(found: Findings) -> Html:
    """Why the first answers to some questions came first."""
    parts = []
    questions = dict.fromkeys((one.question, one.at) for one in found.reasons)
    for place, (question, at) in enumerate(questions):
        parts.append(tag("h3", f"{question} at {at}"))
        own = [one for one in found.reasons if (one.question, one.at) == (question, at)]
        parts += [_explained(f"reasons-{place}-{number}", one) for number, one in enumerate(own)]
    return joined(parts)


def _explained(ident: str, one: Explained) -> Html:
    caption = f"{one.run} said {one.answer} first; its own share, not calibrated, is {one.share:.1%}"
    return table(ident, caption, one.headings, one.rows, words=(1, 2))

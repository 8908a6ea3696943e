"""Findings -> the sections about single answers: calibration, the hardest and easiest questions, reasons."""

from __future__ import annotations

from collections.abc import Sequence

from tangokg.rank.calibration import BIN, Calibration
from tangokg.report.charts import Axis, Line, chart, style_of
from tangokg.report.findings import Example, Explained, Findings, Said
from tangokg.report.markup import Html, folded, joined, table, tag

DRAWN = ("pair", "fact", "share")  # kinds of probabilities with a figure; the table has all
SAID = ("said", "rank", "share of the true answer")


def calibration(findings: Findings) -> Html:
    """Predicted probabilities against what happened, with the base rate."""
    figures = [_reliability(findings, kind) for kind in findings.kinds if kind in DRAWN]
    rows = [[kind, run.name, *_figures(run.calibration[kind])] for kind in findings.kinds for run in findings.runs]
    columns = ("kind", "model", "answers", "happened", "Brier", "base rate's", "skill", "error (points)")
    parts: list[object] = [
        tag("div", *figures, class_="figures"),
        table("calibration", "Probabilities beside what happened", columns, rows, (0, 1), True),
        tag("ul", *(tag("li", f"{kind}: {text.partition(': ')[2]}.") for kind, text in findings.kinds.items())),
        tag(
            "p",
            "On the dashed diagonal a probability is right. The dotted line is the base rate: the share of all answers "
            "that happened. Skill is the part of the base rate's Brier score that is gone: 100 % is perfect, 0 % no "
            "better than to say how often it was so before. The error is how far said and happened are apart.",
        ),
    ]
    bins = [
        [kind, run.name, f"{b.said:.1%}", f"{b.happened:.1%}", f"{b.answers:,}"]
        for kind in findings.kinds
        for run in findings.runs
        for b in run.calibration[kind].bins()
    ]
    bin_table = table("bins", "Answers in bins of equally many", ("kind", "model", *BIN), bins, (0, 1), True)
    if len(findings.runs[0].calibration["pair"]) == findings.pairs:
        parts.insert(0, tag("p", f"A sample: {findings.pairs:,} pairs, drawn evenly.", class_="notice"))
    return joined([*parts, folded("The figures as a table", bin_table)])


def _reliability(findings: Findings, kind: str) -> Html:
    """The reliability curves of all runs for one kind of probability; equal base rates share one line."""
    bins = {run.name: run.calibration[kind].bins() for run in findings.runs}
    curves = [[(100 * b.said, 100 * b.happened) for b in points] for points in bins.values()]
    lines = [
        Line(name, points, style_of(k)) for k, (name, points) in enumerate(zip(bins, curves, strict=True)) if points
    ]
    rates = {round(_rate(run.calibration[kind]), 1): run.name for run in reversed(findings.runs)}
    for base, name in reversed(rates.items()):
        label = f"base rate of {name}, {base} %" if len(rates) > 1 else f"base rate, {base} %"
        lines.append(Line(label, [(0, base), (100, base)], "base"))
    lines.append(Line("as said", [(0, 0), (100, 100)], "guide"))
    title = findings.kinds[kind].partition(":")[0].capitalize()
    about = (
        f"How often it happened, in per cent, by the probability that was said. {findings.kinds[kind].capitalize()}."
    )
    axes = Axis("said (per cent)", 0, 100), Axis("happened (per cent)", 0, 100)
    return chart(f"calibration-{kind}", title, about, lines, *axes)


def _rate(calibration: Calibration) -> float:
    return 100 * float(calibration.happened.mean()) if len(calibration) else 0.0


def _figures(calibration: Calibration) -> list[str]:
    figures = [
        f"{calibration.brier:.4f}",
        f"{calibration.base_brier:.4f}",
        f"{calibration.skill:.1%}",
        f"{100 * calibration.error():.1f}",
    ]
    return [f"{len(calibration):,}", f"{_rate(calibration):.1f} %", *figures]


def examples(findings: Findings) -> Html:
    """Questions by name, with the true answer and the prediction of each run."""
    make = _side_by_side if len(findings.runs) > 1 else _alone
    return joined(
        make(f"examples-{k}", title, group, findings) for k, (title, group) in enumerate(findings.examples.items())
    )


def _alone(ident: str, title: str, examples: Sequence[Example], findings: Findings) -> Html:
    rows = [[example.question, example.at, example.answer, *_prediction_cells(example.said[0])] for example in examples]
    return table(ident, title, ("question", "time", "true answer", *SAID), rows, (0, 1, 2, 3))


def _side_by_side(ident: str, title: str, examples: Sequence[Example], findings: Findings) -> Html:
    """A table with a row for each question and run."""
    rows = []
    for example in examples:
        question = joined([example.question, tag("br"), example.at, tag("br"), f"true: {example.answer}"])
        rows += [
            [question, run.name, *_prediction_cells(prediction)]
            for run, prediction in zip(findings.runs, example.said, strict=True)
        ]
    return table(ident, title, ("question", "model", *SAID), rows, (0, 1, 2), True)


def _prediction_cells(prediction: Said) -> list[object]:
    """The first names with their shares, the rank and the share of the true answer."""
    first = tag("ol", *(tag("li", f"{name} {share:.1%}") for name, share in prediction.first), class_="said")
    return [first, f"{prediction.rank:,.1f}".removesuffix(".0"), f"{prediction.truth:.1%}"]


def reasons(findings: Findings) -> Html:
    """Why the first answers to some questions came first."""
    parts = []
    questions = dict.fromkeys((reason.question, reason.at) for reason in findings.reasons)
    for place, (question, at) in enumerate(questions):
        parts.append(tag("h3", f"{question} at {at}"))
        explained = [reason for reason in findings.reasons if (reason.question, reason.at) == (question, at)]
        parts += [_explained(f"reasons-{place}-{number}", reason) for number, reason in enumerate(explained)]
    return joined(parts)


def _explained(ident: str, reason: Explained) -> Html:
    caption = f"{reason.run} said {reason.answer} first; its own share, not calibrated, is {reason.share:.1%}"
    return table(ident, caption, reason.headings, reason.rows, words=(1, 2))

"""Findings -> the sections of a report: what was measured, as figures and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from tangokg.errors import DataError
from tangokg.rank.filters import FILTERS
from tangokg.rank.metrics import HITS, Summary
from tangokg.report.charts import DATES, Axis, Line, chart, style_of
from tangokg.report.compare import FILTER
from tangokg.report.findings import Findings, Ranked, directions, narrowed, over_time
from tangokg.report.markup import Html, bullets, folded, joined, safe, table, tag, values

FIGURES = ("MRR", *(f"Hits@{k}" for k in HITS))
MOST_RELATIONS = 12, 500  # shown at once, and when opened
FILTERS_TOLD = {
    "raw": "every other candidate counts",
    "time-aware": "what else is true at the time of the question does not count",
    "time-unaware": "what is true at any time does not count",
}
DIRECTIONS_TOLD = {"object": "object asked: (s, r, ?)", "subject": "subject asked: (?, r, o)"}


def cells(summary: Summary) -> list[str]:
    """MRR and Hits@k in per cent."""
    return [f"{value:.2f}" for value in summary.to_dict().values()]


def style(findings: Findings, model: Ranked) -> str:
    """Each run has its own colour; counters are grey."""
    place = findings.models.index(model)
    return style_of(place) if place < len(findings.runs) else f"beside{(place - len(findings.runs)) % 2}"


def headline(findings: Findings) -> Html:
    """The metrics of all models, and the significance test."""
    rows: list[list[object]] = []
    for row in findings.rows:
        mrr, *hits = cells(row.figures)
        trained = "" if row.train_seconds is None else f"{row.train_seconds:,.1f}"
        rows.append([row.name, mrr, f"{row.low:.2f} to {row.high:.2f}", *hits, trained])
    columns = ("model", FIGURES[0], "95 % interval", *FIGURES[1:], "training (s)")
    caption = f"{findings.asked:,} questions of the {findings.split} part, {FILTER}, in per cent"
    parts: list[object] = [
        tag(
            "p",
            f"{run.name} has the true answer first in {run.metrics[FILTER].hits[1]:.1f}\u00a0% of the questions, and "
            f"among its first ten in {run.metrics[FILTER].hits[10]:.1f}\u00a0%.",
        )
        for run in findings.runs
    ]
    parts.append(table("headline", caption, columns, rows))
    if findings.tested:
        first, second, test = findings.tested
        parts.append(
            tag(
                "p",
                f"{first} less {second}: MRR {test.difference:+.2f}, 95 % interval {test.low:+.2f} to "
                f"{test.high:+.2f}, p = {test.p:.4f} (sign-flip test over the questions).",
            )
        )
    stored = [(run.name, *run.stored) for run in findings.runs if findings.sampled and run.stored]
    if stored:
        stored_rows = [[name, *(f"{x:.2f}" for x in figures.values()), f"{count:,}"] for name, figures, count in stored]
        caption = "All questions of the part, as measured at the end of training, time-aware, in per cent"
        parts.append(table("stored", caption, ("model", *FIGURES, "questions"), stored_rows))
    return joined(parts)


def by_filter(findings: Findings) -> Html:
    rows = [[name, model.name, *cells(model.metrics[name])] for name in FILTERS for model in findings.models]
    about = bullets(f"{name}: {FILTERS_TOLD[name]}." for name in FILTERS)
    return joined(
        [table("filters", "By filter, in per cent", ("filter", "model", *FIGURES), rows, (0, 1), True), about]
    )


def by_direction(findings: Findings) -> Html:
    groups = {DIRECTIONS_TOLD[name]: rows for name, rows in directions(findings.runs[0].metrics).items()}
    return _groups_table("direction", "By what is asked, time-aware, in per cent", "asked", findings, groups)


def by_stratum(findings: Findings) -> Html:
    return joined(
        [
            _groups_table("strata", "By what was known, time-aware, in per cent", "group", findings, findings.groups),
            bullets(
                [
                    "recurrent: the fact of the answer was there before.",
                    "pair-only: another fact of the same two was there before, this one was not.",
                    "cold: subject and object were never seen together.",
                    "newcomers: training never saw the subject or the object. They may be in any of the other groups.",
                ]
            ),
        ]
    )


def _groups_table(ident: str, caption: str, heading: str, findings: Findings, groups: Mapping[str, Tensor]) -> Html:
    """A row for each group and model."""
    rows: list[list[object]] = []
    for name, mask in groups.items():
        count = int(mask.sum())
        for model in findings.models if count else ():
            share = f"{100 * count / findings.asked:.1f} %"
            rows.append([name, model.name, *cells(narrowed(model.metrics, mask)[FILTER]), f"{count:,}", share])
    return table(ident, caption, (heading, "model", *FIGURES, "questions", "of all"), rows, (0, 1), True)


def by_relation(findings: Findings) -> Html:
    """The most frequent relations, and all of them in a folded table."""
    summaries = [model.metrics.by_relation(FILTER) for model in findings.models]
    order = sorted(summaries[0], key=lambda relation: -summaries[0][relation].queries)
    names = [model.name for model in findings.models]
    rows = [
        [relation, *(f"{of[relation].mrr:.2f}" for of in summaries), f"{summaries[0][relation].queries:,}"]
        for relation in order[: MOST_RELATIONS[1]]
    ]
    columns = ("relation", *(f"MRR, {name}" for name in names), "questions")
    few, caption = MOST_RELATIONS[0], "MRR by relation, time-aware, in per cent, the most frequent first"
    parts: list[object] = [table("relations", caption, columns, rows[:few])]
    if len(rows) > few:
        cut = f", the first {len(rows)}" if len(rows) < len(order) else ""
        full_table = table("relations-all", f"MRR by relation: all {len(order):,}{cut}", columns, rows)
        parts.append(folded(f"All {len(order):,} relations", full_table))
    return joined(parts)


def by_time(findings: Findings) -> Html:
    """MRR of the questions at each time."""
    curves = {model.name: over_time(model.metrics, FILTER) for model in findings.models}
    lines = _mrr_lines(findings, curves)
    times = list(next(iter(curves.values())))
    x = Axis(_time_label(findings), times[0], times[-1], lambda t: _date(findings, t), True, DATES)
    title = "MRR over time"
    about = f"MRR of the questions asked at each time of the {findings.split} part, time-aware, in per cent."
    rows = [
        [
            _date(findings, t),
            *(f"{of[t].mrr:.2f}" for of in curves.values()),
            f"{curves[findings.runs[0].name][t].queries:,}",
        ]
        for t in times
    ]
    columns = ("time", *(f"MRR, {name}" for name in curves), "questions")
    return joined(
        [
            chart("by-time", title, about, lines, x, _per_cent("MRR (per cent)", lines)),
            folded("The figure as a table", table("times", "MRR by time, time-aware, in per cent", columns, rows)),
        ]
    )


def by_horizon(findings: Findings) -> Html:
    """MRR of the same questions, asked further and further ahead."""
    curves = {model.name: model.horizons for model in findings.models}
    horizons = list(findings.runs[0].horizons)
    if not horizons:
        return tag("p", "The data are too short to ask further ahead.")
    lines = _mrr_lines(findings, curves)
    unit = findings.clock.unit
    x = Axis(f"how far ahead ({unit}s)", min(horizons), max(horizons), at=horizons)
    about = f"MRR of the same questions by how many {unit}s ahead they are asked, time-aware, in per cent."
    rows = [[f"{dt:g}", name, *cells(curves[name][dt])] for dt in horizons for name in curves]
    columns = (f"horizon ({unit}s)", "model", *FIGURES)
    return joined(
        [
            chart("by-horizon", "MRR by horizon", about, lines, x, _per_cent("MRR (per cent)", lines)),
            table("horizons", "By horizon, time-aware, in per cent", columns, rows, (0, 1), True),
        ]
    )


def _mrr_lines(findings: Findings, curves: Mapping[str, Mapping[float, Summary]]) -> list[Line]:
    return [
        Line(
            model.name, [(x, summary.mrr) for x, summary in sorted(curves[model.name].items())], style(findings, model)
        )
        for model in findings.models
    ]


def _per_cent(label: str, lines: Sequence[Line]) -> Axis:
    """From 0 to a round number above all points."""
    most = max((y for line in lines for _, y in line.points), default=100.0)
    return Axis(label, 0.0, min(100.0, 10.0 * (int(most / 10) + 1)))


def _time_label(findings: Findings) -> str:
    return f"time ({findings.clock.unit}s)" if findings.clock.origin is None else "date"


def _date(findings: Findings, t: float) -> str:
    try:
        return findings.clock.format(t)
    except DataError:  # a tick beyond the calendar
        return ""


def training(findings: Findings) -> Html:
    """Loss and validation MRR of each epoch."""
    logs = {run.name: run.log for run in findings.runs if run.log}
    parts: list[object] = []
    for key, title, label in (("loss", "Loss", "loss"), ("valid_mrr", "Validation MRR", "MRR (per cent)")):
        lines = [
            Line(name, [(row["epoch"], row[key]) for row in log if key in row], style_of(_place(findings, name)))
            for name, log in logs.items()
        ]
        lines = [line for line in lines if line.points]
        if lines:
            parts.append(_epochs(key, title, label, lines))
    notices = [
        f"{run.name}: {run.about['run'].get('ended', 'no epochs are kept')}." for run in findings.runs if not run.log
    ]
    return joined([tag("div", *parts, class_="figures") if parts else Html(), *(tag("p", text) for text in notices)])


def _epochs(key: str, title: str, label: str, lines: Sequence[Line]) -> Html:
    points = [point for line in lines for point in line.points]
    x = Axis("epoch", min(a for a, _ in points), max(a for a, _ in points), integer=True)
    low, high = min(b for _, b in points), max(b for _, b in points)
    room = 0.08 * (high - low) or 0.1 * abs(high) or 1.0
    y = Axis(label, max(0.0, low - room), high + room)
    return chart(key.replace("_", "-"), title, f"{title} of each epoch of training.", lines, x, y)


def _place(findings: Findings, name: str) -> int:
    return [run.name for run in findings.runs].index(name)


def about(findings: Findings) -> Html:
    """The description of each run."""
    parts: list[object] = []
    for place, run in enumerate(findings.runs):
        for subject, pairs in run.about.items():
            if not pairs or (place and subject == "data"):
                continue  # all runs have the same data
            caption = f"{findings.dataset}: data" if subject == "data" else f"{run.name}: {subject}"
            shown = values(f"about-{place}-{subject}", caption, [(key, _plain(value)) for key, value in pairs.items()])
            long = subject in ("settings", "training")
            parts.append(folded(f"{run.name}: {subject}", shown) if long else shown)
    return joined(parts)


def _plain(value: Any) -> Html:
    """A setting in TOML notation."""
    return safe(str(value).lower() if isinstance(value, bool) else value)

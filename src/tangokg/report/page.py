"""Sections -> one self-contained HTML file: no scripts, no external resources, inline style."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from tangokg.report import answers, sections
from tangokg.report.findings import Findings
from tangokg.report.markup import Html, bullets, joined, tag

STYLE = Path(__file__).with_name("report.css")
Section = tuple[str, str, Callable[[Findings], Html], str]  # id, title, content, what it is about

SECTIONS: tuple[Section, ...] = (
    (
        "results",
        "Results",
        sections.headline,
        "The best model comes first. The interval is a bootstrap over questions.",
    ),
    ("training", "Training", sections.training, ""),
    ("filter", "Filters", sections.by_filter, "A filter says which other true answers are left out of the ranking."),
    ("asked", "Subject or object", sections.by_direction, "Each fact is two questions."),
    ("relation", "Relations", sections.by_relation, ""),
    ("time", "Time", sections.by_time, "Each question is answered from what was known before its time."),
    ("stratum", "Recurrent and new", sections.by_stratum, "What was known of an answer when it was asked for."),
    ("horizon", "Horizon", sections.by_horizon, "The same questions, with the latest facts hidden."),
    (
        "calibration",
        "Calibration",
        answers.calibration,
        "All pairs that were active lately, with a fact or without one.",
    ),
    (
        "questions",
        "Hardest and easiest questions",
        answers.examples,
        "Said are the first names in the order of the model, each with its calibrated share: the probability if the "
        "question has an answer at all. Calibration also looks at how often a fact was seen: names far down may have "
        "large shares. Of questions about the same subject and relation one is shown.",
    ),
    (
        "reasons",
        "Reasons",
        answers.reasons,
        "Earlier facts that raised the first answer: how much of its share each explains, and the share without it.",
    ),
    ("run", "What was measured", sections.about, ""),
)


def render(findings: Findings) -> str:
    """The whole page."""
    style = STYLE.read_text(encoding="utf-8")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    names = ", ".join(run.name for run in findings.runs)
    title = f"{names} on {findings.dataset}"
    shown = [section for section in SECTIONS if section[0] != "reasons" or findings.reasons]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag(
            "meta",
            http_equiv="Content-Security-Policy",
            content=f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:",
        ),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content=f"tangokg {findings.version}"),
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        Html(f"<style>{style}</style>"),
    )
    body = tag(
        "body",
        tag("a", "To the results", href="#results", class_="skip"),
        tag("header", tag("h1", title), *_lead(findings)),
        tag("nav", bullets(tag("a", name, href=f"#{ident}") for ident, name, _, _ in shown), aria_label="Sections"),
        tag("main", joined(_section(findings, section) for section in shown)),
        tag("footer", tag("p", f"Made by tangokg {findings.version} on {findings.made}.")),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _lead(findings: Findings) -> list[Html]:
    """What the report covers, with notices that a reader needs."""
    clock, t = findings.clock, findings.runs[0].metrics.t
    first, last = (clock.format(float(end)) for end in (t.min(), t.max()))
    parts = [
        tag(
            "p",
            f"The {findings.split} part of {findings.dataset}, {first} to {last}: {findings.total:,} questions.",
            class_="lead",
        )
    ]
    if findings.sampled:
        notice = f"{findings.asked:,} of {findings.total:,} questions, drawn evenly, the same for every model."
        parts.append(tag("p", tag("strong", "A sample: "), notice, class_="notice"))
    for run in findings.runs:
        if mark := run.metrics.not_comparable:
            parts.append(tag("p", tag("strong", f"{run.name}: "), mark, class_="notice"))
    if findings.split == "valid":
        notice = "The models and their chances were chosen on this part: on later facts they are less accurate."
        parts.append(tag("p", notice, class_="notice"))
    return parts


def _section(findings: Findings, section: Section) -> Html:
    ident, title, make, about = section
    lead = tag("p", about, class_="about") if about else Html()
    return tag(
        "section",
        tag("h2", title, id=f"{ident}-heading"),
        lead,
        make(findings),
        id=ident,
        aria_labelledby=f"{ident}-heading",
    )

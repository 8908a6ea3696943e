"""What a question looks at is its own: others of the same time change no input, and nothing knows the answer."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from conftest import N, all_queries, make_timeline
from tangokg.history.activity import activity_of
from tangokg.history.occurrences import meetings_of, occurrences_of, past_of
from tangokg.history.partners import Partners, find_partners
from tangokg.history.paths import last_events
from tangokg.history.statistics import count, statistics
from tangokg.history.subjects import last_events_of
from tangokg.models.flagship import Flagship, FlagshipSettings
from tangokg.snapshots.timeline import Timeline
from tangokg.snapshots.windows import Queries, Windows, windows_at

GAP = 1.5


def look(timeline: Timeline, windows: Windows, queries: Queries, q: int) -> dict[str, Tensor]:
    """Every input of every branch for one of some queries."""
    partners = find_partners(timeline, windows, queries, GAP)
    u = int(partners.of[q])
    rows = slice(int(partners.start[u]), int(partners.start[u + 1]))
    past = partners.past
    found = {f"partners: {name}": getattr(past, name)[rows] for name in ("o", "fact", "count", "last", "at")}
    met = timeline.derive(count, meetings_of, GAP, torch.float64)
    found["meetings"] = statistics(met, past, partners.t)[rows]
    found |= same_facts(partners, q)
    names = ("there", "relation", "object", "age")
    found |= {f"stream: {name}": x[u] for name, x in zip(names, last_events_of(partners, 8, GAP), strict=True)}
    asked = torch.full_like(past.o[rows], q)
    found |= {f"path: {i}": x for i, x in enumerate(last_events(partners, asked, past.o[rows], 3, GAP))}
    activity, window = activity_of(partners, GAP, torch.float64), queries.window[q : q + 1]
    found["activity"] = activity.table.view(len(windows), N, -1)[int(window)]
    found["role"] = activity.events_with(window, queries.s[q : q + 1], queries.r[q : q + 1])
    return found


def same_facts(partners: Partners, q: int) -> dict[str, Tensor]:
    timeline, queries = partners.timeline, partners.queries
    facts = timeline.derive(count, occurrences_of, GAP, torch.float64)
    known, t = (column[queries.window] for column in (partners.windows.known, partners.windows.t))
    past = past_of(facts.occurrences, queries.s * facts.occurrences.num_labels + queries.r, known)
    return {"facts": statistics(facts, past, t[past.row])[past.row == q], "objects": past.o[past.row == q]}


def test_other_questions_of_the_same_time_change_no_input() -> None:
    timeline = make_timeline(5)
    windows, queries = windows_at(timeline, torch.tensor([4, 7])), all_queries(2)
    for q in range(0, len(queries), 11):
        alone = look(timeline, windows, queries.select(slice(q, q + 1)), 0)
        for name, among in look(timeline, windows, queries, q).items():
            assert torch.equal(among, alone[name]), name


def test_candidates_and_scores_are_found_without_the_answer() -> None:
    timeline = make_timeline(5)
    windows, queries = windows_at(timeline, torch.tensor([4, 7])), all_queries(2)
    settings = FlagshipSettings(dim=5, width=8, hops=2)
    model = Flagship(settings, timeline, torch.Generator().manual_seed(0)).double().eval()
    other = replace(queries, answer=(queries.answer + 1) % N)
    with torch.no_grad():
        encoded = model.encode(timeline, windows)
        (scores, heads), (others, their_heads) = (model.branches(encoded, asked, None) for asked in (queries, other))
    assert torch.equal(scores, others)
    for mine, theirs in zip(heads, their_heads, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))

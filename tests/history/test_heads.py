"""Each head against its formula, one query and one candidate at a time."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm

from conftest import N, R, equal, make_timeline
from history.test_history import GAP, ORDERS, Event, events_before, group, partners_at
from tangokg.history.occurrences import past_of
from tangokg.history.pairs import PairScorer
from tangokg.history.partners import Partners
from tangokg.history.paths import Paths, PathSettings, Step
from tangokg.history.second import PairSettings, ScoredPairs, best_of
from tangokg.history.statistics import NUM_STATISTICS, count, statistics, time_code
from tangokg.history.subjects import ATTENTION_HEADS, SubjectStream
from tangokg.snapshots.timeline import Timeline

D, TARGET = 4, [4, 8]


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def states() -> Tensor:
    """(windows, N, D)"""
    return torch.randn(len(TARGET), N, D, dtype=torch.float64, generator=generator())


def project(weight: Tensor, window: Tensor, entity: Tensor) -> Tensor:
    return states()[window, entity] @ weight


def normed(x: Tensor, layer: torch.nn.Module) -> Tensor:
    assert isinstance(layer, torch.nn.LayerNorm)
    return layer_norm(x, x.shape[-1:], layer.weight, layer.bias, layer.eps)


def past_events(timeline: Timeline, known: int, s: int, o: int | None, size: int) -> list[Event]:
    """The last events of s, with o or with anyone, the latest first."""
    return [e for e in events_before(timeline, known) if e[0] == s and o in (None, e[2])][::-1][:size]


def statistics_of(timeline: Timeline, name: str, s: int, r: int, o: int, known: int, t: float) -> Tensor | None:
    counted = timeline.derive(count, ORDERS[name], GAP, torch.float64)
    past = past_of(counted.occurrences, torch.tensor([group(name, s, r)]), torch.tensor([known]))
    at = (past.o == o).nonzero()[:, 0]
    return statistics(counted, past, torch.full((len(past.o),), t, dtype=torch.float64))[at[0]] if len(at) else None


def activity(timeline: Timeline, name: str, s: int, r: int, known: int, t: float) -> Tensor:
    """Of all events of s ("acts"), or of those with r ("uses")."""
    found = statistics_of(timeline, name, s, r, 0, known, t)
    return torch.zeros(NUM_STATISTICS, dtype=torch.float64) if found is None else found


def code_of(t: float, at: float) -> Tensor:
    return time_code(torch.tensor((t - at) / GAP, dtype=torch.float64))


def make_pairs(**more: int | bool) -> PairScorer:
    settings = PairSettings(width=8, rank=3, stream=3, dropout=0.0, **more)  # type: ignore[arg-type]
    scorer = PairScorer(settings, D, 2 * R, generator()).double()
    learned = (scorer.out, scorer.ahead, scorer.flatten, scorer.habits, scorer.meeting_habits, scorer.meeting_weights)
    for weight in (scorer.second.compared, scorer.second.out, *learned):
        torch.nn.init.normal_(weight, generator=generator())
    return scorer


def cheap(scorer: PairScorer, partners: Partners, q: int, o: int, plain: bool = False) -> tuple[Tensor, Tensor]:
    """Score K(o) and state y of one partner of one query; ``plain`` leaves the part of y out of the score."""
    queries, timeline = partners.queries, partners.timeline
    w, s, r = int(queries.window[q]), int(queries.s[q]), int(queries.r[q])
    known, t = TARGET[w], float(partners.windows.t[w])
    g = torch.zeros(3, dtype=torch.float64)
    for i, event in enumerate(past_events(timeline, known, s, o, 3)):
        g = g + gelu(scorer.event[event[1]] + code_of(t, event[3]) @ scorer.time + scorer.position[i])
    met = statistics_of(timeline, "meetings", s, 0, o, known, t)
    assert met is not None
    product = scorer.asked[r] * g
    x = scorer.relation[r] + states()[w, s] @ scorer.subject + states()[w, o] @ scorer.object
    ahead = time_code(partners.ahead[w])
    x = x + met @ scorer.meeting + g @ scorer.pair + product @ scorer.product + ahead @ scorer.ahead
    x = x + activity(timeline, "acts", s, 0, known, t) @ scorer.acts[0]
    x = x + activity(timeline, "uses", s, r, known, t) @ scorer.acts[1]
    x = x + activity(timeline, "acts", o, 0, known, t) @ scorer.acts[2]
    k = product.sum() + met @ (scorer.meeting_weights[r] + states()[w, s] @ scorer.meeting_habits)
    if (same := statistics_of(timeline, "facts", s, r, o, known, t)) is not None:
        x, k = x + same @ scorer.same, k + same @ (scorer.weights[r] + states()[w, s] @ scorer.habits)
    y = gelu(normed(x, scorer.norm))
    return k * torch.exp(ahead @ scorer.flatten) + (0.0 if plain else y @ scorer.out) + scorer.bias, y


@pytest.mark.parametrize("compete", [False, True])
def test_pairs_are_scored_by_the_formula(compete: bool) -> None:
    timeline = make_timeline(6)
    partners = partners_at(timeline, TARGET)
    scorer = make_pairs(best=2, compete=compete)
    with torch.no_grad():
        found = scorer.score(partners, project, GAP)
        for q in range(0, len(partners.queries), 7):
            rows = (found.query == q).nonzero()[:, 0]
            if not len(rows):
                continue
            looks = {int(o): cheap(scorer, partners, q, int(o)) for o in found.o[rows]}
            values = {o: value for o, (value, _) in looks.items()}
            best = sorted(looks, key=lambda o: -float(values[o]))[:2]
            second = scorer.second
            y = torch.stack([looks[o][1] for o in best])
            w, r = int(partners.queries.window[q]), int(partners.queries.r[q])
            known, t = TARGET[w], float(partners.windows.t[w])
            roles = torch.stack([activity(timeline, "uses", o, (r + R) % (2 * R), known, t) for o in best])
            y = y + gelu(normed(y @ second.hidden + roles @ second.uses, second.norms[0]))
            change = y @ second.out
            if compete:
                q_, k_, v_ = (normed(y, second.norms[1]) @ second.project).chunk(3, dim=1)
                heads = []
                for part in torch.arange(8).chunk(second.ATTENTION_HEADS):
                    weight = (q_[:, part] @ k_[:, part].T / len(part) ** 0.5).softmax(1)
                    heads.append(weight @ v_[:, part])
                change = change + gelu(torch.cat(heads, dim=1)) @ second.compared
            for o, more in zip(best, change, strict=True):
                values[o] = values[o] + more
            assert equal(found.value[rows], torch.stack([values[int(o)] for o in found.o[rows]]))


def test_a_screen_that_all_pass_changes_nothing_and_others_keep_what_counts_and_events_say() -> None:
    timeline = make_timeline(6)
    partners = partners_at(timeline, TARGET)
    whole, wide = (make_pairs(best=2, screen=size).score(partners, project, GAP) for size in (0, 50))
    assert [equal(a, b) for a, b in ((whole.value, wide.value), (whole.state, wide.state))] == [True, True]
    assert len(wide.others[0][0]) == 0
    scorer = make_pairs(best=2, screen=2)
    pairs = scorer.score(partners, project, GAP)
    ((row, o, value),) = pairs.others
    assert len(row)
    assert set(zip(whole.query.tolist(), whole.o.tolist(), strict=True)) == {
        *zip(row.tolist(), o.tolist(), strict=True),
        *zip(pairs.query.tolist(), pairs.o.tolist(), strict=True),
    }
    for q in row.unique().tolist():
        plain = {i: cheap(scorer, partners, q, i, plain=True)[0] for i in whole.o[whole.query == q].tolist()}
        best = sorted(plain, key=lambda i: -float(plain[i]))[:2]
        assert sorted(best) == sorted(pairs.o[pairs.query == q].tolist())
        assert equal(value[row == q], torch.stack([plain[i] for i in o[row == q].tolist()]))


def test_the_best_of_each_row_are_its_largest_values() -> None:
    value = torch.tensor([1.0, 5.0, 3.0, 2.0])
    best, there = best_of(value, torch.tensor([0, 0, 0, 2]), torch.tensor([0, 3, 3]), 2)
    assert [row[mask].tolist() for row, mask in zip(best, there, strict=True)] == [[1, 2], [], [3]]


def test_the_subject_stream_attends_by_the_formula() -> None:
    timeline = make_timeline(6)
    partners = partners_at(timeline, TARGET)
    stream = SubjectStream(D, 4, 8, 2 * R, 0.0, generator()).double()
    for weight in (stream.out, stream.decay):
        torch.nn.init.normal_(weight, generator=generator())
    entities = torch.randn(N, D, dtype=torch.float64, generator=generator())
    queries = partners.queries
    h_s = states()[queries.window, queries.s]
    with torch.no_grad():
        found = stream(partners, h_s, lambda weight, o: (entities @ weight)[o], GAP)
        for q in range(0, len(queries), 5):
            w, s, r = int(queries.window[q]), int(queries.s[q]), int(queries.r[q])
            t = float(partners.windows.t[w])
            ask = (h_s[q] @ stream.query_state + stream.query_relation[r]).view(ATTENTION_HEADS, -1)
            context = torch.zeros_like(ask)
            weights, values = (
                [torch.zeros(ATTENTION_HEADS, dtype=torch.float64)],
                [torch.zeros_like(ask)],
            )  # "none of these"
            for _, r_, o, at in past_events(timeline, TARGET[w], s, None, 4):
                code = code_of(t, at)
                key = entities[o] @ stream.key_entity + stream.key_relation[r_] + code @ stream.key_time
                decay = stream.decay[r].view(ATTENTION_HEADS, -1) @ code
                weights.append((ask * key.view(ATTENTION_HEADS, -1)).sum(1) / 2**0.5 + decay)
                values.append((entities[o] @ stream.value_entity + stream.value_relation[r_]).view(ATTENTION_HEADS, -1))
            share = torch.stack(weights).softmax(0)  # (events + 1, heads)
            context = (share[..., None] * torch.stack(values)).sum(0).flatten()
            assert equal(found[q], context @ stream.out)


def test_paths_add_up_along_the_last_events_of_the_best_nodes() -> None:
    timeline = make_timeline(6)
    partners = partners_at(timeline, TARGET)
    pairs = make_pairs(best=2).score(partners, project, GAP)
    pairs = ScoredPairs(pairs.query, pairs.o, pairs.value.detach(), pairs.state.detach(), pairs.begin)
    settings = PathSettings(hops=2, nodes=(2, 3), edges=(3, 2), dim=3, width=5, dropout=0.0)
    paths = Paths(settings, D, 8, 2 * R, generator()).double()
    queries = partners.queries
    for step in paths.steps:
        assert isinstance(step, Step)
        torch.nn.init.normal_(step.ahead, generator=generator())
    with torch.no_grad():
        found = paths.walk(partners, pairs, project, GAP)
        for q in range(0, len(queries), 6):
            w, s, r = int(queries.window[q]), int(queries.s[q]), int(queries.r[q])
            rows = (pairs.query == q).nonzero()[:, 0].tolist()
            nodes = {int(pairs.o[i]): (float(pairs.value[i]), pairs.state[i] @ paths.start) for i in rows}
            for hop, step in enumerate(paths.steps):
                assert isinstance(step, Step)
                best = sorted(nodes, key=lambda o: -nodes[o][0])[: settings.nodes[hop]]
                arrived: dict[int, list[Tensor]] = {}
                for x in best:
                    for _, r_, o, at in past_events(timeline, TARGET[w], x, None, settings.edges[hop]):
                        code = code_of(float(partners.windows.t[w]), at)
                        way = gelu(step.event[r_] + code @ step.time + step.asked[r])
                        if o != s:
                            arrived.setdefault(o, []).append(nodes[x][1] * way)
                nodes = {}
                for o, messages in arrived.items():
                    n = torch.tensor(float(len(messages)), dtype=torch.float64)
                    total = torch.stack(messages).sum(0) / n.sqrt()
                    z = total @ step.arrived + n.log() * step.number + step.relation[r]
                    z = z + states()[w, s] @ step.subject + states()[w, o] @ step.object
                    z = z + time_code(partners.ahead[w]) @ step.ahead
                    t = float(partners.windows.t[w])
                    z = z + activity(timeline, "acts", o, 0, TARGET[w], t) @ step.acts[0]
                    z = z + activity(timeline, "uses", o, (r + R) % (2 * R), TARGET[w], t) @ step.acts[1]
                    nodes[o] = (float(gelu(normed(z, step.norm)) @ step.out + step.bias), total)
                query, objects, values = found[hop]
                here = dict(zip(objects[query == q].tolist(), values[query == q].tolist(), strict=True))
                assert here == pytest.approx({o: value for o, (value, _) in nodes.items()}, abs=1e-10)

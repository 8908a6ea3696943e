"""All known facts, indexed so that a question's part is found quickly; adding facts costs only their number."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from tangokg.history.activity import event_statistics
from tangokg.history.fact_rows import OBJECTS, Bools, edges_of, objects_of, rows_of, starts_of_pairs, unseen
from tangokg.history.occurrences import Past, count_unseen, past_of_label
from tangokg.history.runs import LONGEST_GAP
from tangokg.history.series import active_pairs
from tangokg.history.sorted_rows import (
    Column,
    Layers,
    add_rows,
    count_before,
    expand,
    first_rows,
    sort_rows,
)
from tangokg.history.subjects import last_edges
from tangokg.history.totals import EventTotals, total_events
from tangokg.quads.clock import Clock
from tangokg.quads.units import far_steps, usual_bounds
from tangokg.quads.values import Ids, Quadruples
from tangokg.quads.vocabulary import Vocabulary
from tangokg.snapshots.timeline import Timeline, build_timeline, on_times
from tangokg.snapshots.windows import Windows


@dataclass(frozen=True, eq=False)
class HistoryIndex:
    """Facts by time, and edges by subject and time: each fact gives two, the second of them ``back``.

    The tests check two laws: an index to which facts were added equals one built from all of them, and the part of a
    history that is selected for a question gives the same answer as the whole history.
    """

    vocab: Vocabulary
    clock: Clock
    t: Ids  # (T,) distinct times, ascending
    counts: Ids  # (T,) facts of each, as given
    pairs: Ids  # (T,) distinct (s, label) of each
    relations: Ids  # (R,) distinct facts of each
    facts: Layers  # of one group: s, r, o, moment
    edges: Layers  # by subject: back, r, o; each once
    timed: bool  # whether a moment says more than its step

    @cached_property
    def usual(self) -> HistoryIndex:
        """Without the times of facts that stand alone, decades from the rest; for questions about times only."""
        if self.clock.origin is None:
            return self
        low, high = usual_bounds(self.t, self.counts, far_steps(self.clock))
        rows = (self.t >= low) & (self.t <= high)
        return replace(self, t=self.t[rows], counts=self.counts[rows], pairs=self.pairs[rows])

    @cached_property
    def times(self) -> Tensor:
        """(T,) as timelines have them."""
        return torch.from_numpy(self.t.astype(np.float64))

    @property
    def num_edges(self) -> int:
        return sum(map(len, self.edges))

    # Growing

    def add(self, new: Quadruples) -> tuple[HistoryIndex, Ids]:
        """The index with these facts added, in its own ids, and the rows of those that were new, in their order.

        Names may be new: ``new.vocab`` extends the vocabulary of the index.
        """
        first = first_rows(new.s, new.r, new.o, new.t)
        s, r, o, t = (column[first] for column in (new.s, new.r, new.o, new.t))
        first = first[~self._contains(s, t, np.zeros_like(s), r, o)[1]]
        facts = new.select(first)
        edges = edges_of(facts)
        pairs, (s, times, back, r, o) = starts_of_pairs(edges), edges.read(slice(None))
        fresh = pairs & ~self._contains(s, times, back, r, o)[0]
        union = np.union1d(self.t, facts.t)
        counts, active = np.zeros_like(union), np.zeros_like(union)
        old, at = np.searchsorted(union, self.t), np.searchsorted(union, facts.t)
        counts[old], active[old] = self.counts, self.pairs
        counts += np.bincount(at, minlength=len(union))
        active += np.bincount(np.searchsorted(union, times[fresh]), minlength=len(union))
        relations = np.bincount(facts.r, minlength=new.vocab.num_relations)
        relations[: len(self.relations)] += self.relations
        by_time = add_rows(self.facts, rows_of(facts), distinct=False)
        by_subject = add_rows(self.edges, edges, distinct=True)
        timed = self.timed or new.exact is not None
        grown = HistoryIndex(new.vocab, self.clock, union, counts, active, relations, by_time, by_subject, timed)
        for key, layers in self._objects.items():
            mask = np.isin(s, unseen(np.frombuffer(key, bool), new.vocab.num_entities))
            rows_of_new = objects_of(tuple(column[mask] for column in (s, times, back, r, o)))
            grown._objects[key] = add_rows(layers, rows_of_new, distinct=False)
        for kind, totals in self._totals.items():
            new_edges: tuple[Column, ...] | None = (s, times, back, r, o)
            if kind[1]:
                new_edges = grown._starts_of(self, (s, times, back, r, o), kind[2])
            if new_edges is not None:
                grown._totals[kind] = totals.add(new_edges)
        return grown, first

    def _starts_of(self, before: HistoryIndex, new: tuple[Column, ...], gap: float) -> tuple[Column, ...] | None:
        """The new edges that begin a run; None if one of them joins a known run to a later one."""
        s, t, back, r, o = new
        longest = int(LONGEST_GAP * gap)
        if before._contains(s, t + 1, back, r, o, longest)[1].any():
            return None
        goes_on = self._contains(s, t - longest, back, r, o, longest)[1]
        return tuple(column[~goes_on] for column in new)

    def _contains(self, s: Ids, t: Ids, back: Ids, r: Ids, o: Ids, steps: int = 1) -> tuple[Bools, Bools]:
        """Which edges have their (s, r) in the index at their time, and which edges are in the index themselves.

        With ``steps``, at any of so many steps from their time on.
        """
        pair, edge = np.zeros(len(s), bool), np.zeros(len(s), bool)
        for layer in self.edges:
            rows, owner = expand(*layer.spans(s, t, t + steps))
            backs, labels, objects = (column[rows] for column in layer.columns)
            same = (backs == back[owner]) & (labels == r[owner])
            pair[owner[same]] = True
            edge[owner[same & (objects == o[owner])]] = True
        return pair, edge

    # What a question can see

    def rows_of(self, subjects: Ids) -> int:
        """The number of edges of these subjects."""
        return sum(int((end - start).sum()) for start, end in (x.spans(subjects, *EVER) for x in self.edges))

    def around(self, subjects: Ids) -> Timeline:
        """All edges of some subjects, on the times of the whole history; no transitions."""
        return self._timeline(self.take(subjects, *EVER))

    def window(self, snapshots: Ids) -> Timeline:
        """These snapshots in full, on the times of the whole history.

        The transition of a snapshot is correct if the snapshot before it is included, or does not exist.
        """
        days = self.t[snapshots]
        columns = [
            layer.read(expand(*layer.spans(np.zeros_like(days), days, days + 1))[0])[1:5] for layer in self.facts
        ]
        t, s, r, o = (np.concatenate(part) for part in zip(*columns, strict=True))
        return self._attach_totals(on_times(build_timeline(Quadruples(s, r, o, t, self.vocab, self.clock)), self.times))

    def whole(self) -> Timeline:
        """Everything."""
        _, t, s, r, o, _ = (
            np.concatenate(part) for part in zip(*(x.read(slice(None)) for x in self.facts), strict=True)
        )
        return build_timeline(Quadruples(s, r, o, t, self.vocab, self.clock))

    def take(self, subjects: Ids, since: float, before: float) -> tuple[Column, ...]:
        """s, t, back, r, o of the edges of some subjects."""
        parts = [layer.read(expand(*layer.spans(subjects, since, before))[0]) for layer in self.edges]
        return tuple(np.concatenate(part) for part in zip(*parts, strict=True))

    def last_edges(self, node: Tensor, known: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Like the function of this name, from the index."""
        nodes, before = node.cpu().numpy(), np.append(self.t, np.inf)[known.cpu().numpy()]
        parts = []
        for layer in self.edges:
            start, end = layer.spans(nodes, -np.inf, before)
            rows, owner = expand(np.maximum(start, end - size), end)
            rows = (end + np.maximum(start, end - size) - 1)[owner] - rows  # the latest first
            parts.append((owner, *layer.read(rows)[1:]))
        source, t, back, r, o = (np.concatenate(part).astype(np.int64) for part in zip(*parts, strict=True))
        label = r + back * self.vocab.num_relations
        if len(parts) > 1:
            order = np.lexsort((-o, -label, -t, source))
            place = np.arange(len(order)) - np.searchsorted(source[order], source[order])
            source, label, o, t = (column[order[place < size]] for column in (source, label, o, t))
        owner_rows, labels, others, times = (torch.from_numpy(x).to(node.device) for x in (source, label, o, t))
        return owner_rows, labels, others, times.to(self.times.dtype)

    def _timeline(self, columns: tuple[Column, ...]) -> Timeline:
        """Edges s, t, back, r, o as a timeline: sorted, each once."""
        s, t, back, r, o = columns
        label = r + back.astype(np.int64) * self.vocab.num_relations
        rows = sort_rows(np.zeros_like(t), t, (s, label, o.astype(np.int64)), distinct=True)
        j = np.searchsorted(self.t, rows.read(slice(None))[1])
        offset = np.searchsorted(j, np.arange(len(self.t) + 1))
        none, nothing = torch.zeros(0, dtype=torch.int64), torch.zeros(len(offset), dtype=torch.int64)
        s, label, o = rows.columns
        timeline = Timeline(
            t=self.times,
            s=torch.from_numpy(s),
            r=torch.from_numpy(label),
            o=torch.from_numpy(o),
            offset=torch.from_numpy(offset),
            change_s=none,
            change_r=none,
            change_o=none,
            change_sign=none,
            change_offset=nothing,
            num_entities=self.vocab.num_entities,
            num_relations=self.vocab.num_relations,
            vocab=self.vocab,
        )
        return self._attach_totals(timeline)

    def _attach_totals(self, timeline: Timeline) -> Timeline:
        """Attach to the timeline what its own edges cannot tell."""
        timeline.give(active_pairs, torch.from_numpy(self.pairs))
        timeline.give(past_of_label, self.past_of_label)
        timeline.give(event_statistics, self.event_statistics)
        timeline.give(last_edges, self.last_edges)
        return timeline.give(count_unseen, self.count_unseen)

    # Counting

    def relations_before(self, step: float) -> Ids:
        """(R,) distinct facts of each relation before a step."""
        later = self.window(np.flatnonzero(self.t >= step))
        forward = later.r[later.r < self.vocab.num_relations].numpy()
        return self.relations - np.bincount(forward, minlength=self.vocab.num_relations)

    @cached_property
    def _objects(self) -> dict[bytes, Layers]:
        return {}

    def objects(self, seen: Bools) -> Layers:
        """The times of each (label, object) with an object not ``seen``; made when first used, then kept up.

        Entities with higher ids than the last one seen count as new, including those added later.
        """
        seen = seen[: np.flatnonzero(seen)[-1] + 1] if seen.any() else seen[:0]
        key = seen.tobytes()
        if key not in self._objects:
            self._objects[key] = (objects_of(self.take(unseen(seen, self.vocab.num_entities), *EVER)),)
        return self._objects[key]

    @cached_property
    def _totals(self) -> dict[tuple[bool, bool, float], EventTotals]:
        """By whether they have labels, whether they are of starts alone, and the median gap."""
        return {}

    def event_statistics(
        self,
        windows: Windows,
        window: Tensor,
        entity: Tensor,
        label: Tensor | None,
        gap: float,
        dtype: torch.dtype,
        starts: bool,
    ) -> Tensor:
        """Like the function of this name, for windows that know everything, from totals kept up to date."""
        key = label is not None, starts, gap
        if key not in self._totals:
            everyone = self.take(np.arange(self.vocab.num_entities), *EVER)
            self._totals[key] = total_events(everyone, *key)
        t = windows.t.index_select(0, window)
        return self._totals[key].statistics(entity, label, t, self.vocab.num_relations, dtype)

    def past_of_label(self, label: Tensor, known: Tensor) -> Past:
        """Like the function of this name, from the index."""
        r_count = self.vocab.num_relations
        rows, counted = [], []
        for row, (r, before) in enumerate(zip(label.tolist(), known.tolist(), strict=True)):
            first = (2 * (r % r_count) + (r >= r_count)) * OBJECTS
            counted.append(count_before(self.objects(NOBODY), self._end(before), first, first + OBJECTS))
            rows.append(np.full(len(counted[-1][0]), row))
        groups, count, last = (np.concatenate(part) for part in zip(*counted, strict=True))
        columns = (np.concatenate(rows), groups % OBJECTS, count, np.searchsorted(self.t, last))
        of, o, counts, latest = (torch.from_numpy(x).to(label.device) for x in columns)
        return Past(of, torch.zeros_like(of), o, counts, latest, torch.zeros_like(of))

    def count_unseen(self, known: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Like the function of this name, from the index."""
        n, r_count = self.vocab.num_entities, self.vocab.num_relations
        layers, counted = self.objects(seen.cpu().numpy()), []
        for window, before in enumerate(known.tolist()):
            group, count, _ = count_before(layers, self._end(before))
            label, o = np.divmod(group, OBJECTS)
            counted.append((((window * n + o) * 2 + label % 2) * r_count + label // 2, count))
        number, count = (np.concatenate(part) for part in zip(*counted, strict=True))
        order = np.argsort(number)
        return torch.from_numpy(number[order]).to(known.device), torch.from_numpy(count[order]).to(known.device)

    def _end(self, known: int) -> float:
        """The time at which the first ``known`` snapshots end."""
        return float(self.t[known - 1]) + 1 if known else -np.inf


EVER = -np.inf, np.inf
NOBODY = np.zeros(0, bool)


def build_index(facts: Quadruples) -> HistoryIndex:
    """Sort all facts once."""
    rows, edges = rows_of(facts), edges_of(facts)
    of_time = edges.key % max(len(edges.times), 1)
    pairs = np.bincount(of_time[starts_of_pairs(edges)], minlength=len(rows.times))
    back, r, _ = edges.columns
    relations = np.bincount(r[back == 0], minlength=facts.vocab.num_relations)
    counts = np.bincount(rows.key, minlength=len(rows.times))
    timed = facts.exact is not None
    return HistoryIndex(facts.vocab, facts.clock, rows.times, counts, pairs, relations, (rows,), (edges,), timed)

"""Scores -> filtered ranks -> metrics, under any evaluation protocol."""

from __future__ import annotations

from tangokg.rank.candidate_tables import read_candidates
from tangokg.rank.candidates import CandidateLists, Candidates, candidate_lists
from tangokg.rank.evaluate import Exam, evaluate, examine, prepare
from tangokg.rank.filters import FILTERS, TrueFacts, true_facts
from tangokg.rank.listed import Listed, listed
from tangokg.rank.metrics import HITS, Metrics, Summary
from tangokg.rank.protocols import PROTOCOLS, SINGLE_STEP, Protocol, horizon, inductive, multi_step, named, tgb
from tangokg.rank.ranks import Ranks, rank_answers
from tangokg.rank.travel import distance_travelled

__all__ = [
    "FILTERS",
    "HITS",
    "PROTOCOLS",
    "SINGLE_STEP",
    "CandidateLists",
    "Candidates",
    "Exam",
    "Listed",
    "Metrics",
    "Protocol",
    "Ranks",
    "Summary",
    "TrueFacts",
    "candidate_lists",
    "distance_travelled",
    "evaluate",
    "examine",
    "horizon",
    "inductive",
    "listed",
    "multi_step",
    "named",
    "prepare",
    "rank_answers",
    "read_candidates",
    "tgb",
    "true_facts",
]

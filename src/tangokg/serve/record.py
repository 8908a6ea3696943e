"""The track record: how well posted facts were predicted, computed from the journal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tangokg.serve.journal import reading

Tell = Callable[[float], str | int | float]  # a step -> a readable time

RANKS = "SELECT rank AS x FROM scores UNION ALL SELECT rank_of_subject FROM scores"


def record(path: Path, tell: Tell) -> dict[str, Any]:
    """Metrics in per cent over all posted facts with known names; each fact is asked in both directions."""
    with reading(path) as db:
        position, batches = db.execute("SELECT coalesce(max(position), 0), count(*) FROM posts").fetchone()
        count, mrr, first, ten = db.execute(
            f"SELECT count(*), avg(1 / x), avg(x <= 1), avg(x <= 10) FROM ({RANKS})"
        ).fetchone()
        bins = db.execute(
            "SELECT sum(said) / sum(count), sum(happened) / sum(count), sum(count) FROM reliability "
            "GROUP BY bin ORDER BY bin"
        ).fetchall()
        over_time = db.execute(
            "SELECT step, 50 * avg(1 / rank + 1 / rank_of_subject), 2 * count(*) FROM scores "
            "GROUP BY step ORDER BY step"
        ).fetchall()
    percent = [None if x is None else 100 * x for x in (mrr, first, ten)]
    return {
        "position": position,
        "batches": batches,
        "questions": count,
        "mrr": percent[0],
        "hits@1": percent[1],
        "hits@10": percent[2],
        "reliability": [{"said": expected, "happened": happened, "count": n} for expected, happened, n in bins],
        "over_time": [{"at": tell(step), "mrr": mrr, "count": n} for step, mrr, n in over_time],
    }


def surprises(path: Path, tell: Tell, limit: int) -> dict[str, Any]:
    """The posted facts with the lowest predicted chance."""
    columns = ("subject", "relation", "object", "step", "rank", "chance", "posted_at")
    with reading(path) as db:
        (position,) = db.execute("SELECT coalesce(max(position), 0) FROM posts").fetchone()
        rows = db.execute(
            f"SELECT {', '.join(columns)} FROM scores JOIN posts USING (position) "
            "ORDER BY chance, rank DESC, position DESC LIMIT ?",
            (limit,),
        ).fetchall()
    facts = [dict(zip(columns, row, strict=True)) for row in rows]
    renamed = [{"at" if k == "step" else k: tell(v) if k == "step" else v for k, v in fact.items()} for fact in facts]
    return {"position": position, "surprises": renamed}

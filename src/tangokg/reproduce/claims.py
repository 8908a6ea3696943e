"""The paper's claims in words, tested on our results: each is true, not true, or not measured yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tangokg.reproduce.cells import WITHOUT, find_table
from tangokg.reproduce.presets import MEASURED, THINNED
from tangokg.reproduce.store import Results, Value

OPEN = "not measured yet"
REMEASURED = {"ICEWS14s": 36.8}  # of TANGO, by others, on a set that is not in the paper
NOISE = 0.3  # points of MRR: a smaller difference says nothing with one seed


@dataclass(frozen=True)
class Claim:
    """What is claimed, and a function of the results that says what they show."""

    text: str
    test: Callable[[Results], tuple[bool | None, str]]  # true or not, None: not measured; the figures

    def told(self, results: Results) -> tuple[str, str, str]:
        """Claim, verdict, figures."""
        holds, figures = self.test(results)
        verdict = OPEN if holds is None else "true" if holds else "**not true**"
        return self.text, verdict, figures


def value(results: Results, table: str, **place: str) -> Value | None:
    """The paper-form value of one cell."""
    cells = find_table(table).of(**({"form": "paper form", "metric": "mrr"} | place))
    return results.value(cells[0]) if cells else None


def _transition(results: Results) -> tuple[bool | None, str]:
    gains = _gains(results, "all")
    return (min(gains.values()) > NOISE, _listed(gains)) if gains else (None, "")


def _gains(results: Results, column: str) -> dict[str, float]:
    found = {}
    for data in ("ICEWS05-15", "WIKI"):
        for model in ("TANGO-TuckER", "TANGO-DistMult"):
            pair = [value(results, "ablation", row=f"{model}{end} on {data}", column=column) for end in ("", WITHOUT)]
            if pair[0] and pair[1]:
                found[f"{model} on {data}"] = pair[0].mean - pair[1].mean
    return found


def _where_much_changes(results: Results) -> tuple[bool | None, str]:
    there, all_of_them = _gains(results, "larger changes"), _gains(results, "all")
    if not there:
        return None, ""
    more = {name: gain - all_of_them[name] for name, gain in there.items()}
    return min(more.values()) > NOISE, f"gain there less gain on all: {_listed(more)}"


def _slowly(results: Results) -> tuple[bool | None, str]:
    near, far = (value(results, "horizon", column=column) for column in ("1", "8"))
    if not near or not far:
        return None, ""
    return near.mean - far.mean < 4, f"ΔT = 1: {near.mean:.2f}, ΔT = 8: {far.mean:.2f} (paper: 42.86, 39.10)"


def _irregular(results: Results) -> tuple[bool | None, str]:
    lost = {}
    for model in ("TANGO-TuckER", "TANGO-DistMult"):
        thin, whole = (value(results, "irregular", row=model, column=data) for data in (THINNED, "ICEWS05-15"))
        if thin and whole:
            lost[model] = thin.mean - whole.mean
    return (min(lost.values()) > -5.5, f"{_listed(lost)} (paper: -5.17, -3.80)") if lost else (None, "")


def _unseen(results: Results) -> tuple[bool | None, str]:
    found = {}
    for model in ("TANGO-TuckER", "TANGO-DistMult"):
        pair = [value(results, "inductive", row=model + end, column="time-aware") for end in ("", WITHOUT)]
        if pair[0] and pair[1]:
            found[f"{model} ({pair[0].mean:.2f})"] = pair[0].mean - pair[1].mean
    return (min(found.values()) > NOISE, f"{_listed(found)} (paper: +0.63, +1.29)") if found else (None, "")


def _history(results: Results) -> tuple[bool | None, str]:
    by_length = {n: value(results, "history", column=str(n)) for n in range(1, 8)}
    there = {n: found.mean for n, found in by_length.items() if found}
    if not {1, 4, 7} <= set(there):
        return None, ""
    figures = ", ".join(f"{n}: {mrr:.2f}" for n, mrr in there.items())
    return there[4] - there[1] > NOISE and there[7] - there[4] < there[4] - there[1], figures


def _listed(gains: dict[str, float]) -> str:
    return ", ".join(f"{name} {gain:+.2f}" for name, gain in gains.items())


CLAIMS = (
    Claim("The transition layer helps", _transition),
    Claim("It helps most where much changes", _where_much_changes),
    Claim("Accuracy falls slowly with ΔT (by less than 4 points from 1 to 8 days; 3.76 in the paper)", _slowly),
    Claim("Irregular times cost little (about 5 points at most, as in the paper)", _irregular),
    Claim("Unseen entities gain from the transition layer (inductive MRR)", _unseen),
    Claim("A longer history helps up to about four snapshots", _history),
)


def dynamics(results: Results) -> str:
    """What the dynamics add, in a sentence: test MRR as it is against the same model with time standing still."""
    texts, left = [], []
    for form in ("paper form", "ours"):
        gains = {}
        for data in MEASURED:
            row = next(cell.row for cell in find_table("dynamics").cells if cell.row.startswith(f"{data},"))
            moving, off = (
                value(results, "dynamics", row=row, column=c, form=form) for c in ("as it is", "trained without")
            )
            if moving and off:
                gains[data] = moving.mean - off.mean
            else:
                left.append(f"{form} on {data}")
        if gains:
            texts.append(f"in {'our own form' if form == 'ours' else 'the paper form'} {_listed(gains)}")
    told = f"What the dynamics add, test MRR with them less test MRR of the same model without: {'; '.join(texts)}."
    if not texts:
        told = "What the dynamics add, test MRR with them less that of the same model without, is not measured yet."
    elif left:
        told += f" Not measured yet: {', '.join(left)}."
    return told


def goals(results: Results) -> list[tuple[str, str, str, str]]:
    """Each set: the paper's best, our best paper-form preset, and whether it is reached."""
    rows = []
    for data in MEASURED:
        table = find_table("main")
        printed = table.paper.values if table.paper else {}
        of_set = [float(p.value) for (_, column, metric), p in printed.items() if (column, metric) == (data, "mrr")]
        best = max(of_set) if of_set else REMEASURED[data]
        models = {model: value(results, "main", row=model, column=data) for model in ("TANGO-TuckER", "TANGO-DistMult")}
        there = {model: found for model, found in models.items() if found}
        if not there:
            rows.append((data, f"{best:.2f}", OPEN, ""))
            continue
        model, found = max(there.items(), key=lambda item: item[1].mean)
        around = "" if found.spread is None else f" ± {found.spread:.2f}"
        reached = "reached" if found.mean >= best else "**missed**"
        rows.append((data, f"{best:.2f}", f"{found.mean:.2f}{around} ({model}, {found.seeds} seeds)", reached))
    return rows

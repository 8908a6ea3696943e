"""The paper's claims in words, tested on our results: each is true, not true, or not measured yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tangokg.reproduce.cells import WITHOUT, find_table
from tangokg.reproduce.presets import (
    DECODERS,
    MEASURED,
    STEP_TIME,
    THINNED,
    WINDOWS,
    paper_settings,
    paper_step_time,
)
from tangokg.reproduce.store import Results, Value, at

OPEN = "not measured yet"
COUNTING = "baseline-recurrency/"
NOISE = 0.3  # points of MRR: a smaller difference says nothing with one seed
Groups = Mapping[str, Any]  # of snapshots, as measured by change


Cases = list[bool | None]  # true, not true, or within the noise


@dataclass(frozen=True)
class Claim:
    """What is claimed, and a function of the results that says what they show."""

    text: str
    table: str  # whose cells it is tested on
    test: Callable[[Results], tuple[Cases, str]]  # none: not measured; and the figures

    def told(self, results: Results) -> tuple[str, str, str]:
        """Claim, verdict, figures."""
        holds, figures = self.test(results)
        if not holds:
            return self.text, OPEN, fill_with(self.table)
        some = f"**in {holds.count(True)} of {len(holds)} cases**"
        none = "**not true**" if False in holds else "**not shown**"
        return self.text, "true" if all(holds) else some if any(holds) else none, figures


def value(results: Results, table: str, **place: str) -> Value | None:
    """The paper-form value of one cell."""
    cells = find_table(table).of(**({"form": "paper form", "metric": "mrr"} | place))
    return results.value(cells[0]) if cells else None


def _transition(results: Results) -> tuple[Cases, str]:
    gains, noise = _gains(results, lambda groups: groups["all"]["mrr"]), _noise(results)
    return _cases(gains, noise), f"{_listed(gains)}; noise: {_sizes(noise)}"


def _gains(results: Results, asked: Callable[[Groups], float]) -> dict[str, float]:
    """What the layer adds to a figure of the groups of snapshots, by model and set."""
    found = {}
    for data in ("ICEWS05-15", "WIKI"):
        for decoder, model in DECODERS.items():
            names = (f"paper-{decoder}{end}/{data}" for end in ("", "-without-transition"))
            groups = [at(r[0], "protocols", "snapshots") for name in names if (r := results.of(name))]
            if len(groups) == 2 and None not in groups:
                found[f"{model} on {data}"] = asked(groups[0]) - asked(groups[1])
    return found


def _noise(results: Results) -> dict[str, float]:
    """From which size on a difference of two runs counts: twice its standard deviation, where there are seeds."""
    found = {}
    for data in ("ICEWS05-15", "WIKI"):
        for model in DECODERS.values():
            seeds = value(results, "main", row=model, column=data)
            spread = seeds.spread if seeds and seeds.spread is not None else 0.0
            found[f"{model} on {data}"] = max(NOISE, 2 * 2**0.5 * spread)
    return found


def _cases(gains: Mapping[str, float], noise: Mapping[str, float] | None = None) -> Cases:
    """Which gains are there, which are losses, and which are neither."""
    sizes = {name: noise[name] if noise else NOISE for name in gains}
    return [None if abs(gain) <= sizes[name] else gain > 0 for name, gain in gains.items()]


def _where_much_changes(results: Results) -> tuple[Cases, str]:
    """Against the rest of the snapshots: all of them would hold the larger changes as well."""

    def more(groups: Groups) -> float:
        larger, every = groups["larger"], groups["all"]
        rest = every["mrr"] * every["queries"] - larger["mrr"] * larger["queries"]
        return float(larger["mrr"] - rest / (every["queries"] - larger["queries"]))

    gains, noise = _gains(results, more), _noise(results)
    return _cases(gains, noise), f"gain there less gain on the rest: {_listed(gains)}; noise: {_sizes(noise)}"


def _slowly(results: Results) -> tuple[Cases, str]:
    near, far = (value(results, "horizon", column=column) for column in ("1", "8"))
    if not near or not far:
        return [], ""
    ours = [found.mean for c in ("1", "8") if (found := value(results, "horizon", column=c, form="ours"))]
    told = f"; ours: {ours[0]:.2f}, {ours[1]:.2f}" if len(ours) == 2 else ""
    step = f"in steps of {STEP_TIME['ICEWS05-15']:g} where the paper's are {paper_step_time('ICEWS05-15'):.0e}"
    figures = f"ΔT = 1: {near.mean:.2f}, ΔT = 8: {far.mean:.2f}, {step} (paper: 42.86, 39.10){told}"
    return [near.mean - far.mean < 4], figures


def _irregular(results: Results) -> tuple[Cases, str]:
    lost = {}
    for model in ("TANGO-TuckER", "TANGO-DistMult"):
        thin, whole = (value(results, "irregular", row=model, column=data) for data in (THINNED, "ICEWS05-15"))
        if thin and whole:
            lost[model] = thin.mean - whole.mean
    return [gain > -5.5 for gain in lost.values()], f"{_listed(lost)}{_counted_on(results)}"


def _counted_on(results: Results) -> str:
    """What counting loses by the same: how much of the loss is that of the data."""
    pair = [at(r[0], "test", "time-aware", "mrr") for d in (THINNED, "ICEWS05-15") if (r := results.of(COUNTING + d))]
    return f"; counting {pair[0] - pair[1]:+.2f}" if len(pair) == 2 else ""


def _unseen(results: Results) -> tuple[Cases, str]:
    found = {}
    for model in ("TANGO-TuckER", "TANGO-DistMult"):
        pair = [value(results, "inductive", row=model + end, column="time-aware") for end in ("", WITHOUT)]
        if pair[0] and pair[1]:
            found[f"{model} ({pair[0].mean:.2f})"] = pair[0].mean - pair[1].mean
    return _cases(found), f"{_listed(found)} (paper: +0.63 to 5.81, +1.29 to 5.05)"


def _history(results: Results) -> tuple[Cases, str]:
    by_length = {n: value(results, "history", column=str(n)) for n in range(1, 8)}
    there = {n: found.mean for n, found in by_length.items() if found}
    if not {1, 4, 7} <= set(there):
        return [], ""
    figures = ", ".join(f"{n}: {mrr:.2f}" for n, mrr in there.items())
    return [there[4] - there[1] > NOISE and there[7] - there[4] < there[4] - there[1]], figures


def _sizes(noise: Mapping[str, float]) -> str:
    return ", ".join(f"{size:.2f}" for size in noise.values())


def _listed(gains: dict[str, float]) -> str:
    return ", ".join(f"{name} {round(gain, 2) + 0.0:+.2f}" for name, gain in gains.items())  # no -0.00


CLAIMS = (
    Claim("The transition layer helps", "ablation", _transition),
    Claim("It helps most where much changes", "ablation", _where_much_changes),
    Claim(
        "Accuracy falls slowly with ΔT (by less than 4 points from 1 to 8 days; 3.76 in the paper)", "horizon", _slowly
    ),
    Claim("Irregular times cost little (5.5 points at most; 5.17 and 3.80 in the paper)", "irregular", _irregular),
    Claim("Unseen entities gain from the transition layer (inductive MRR)", "inductive", _unseen),
    Claim("A longer history helps up to about four snapshots", "history", _history),
)


def counted(number: int, one: str) -> str:
    return f"{number} {one}" + "s" * (number != 1)


def fill_with(table: str) -> str:
    """The command that makes what a table lacks."""
    return f"`tango reproduce --run --only {table}`"


def dynamics(results: Results) -> str:
    """What the dynamics add, in a paragraph: test MRR as it is against the same model trained without, set by set."""
    texts, left = [], []
    without, graphs, short = "trained without", "trained with other graphs", f"window {WINDOWS[0]:g}"
    for form, name in (("paper form", "the paper form"), ("ours", "our own form")):
        gains = _added(results, form, "as it is", without)
        left += [f"{form} on {data}" for data in MEASURED if data not in gains]
        if gains:
            helped, hurt = (sum(sign * gain > NOISE for gain in gains.values()) for sign in (1, -1))
            told = f"in {name} {_listed(gains)}, so that they help on {helped} of {counted(len(gains), 'set')}"
            told += f" and hurt on {hurt}" if hurt else ""
            at_first, of_graphs = _added(results, form, short, without), _added(results, form, "as it is", graphs)
            if at_first:
                told += f"; with a solver time of {WINDOWS[0]:g} a window{_windows(form)} {_listed(at_first)}"
            told += f"; against training on the graphs of other windows {_listed(of_graphs)}" if of_graphs else ""
            texts.append(told)
    what = "What the dynamics add, as test MRR of a model less that of the same model trained without its ODE"
    if not texts:
        return f"{what}, is not measured yet: {fill_with('dynamics')}."
    about = f" A difference of {NOISE} points or less says nothing: most are of one seed."
    end = f" Not measured yet: {', '.join(left)} ({fill_with('dynamics')})." if left else ""
    return f"{what}: {'. And '.join(texts)}.{about}{end}"


def _windows(form: str) -> str:
    """How long the paper's windows are, told once."""
    windows = [paper_step_time(d) * paper_settings(d, "tucker")["history"] for d in MEASURED]
    return f" (the paper's are {min(windows):.1g} to {max(windows):.1g} long)" if form == "paper form" else ""


def _added(results: Results, form: str, column: str, than: str) -> dict[str, float]:
    """Data set -> MRR of one column less that of another, where both are there."""
    found = {}
    for data in MEASURED:
        row = next(cell.row for cell in find_table("dynamics").cells if cell.row.startswith(f"{data},"))
        pair = [value(results, "dynamics", row=row, column=c, form=form) for c in (column, than)]
        if pair[0] and pair[1]:
            found[data] = pair[0].mean - pair[1].mean
    return found

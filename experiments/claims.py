"""The paper's claims tested on our results: each case is true, not true, or within the noise of seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from experiments.bench.shown import markdown
from experiments.experiment import THINNED
from experiments.show import MISSING, gain, value_of
from experiments.store import Results, Value, at
from experiments.tables import HISTORIES, SETS, WITHOUT, best_decoder, row_of, tables

NOISE = 0.3  # points of MRR: a smaller difference says nothing with one seed
PAIRS = [(decoder, data) for data in ("ICEWS05-15", "WIKI") for decoder in ("tucker", "distmult")]

Cases = list[bool | None]  # None: within the noise
Verdict = tuple[Cases, str]  # no cases: not measured; and the figures


def paper_form(results: Results, table: str, **place: str) -> Value | None:
    """The MRR of one cell in the paper's form, or in another."""
    cells = tables()[table].of(**({"form": "paper form", "metric": "mrr"} | place))
    return value_of(cells[0], results) if cells else None


def _judge_transition(results: Results, figure: Callable[[Mapping[str, dict[str, float]]], float]) -> Verdict:
    """The gain of the transition layer in a metric of the groups of snapshots, by model and set; first seeds.

    A difference of two runs counts from twice its standard deviation on, where there are seeds.
    """
    gains, noise = {}, {}
    for decoder, data in PAIRS:
        name = f"{row_of(decoder)} on {data}"
        seeds = results.mrr(f"paper-{decoder}/{data}")
        noise[name] = max(NOISE, 2 * 2**0.5 * ((seeds and seeds.spread) or 0.0))
        runs = [results.of(f"paper-{decoder}{end}/{data}")[:1] for end in ("", "-without-transition")]
        groups = [group for first in runs for result in first if (group := at(result, "protocols", "snapshots"))]
        if len(groups) == 2:
            gains[name] = figure(groups[0]) - figure(groups[1])
    return _cases(gains, noise), f"{_listed(gains)}; noise: {', '.join(f'{size:.2f}' for size in noise.values())}"


def _cases(gains: Mapping[str, float], noise: Mapping[str, float]) -> Cases:
    """Gain (True), loss (False) or noise (None) of each change."""
    return [None if abs(gain) <= noise[name] else gain > 0 for name, gain in gains.items()]


def _listed(gains: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {round(gain, 2) + 0.0:+.2f}" for name, gain in gains.items())  # no -0.00


def transition_helps(results: Results) -> Verdict:
    return _judge_transition(results, lambda groups: groups["all"]["mrr"])


def helps_where_much_changes(results: Results) -> Verdict:
    """Compare with the other snapshots, because all snapshots would include the larger changes."""

    def more(groups: Mapping[str, dict[str, float]]) -> float:
        larger, total = groups["larger"], groups["all"]
        rest = total["mrr"] * total["queries"] - larger["mrr"] * larger["queries"]
        return larger["mrr"] - rest / (total["queries"] - larger["queries"])

    return _judge_transition(results, more)


def falls_slowly(results: Results) -> Verdict:
    one_step, eight_steps = (paper_form(results, "horizon", row="TANGO-TuckER", column=column) for column in "18")
    if not one_step or not eight_steps:
        return [], ""
    ours = [paper_form(results, "horizon", row="TANGO-TuckER", column=column, form="ours") for column in "18"]
    comparison = f"; ours {ours[0].mean:.2f}, {ours[1].mean:.2f}" if ours[0] and ours[1] else ""
    return [one_step.mean - eight_steps.mean < 4], f"{one_step.mean:.2f}, {eight_steps.mean:.2f}{comparison}"


def irregular_costs_little(results: Results) -> Verdict:
    files = {"TANGO-TuckER": "paper-tucker", "TANGO-DistMult": "paper-distmult", "counting": "baseline-recurrency"}
    changes = {}
    for model, file in files.items():
        thinned, complete = (results.mrr(f"{file}/{data}") for data in (THINNED, "ICEWS05-15"))
        if thinned and complete:
            changes[model] = thinned.mean - complete.mean
    return [change > -5.5 for model, change in changes.items() if model != "counting"], _listed(changes)


def unseen_gain(results: Results) -> Verdict:
    gains = {}
    for model in ("TANGO-TuckER", "TANGO-DistMult"):
        pair = [paper_form(results, "inductive", row=model + end, column="time-aware") for end in ("", WITHOUT)]
        if pair[0] and pair[1]:
            gains[f"{model} ({pair[0].mean:.2f})"] = pair[0].mean - pair[1].mean
    return _cases(gains, dict.fromkeys(gains, NOISE)), _listed(gains)


def history_helps(results: Results) -> Verdict:
    values = {length: paper_form(results, "history", column=length) for length in HISTORIES}
    mrr = {length: value.mean for length, value in values.items() if value}
    if not {"1", "4", "7"} <= set(mrr):
        return [], ""
    holds = mrr["4"] - mrr["1"] > NOISE and mrr["7"] - mrr["4"] < mrr["4"] - mrr["1"]
    return [holds], ", ".join(f"{length}: {value:.2f}" for length, value in mrr.items())


CLAIMS: dict[str, Callable[[Results], Verdict]] = {  # docs/results.md says each in words
    "transition": transition_helps,
    "much changes": helps_where_much_changes,
    "horizon": falls_slowly,
    "irregular": irregular_costs_little,
    "unseen": unseen_gain,
    "history": history_helps,
}


def verdict(cases: Cases) -> str:
    """The verdict of all cases of a claim together."""
    if not cases:
        return "not measured"
    if any(cases):
        return "true" if all(cases) else f"**in {cases.count(True)} of {len(cases)} cases**"
    return "**not true**" if False in cases else "**not shown**"


def show_claim(name: str, results: Results) -> str:
    """Verdict and figures."""
    cases, figures = CLAIMS[name](results)
    return f"{verdict(cases)}: {figures}" if cases else verdict(cases)


def show_gains(results: Results) -> str:
    """The gain of the dynamics: test MRR of a model minus that of the same model trained without, by set."""
    rows = []
    compared = (
        ("usual windows", "as it is", "trained without"),
        ("windows of 0.001", "window 0.001", "trained without"),
        ("usual windows, against graphs of other windows", "as it is", "trained with other graphs"),
    )
    for form in ("paper form", "ours"):
        for what, *columns in compared:
            gains = []
            for data in SETS:
                row = f"{data}, {row_of(best_decoder(data))}"
                more, less = (paper_form(results, "dynamics", row=row, column=c, form=form) for c in columns)
                gains.append(gain(more, less, MISSING))
            rows.append((form, what, *gains))
    return markdown(("form", "dynamics with", *SETS), rows, left=2)
